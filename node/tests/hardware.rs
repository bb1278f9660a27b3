//! The hardware sampler on this machine's real kernel and on a stand-in NVML library that can
//! be steered to misbehave. Needs `rustc` to build the stand-in; reads a real GPU if there is one.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop at the first surprise")]

#[path = "hardware/bench.rs"]
mod bench;
#[expect(dead_code, unreachable_pub, reason = "other tests need the other probes")]
#[path = "../../tests/src/capability.rs"]
mod capability;
#[path = "hardware/gpu_faults.rs"]
mod gpu_faults;
#[path = "hardware/gpu_figures.rs"]
mod gpu_figures;
#[path = "hardware/gpu_losses.rs"]
mod gpu_losses;
#[path = "hardware/gpu_throttle.rs"]
mod gpu_throttle;
#[path = "hardware/host.rs"]
mod host;
#[path = "../../tests/nvml_stub/library.rs"]
mod library;
#[path = "hardware/real_gpu.rs"]
mod real_gpu;
