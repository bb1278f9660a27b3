//! What the kernel keeps in memory: CPU, memory, pressure, the control group, network, disks'
//! counters, and this process itself.
//!
//! The thread that reads here also puts the other threads' readings into the sample and sends it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_clock::Clock;
use plimsoll_schemas::hardware::{Reading, SENSORS_UNREAD};
use plimsoll_schemas::time::Mono;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::blocks::Blocks;
use super::cgroup::Cgroup;
use super::cpu::Cpu;
use super::description::Description;
use super::gather::Gather;
use super::lifeline::{Lifeline, Pace};
use super::machine::Machine;
use super::network::Network;
use super::own::Own;
use super::pressure::Pressure;
use super::root::{self, Root};
use super::sampling::Sampling;
use super::slot::ThreadReadings;
use super::timekeeping;

/// The thread that makes samples.
pub(super) struct HostLoop {
    pub(super) clock: Clock,
    /// Time between two samples.
    pub(super) every: Duration,
    pub(super) root: Root,
    pub(super) slots: Vec<Arc<ThreadReadings>>,
    /// Samples that were not taken before the next one was ready.
    pub(super) missed: Arc<AtomicU64>,
    pub(super) samples: mpsc::Sender<Vec<Reading>>,
}

impl HostLoop {
    pub(super) fn run(&self, lifeline: &Lifeline) {
        let mut host = Host::new(&self.root);
        let mut sampling = Sampling::of("host");
        let mut pace = Pace::new(self.clock, self.every);
        let mut unread = Unread::default();

        while pace.rest(lifeline) {
            let now = self.clock.now().mono;
            // Ordered by worth: what is over the bound of one sample is cut at the end.
            let mut gather = Gather::default();

            sampling.timed(|| {
                host.gather_scalars(now, &mut gather);
                self.slots.iter().for_each(|slot| gather.append(slot.seen_at(now)));
                host.gather_lists(now, &mut gather);
            });

            sampling.gather(&mut gather);
            let sample = gather.finish_sample();
            unread.note(&sample);
            // A driver that is late needs the next sample and not this one: nothing waits for it.
            if let Err(TrySendError::Full(_)) = self.samples.try_send(sample) {
                self.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// How many of each list were not read in the latest sample.
#[derive(Default)]
struct Unread(BTreeMap<String, f64>);

impl Unread {
    /// Logs what has changed.
    fn note(&mut self, sample: &[Reading]) {
        for reading in sample.iter().filter(|reading| reading.sensor == SENSORS_UNREAD.name) {
            let (Some(list), Some(now)) = (reading.labels.get("list"), reading.value) else {
                continue;
            };
            let before = self.0.insert(list.to_owned(), now).unwrap_or_default();
            if now > before {
                tracing::warn!(list, unread = now, "hardware is read incompletely");
            } else if now < before {
                tracing::info!(list, unread = now, "more of the hardware is read");
            }
        }
    }
}

/// Readers of the kernel's figures, with what they need of the last time.
pub(super) struct Host {
    root: Root,
    /// What files are read into.
    space: Vec<u8>,
    cpu: Cpu,
    pressure: Pressure,
    cgroup: Cgroup,
    machine: Machine,
    network: Network,
    blocks: Blocks,
    own: Own,
    description: Description,
}

impl Host {
    pub(super) fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            space: Vec::new(),
            cpu: Cpu::new(root),
            pressure: Pressure::new(root),
            cgroup: Cgroup::new(root),
            machine: Machine::new(root),
            network: Network::new(root),
            blocks: Blocks::new(root),
            own: Own::default(),
            description: Description::new(root),
        }
    }

    pub(super) fn gather_scalars(&mut self, now: Mono, gather: &mut Gather) {
        let space = &mut self.space;
        self.cpu.gather_all(space, gather);
        self.machine.gather(space, gather);
        self.pressure.gather(space, gather);
        self.cgroup.gather(now, space, gather);
        timekeeping::gather(&self.root, gather);
        self.own.gather(now, gather);
        self.description.gather(gather);
    }

    pub(super) fn gather_lists(&mut self, now: Mono, gather: &mut Gather) {
        self.network.gather(&mut self.space, gather);
        self.blocks.gather(now, &mut self.space, gather);
        self.cpu.gather_cores(gather);
        root::release(&mut self.space);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plimsoll_schemas::hardware::{
        CPU_CORE_USAGE_RATIO, CPU_USAGE_RATIO, PROCESS_CPU_RATIO, PROCESS_RESIDENT_BYTES,
    };

    use super::*;

    #[test]
    fn shares_that_need_two_polls_are_absent_in_the_first() {
        let (mut host, mut gather) = (Host::new(&Root::new(Path::new("/"))), Gather::default());
        host.gather_scalars(Mono(0), &mut gather);
        host.gather_lists(Mono(0), &mut gather);
        let first = gather.finish_sample();
        let shares = [&CPU_USAGE_RATIO, &CPU_CORE_USAGE_RATIO, &PROCESS_CPU_RATIO];
        let is_share = |reading: &&Reading| shares.iter().any(|s| s.name == reading.sensor);
        assert_eq!(first.iter().find(is_share), None);
        assert!(first.iter().any(|reading| reading.sensor == PROCESS_RESIDENT_BYTES.name));
    }
}
