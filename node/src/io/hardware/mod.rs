//! Hardware sampling: once a second, every sensor of this machine as [`Reading`]s.
//!
//! Threads, so that a slow part delays nobody: `host` reads what the kernel keeps in memory and
//! sends the sample; `devices` (file systems, temperatures, clocks) and `gpu` (NVML) may hang in
//! a driver, `watched` looks through all processes. These only leave their latest readings for
//! `host` to pick up, as [`SensorState::Stale`](plimsoll_schemas::hardware::SensorState::Stale)
//! once they are old. Each says what it costs.
//!
//! Each idea has its file, which reads what it needs below one root and takes it apart with
//! functions that are pure.
//! Nothing here judges a value, keeps a history or touches the async runtime; a sensor that
//! cannot be read is reported as absent, never as zero.

mod blocks;
mod cgroup;
mod cpu;
mod devices;
mod disks;
mod frequency;
mod gather;
mod gpu;
mod host;
mod hwmon;
mod lifeline;
mod machine;
mod memory;
mod network;
mod own;
mod pressure;
mod root;
mod sampling;
mod scale;
mod slot;
mod table;
#[cfg(test)]
mod tests;
mod throttle;
mod timekeeping;
mod watched;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::SENSOR_STOP_WAIT;
use plimsoll_clock::Clock;
use plimsoll_schemas::hardware::{
    GPU_UTILIZATION_RATIO, Reading, TEMPERATURE_CELSIUS, WATCHED_PROCESSES,
};
use serde::Deserialize;
use tokio::sync::mpsc;

use self::host::HostLoop;
use self::lifeline::Lifeline;
use self::root::Root;
use self::sampling::Sampling;
use self::slot::Slot;
use crate::config::{Watch, watches};

/// What is sampled.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HardwareConfig {
    /// Samples hardware at all; off means no thread and no reading. Default on; costs under
    /// 0.1 % of a core on a small machine.
    pub enabled: bool,
    /// Reads NVIDIA GPUs, each ten times a second. Default on; costs about 0.1 % of a core for
    /// each, and without a driver one look for the library a minute.
    pub gpu: bool,
    /// The NVML library to load; by default `libnvidia-ml.so.1` where the loader finds it.
    pub nvml_library: Option<PathBuf>,
    /// Where `proc` and `sys` are looked for, an absolute path. Default `/`, this machine. Below
    /// another, such as a host's root inside a container or a recorded tree, files are opened anew
    /// at each sample, and a recorded one's clock is not asked.
    pub root: PathBuf,
    /// Processes whose figures are summed; none by default, and then no thread looks for any.
    #[serde(deserialize_with = "watches")]
    pub watch: Vec<Watch>,
}

impl Default for HardwareConfig {
    fn default() -> Self {
        let (root, watch) = (PathBuf::from("/"), Vec::new());
        Self { enabled: true, gpu: true, nvml_library: None, root, watch }
    }
}

/// Counts what did not become a delivered reading.
#[derive(Debug, Default)]
struct Tally {
    missed: AtomicU64,
    skipped: AtomicU64,
}

impl Tally {
    fn skip(&self, readings: u64) {
        self.skipped.fetch_add(readings, Ordering::Relaxed);
    }
}

/// The sampling threads; dropping it ends them.
#[derive(Debug)]
pub struct Sampler {
    lifeline: Arc<Lifeline>,
    tally: Arc<Tally>,
    // Keeps the receiver open while sampling is switched off: a closed one reads as stopped.
    _samples: mpsc::Sender<Vec<Reading>>,
}

impl Sampler {
    /// Starts the threads. The receiver gets one `Vec` a second, none when `enabled` is off,
    /// and is closed once the sampler has been stopped.
    #[must_use]
    pub fn start(config: &HardwareConfig) -> (Self, mpsc::Receiver<Vec<Reading>>) {
        let (samples, receiver) = mpsc::channel(1);
        let (lifeline, tally) = (Arc::new(Lifeline::default()), Arc::new(Tally::default()));
        if config.enabled {
            spawn_all(config, &lifeline, &tally, &samples);
        }
        (Self { lifeline, tally, _samples: samples }, receiver)
    }

    /// Samples that nobody had taken when the next one was ready.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.tally.missed.load(Ordering::Relaxed)
    }

    /// Readings left out of samples: over a bound of `limits.rs`, or not to be named in labels.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.tally.skipped.load(Ordering::Relaxed)
    }

    /// Ends the threads and waits for them, for at most
    /// [`SENSOR_STOP_WAIT`]; one that hangs in a driver is left behind.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.lifeline.cut();
        let left = self.lifeline.await_threads(SENSOR_STOP_WAIT);
        if left > 0 {
            tracing::warn!(threads = left, "hardware threads hang in a driver and are left behind");
        }
    }
}

fn spawn_all(
    config: &HardwareConfig,
    lifeline: &Arc<Lifeline>,
    tally: &Arc<Tally>,
    samples: &mpsc::Sender<Vec<Reading>>,
) {
    let (clock, root) = (Clock::start(), Root::new(&config.root));
    let mut slots = Vec::new();
    if config.gpu {
        let slot = Arc::new(Slot::new("gpu", &GPU_UTILIZATION_RATIO, clock.now().mono));
        let gpus = gpu::Gpus {
            clock,
            library: config.nvml_library.clone(),
            tally: Arc::clone(tally),
            slot: Arc::clone(&slot),
            sampling: Sampling::of("gpu"),
        };
        lifeline.spawn("hw-gpu", move |lifeline| gpus.run(lifeline));
        slots.push(slot);
    }
    let slot = Arc::new(Slot::new("devices", &TEMPERATURE_CELSIUS, clock.now().mono));
    let mut devices = devices::Devices::new(&root, Arc::clone(tally));
    lifeline.spawn("hw-devices", slot.filler(clock, move |now| devices.sample(now)));
    slots.push(slot);
    if !config.watch.is_empty() {
        let slot = Arc::new(Slot::new("watched", &WATCHED_PROCESSES, clock.now().mono));
        let (watches, tally) = (config.watch.clone(), Arc::clone(tally));
        let mut watched = watched::Watched::new(&root, watches, tally);
        lifeline.spawn("hw-watched", slot.filler(clock, move |now| watched.sample(now)));
        slots.push(slot);
    }
    let (tally, samples) = (Arc::clone(tally), samples.clone());
    let host = HostLoop { clock, root, slots, tally, samples };
    lifeline.spawn("hw-host", move |lifeline| host.run(lifeline));
}
