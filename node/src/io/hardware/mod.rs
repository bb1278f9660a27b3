//! Hardware sampling: each interval, every sensor of this machine as [`Reading`]s.
//!
//! Runs on threads, so that a slow part delays nothing else: `host` reads what the kernel keeps in
//! memory and sends the sample; `devices` (file systems, temperatures, clocks) and `gpu` (NVML) may
//! hang in a driver, `watched` scans all processes. These store their latest readings for `host`,
//! which marks them as [`SensorState::Stale`](plimsoll_schemas::hardware::SensorState::Stale)
//! once they are old. Each reports its cost.
//!
//! Each group of sensors has its reader, which reads below one root and parses with pure functions:
//!
//! - on `host`: `machine` (files with one figure of each kind, as /proc/loadavg and meminfo), `cpu`
//!   (/proc/stat), `pressure`, `cgroup`, `network` (/proc/net/dev), `blocks` (/proc/diskstats),
//!   `timekeeping` (the kernel's clock), `own` (this process),
//!   `description` (what machine it is);
//! - on `devices`: `disks` (space of file systems), `hwmon` (temperatures), `frequency`,
//!   `throttle`;
//! - `gpu`: `one` at each poll, `aside` once an interval; `watched`.
//!
//! A reader puts its readings into a `gather`. `root` reads files, `table` and `scale` parse them.
//! Nothing here judges a value, keeps a history or uses the async runtime. A sensor that cannot be
//! read is reported as absent, never as zero.

mod asker;
mod blocks;
mod cgroup;
mod cpu;
mod description;
mod devices;
mod disks;
mod frequency;
mod gather;
mod gpu;
mod host;
mod hwmon;
mod lifeline;
mod machine;
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

pub(in crate::io) use watched::processes_called;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::limits::{SENSOR_EVERY, SENSOR_STOP_WAIT};
use plimsoll_clock::Clock;
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::hardware::{
    GPU_UTILIZATION_RATIO, Reading, Sensor, TEMPERATURE_CELSIUS, WATCHED_PROCESSES,
};
use tokio::sync::mpsc;

use self::host::HostLoop;
use self::lifeline::Lifeline;
use self::root::Root;
use self::sampling::Sampling;
use self::slot::ThreadReadings;
use crate::config::{HardwareSettings, Watch};

/// The sampling threads; dropping it ends them.
#[derive(Debug)]
pub struct Sampler {
    lifeline: Arc<Lifeline>,
    missed: Arc<AtomicU64>,
    // Keeps the receiver open while sampling is switched off: a closed one reads as stopped.
    _samples: mpsc::Sender<Vec<Reading>>,
}

impl Sampler {
    /// Starts the threads. The receiver gets one `Vec` an interval, none when `enabled` is off,
    /// and is closed once the sampler has been stopped.
    pub fn start(
        config: &HardwareSettings,
        supervisor: &Supervisor,
    ) -> (Self, mpsc::Receiver<Vec<Reading>>) {
        let (samples, receiver) = mpsc::channel(1);
        let (lifeline, missed) = (Arc::new(Lifeline::default()), Arc::new(AtomicU64::new(0)));
        if config.enabled {
            spawn_all(config, &lifeline, &missed, &samples, supervisor);
        }
        (Self { lifeline, missed, _samples: samples }, receiver)
    }

    /// Samples that were not received when the next one was ready.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
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
            tracing::warn!(
                threads = left,
                "hardware threads hang in a driver; exiting without them"
            );
        }
    }
}

/// What the threads share.
struct Threads<'s> {
    clock: Clock,
    every: Duration,
    root: Root,
    lifeline: &'s Arc<Lifeline>,
    missed: &'s Arc<AtomicU64>,
    supervisor: &'s Supervisor,
}

fn spawn_all(
    config: &HardwareSettings,
    lifeline: &Arc<Lifeline>,
    missed: &Arc<AtomicU64>,
    samples: &mpsc::Sender<Vec<Reading>>,
    supervisor: &Supervisor,
) {
    let (clock, root) = (Clock::start(), Root::new(&config.root));
    let every = config.interval();
    let threads = Threads { clock, every, root, lifeline, missed, supervisor };
    let mut slots = Vec::new();
    if config.gpu {
        slots.push(threads.spawn_gpu(config.nvml_library.clone()));
    }
    slots.push(threads.spawn_devices());
    if !config.watch.is_empty() {
        slots.push(threads.spawn_watched(config.watch.clone()));
    }
    threads.spawn_host(slots, samples.clone());
}

/// A thread that is started again begins with new readers, since a panic may have left its own in
/// the middle of a change.
impl Threads<'_> {
    fn slot(
        &self,
        thread: &'static str,
        witness: &'static Sensor,
        every: Duration,
    ) -> Arc<ThreadReadings> {
        Arc::new(ThreadReadings::new(thread, witness, self.clock.now().mono, every))
    }

    fn spawn_gpu(&self, library: Option<PathBuf>) -> Arc<ThreadReadings> {
        // Ten polls at least make readings, so that their mean is one.
        let every = self.every.max(SENSOR_EVERY);
        let slot = self.slot("gpu", &GPU_UTILIZATION_RATIO, every);
        let (clock, filled) = (self.clock, Arc::clone(&slot));
        self.lifeline.spawn(self.supervisor, "hw-gpu", move |lifeline| {
            let slot = Arc::clone(&filled);
            let sampling = Sampling::of("gpu");
            gpu::Gpus { clock, every, library: library.clone(), slot, sampling, driver: None }
                .run(lifeline);
        });
        slot
    }

    fn spawn_devices(&self) -> Arc<ThreadReadings> {
        let slot = self.slot("devices", &TEMPERATURE_CELSIUS, self.every);
        let (clock, root, every) = (self.clock, self.root.clone(), self.every);
        let filled = Arc::clone(&slot);
        self.lifeline.spawn(self.supervisor, "hw-devices", move |lifeline| {
            let mut devices = devices::Devices::new(&root, every);
            filled.fill(clock, lifeline, |now| devices.sample(now));
        });
        slot
    }

    fn spawn_watched(&self, watches: Vec<Watch>) -> Arc<ThreadReadings> {
        let slot = self.slot("watched", &WATCHED_PROCESSES, self.every);
        let (clock, root) = (self.clock, self.root.clone());
        let filled = Arc::clone(&slot);
        self.lifeline.spawn(self.supervisor, "hw-watched", move |lifeline| {
            let mut watched = watched::Watched::new(&root, watches.clone());
            filled.fill(clock, lifeline, |now| watched.sample(now));
        });
        slot
    }

    fn spawn_host(&self, slots: Vec<Arc<ThreadReadings>>, samples: mpsc::Sender<Vec<Reading>>) {
        let (clock, root, missed) = (self.clock, self.root.clone(), Arc::clone(self.missed));
        let host = HostLoop { clock, every: self.every, root, slots, missed, samples };
        self.lifeline.spawn(self.supervisor, "hw-host", move |lifeline| host.run(lifeline));
    }
}
