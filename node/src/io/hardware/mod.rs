//! Hardware sampling: once a second, every sensor of this machine as [`Reading`]s.
//!
//! Runs on threads, so that a slow part delays nothing else: `host` reads what the kernel keeps in
//! memory and sends the sample; `devices` (file systems, temperatures, clocks) and `gpu` (NVML) may
//! hang in a driver, `watched` scans all processes. These store their latest readings for `host`,
//! which marks them as [`SensorState::Stale`](plimsoll_schemas::hardware::SensorState::Stale)
//! once they are old. Each reports its cost.
//!
//! Each group of sensors has its file, which reads below one root and parses with pure functions.
//! Nothing here judges a value, keeps a history or uses the async runtime. A sensor that cannot be
//! read is reported as absent, never as zero.

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
mod losses;
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

use std::sync::Arc;

use crate::limits::SENSOR_STOP_WAIT;
use plimsoll_clock::Clock;
use plimsoll_schemas::hardware::{
    GPU_UTILIZATION_RATIO, Reading, TEMPERATURE_CELSIUS, WATCHED_PROCESSES,
};
use tokio::sync::mpsc;

use self::host::HostLoop;
use self::lifeline::Lifeline;
use self::losses::Losses;
use self::root::Root;
use self::sampling::Sampling;
use self::slot::Slot;
use crate::config::HardwareSettings;

/// The sampling threads; dropping it ends them.
#[derive(Debug)]
pub struct Sampler {
    lifeline: Arc<Lifeline>,
    losses: Arc<Losses>,
    // Keeps the receiver open while sampling is switched off: a closed one reads as stopped.
    _samples: mpsc::Sender<Vec<Reading>>,
}

impl Sampler {
    /// Starts the threads. The receiver gets one `Vec` a second, none when `enabled` is off,
    /// and is closed once the sampler has been stopped.
    #[must_use]
    pub fn start(config: &HardwareSettings) -> (Self, mpsc::Receiver<Vec<Reading>>) {
        let (samples, receiver) = mpsc::channel(1);
        let (lifeline, losses) = (Arc::new(Lifeline::default()), Arc::new(Losses::default()));
        if config.enabled {
            spawn_all(config, &lifeline, &losses, &samples);
        }
        (Self { lifeline, losses, _samples: samples }, receiver)
    }

    /// Samples that were not received when the next one was ready.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.losses.missed()
    }

    /// Readings left out of samples: over a bound of `limits.rs`, or not to be named in labels.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.losses.skipped()
    }

    /// Ends the threads and waits for them, for at most [`SENSOR_STOP_WAIT`]; one that hangs in a
    /// driver is left behind.
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
    config: &HardwareSettings,
    lifeline: &Arc<Lifeline>,
    losses: &Arc<Losses>,
    samples: &mpsc::Sender<Vec<Reading>>,
) {
    let (clock, root) = (Clock::start(), Root::new(&config.root));
    let mut slots = Vec::new();
    if config.gpu {
        let slot = Arc::new(Slot::new("gpu", &GPU_UTILIZATION_RATIO, clock.now().mono));
        let gpus = gpu::Gpus {
            clock,
            library: config.nvml_library.clone(),
            losses: Arc::clone(losses),
            slot: Arc::clone(&slot),
            sampling: Sampling::of("gpu"),
        };
        lifeline.spawn("hw-gpu", move |lifeline| gpus.run(lifeline));
        slots.push(slot);
    }
    let slot = Arc::new(Slot::new("devices", &TEMPERATURE_CELSIUS, clock.now().mono));
    let mut devices = devices::Devices::new(&root, Arc::clone(losses));
    lifeline.spawn("hw-devices", slot.filler(clock, move |now| devices.sample(now)));
    slots.push(slot);
    if !config.watch.is_empty() {
        let slot = Arc::new(Slot::new("watched", &WATCHED_PROCESSES, clock.now().mono));
        let (watches, losses) = (config.watch.clone(), Arc::clone(losses));
        let mut watched = watched::Watched::new(&root, watches, losses);
        lifeline.spawn("hw-watched", slot.filler(clock, move |now| watched.sample(now)));
        slots.push(slot);
    }
    let (losses, samples) = (Arc::clone(losses), samples.clone());
    let host = HostLoop { clock, root, slots, losses, samples };
    lifeline.spawn("hw-host", move |lifeline| host.run(lifeline));
}
