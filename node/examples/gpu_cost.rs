//! What polling GPUs costs: CPU time of the `gpu` thread per second and its longest poll, on the
//! stand-in NVML library, for 1, 2, 8 and 16 GPUs that have everything. The stand-in's own share
//! (a `stat` and a formatted key for each figure) is in it; a driver's calls cost more or less.
//!
//! `cargo run --release -p plimsoll-node --example gpu_cost` needs `rustc` and takes a minute.

use std::time::Duration;

use plimsoll_clock::{Deadline, Stopwatch};
use plimsoll_node::config::HardwareSettings;
use plimsoll_node::io::hardware::Sampler;
use plimsoll_schemas::hardware::{
    Reading, SAMPLING_CPU_SECONDS_TOTAL, SAMPLING_WORST_SECONDS, Sensor,
};

#[path = "../../tests/nvml_stub/library.rs"]
mod library;

const INTERVALS: u32 = 10;
const EVERYTHING: &str = "nvlinks=18\nfans=2\nutilization=90\nxid=79\nmig=7\n";

fn main() {
    for (gpus, extra) in [(1, ""), (2, ""), (8, ""), (16, ""), (8, "pcie_ms=20\n")] {
        measure(gpus, extra);
    }
}

fn measure(gpus: u32, extra: &str) {
    let dir = tempfile::tempdir().expect("a folder for the stand-in");
    let library = library::build(dir.path(), &["-O"]);
    library::steer(dir.path(), &format!("gpus={gpus}\n{EVERYTHING}{extra}"));
    let config = HardwareSettings { nvml_library: Some(library), ..HardwareSettings::default() };
    let (sampler, mut samples) = Sampler::start(&config);
    let deadline = Deadline::within(Duration::from_secs(60));
    let (mut first, mut last, mut worst, mut taken) = (None, 0.0, 0.0_f64, 0);
    let watch = Stopwatch::start();
    while taken <= INTERVALS && deadline.pause(Duration::from_millis(20)) {
        let Ok(sample) = samples.try_recv() else { continue };
        let Some(cpu) = of_thread(&sample, &SAMPLING_CPU_SECONDS_TOTAL) else { continue };
        first = first.or_else(|| Some((cpu, watch.elapsed())));
        last = cpu;
        worst = worst.max(of_thread(&sample, &SAMPLING_WORST_SECONDS).unwrap_or_default());
        taken += 1;
        if taken > INTERVALS {
            report(gpus, extra, &sample);
        }
    }
    let (first, at) = first.expect("a sample of GPUs within a minute");
    let share = (last - first) / (watch.elapsed() - at).as_secs_f64();
    println!("  {:.3} % of a core, longest poll {:.2} ms", share * 100.0, worst * 1e3);
    sampler.stop();
}

fn report(gpus: u32, extra: &str, sample: &[Reading]) {
    let readings = sample.iter().filter(|reading| reading.sensor.starts_with("gpu")).count();
    println!("{gpus} GPUs {}: {readings} readings of {}", extra.trim(), sample.len());
}

fn of_thread(sample: &[Reading], sensor: &Sensor) -> Option<f64> {
    let of_gpus = |reading: &&Reading| {
        reading.sensor == sensor.name && reading.labels.get("thread") == Some("gpu")
    };
    sample.iter().find(of_gpus)?.value
}
