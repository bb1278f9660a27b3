//! What the kernel keeps in memory: CPU, memory, load, network, and this process itself.
//!
//! Never a whole refresh: sysinfo would open every process's tasks and keep the handles. The
//! thread that reads here also puts the other threads' readings into the sample and sends it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_schemas::clock::Clock;
use plimsoll_schemas::hardware::{
    CPU_CORE_USAGE_RATIO, CPU_USAGE_RATIO, LOAD1, LOAD5, LOAD15, MEMORY_AVAILABLE_BYTES,
    MEMORY_TOTAL_BYTES, MEMORY_USED_BYTES, Missing, NETWORK_RECEIVE_BYTES_TOTAL,
    NETWORK_RECEIVE_ERRORS_TOTAL, NETWORK_TRANSMIT_BYTES_TOTAL, NETWORK_TRANSMIT_ERRORS_TOTAL,
    PROCESS_CPU_RATIO, PROCESS_RESIDENT_BYTES, Reading, SWAP_TOTAL_BYTES, SWAP_USED_BYTES,
};
use plimsoll_schemas::limits::node::{CORES_MAX, INTERFACES_MAX, SENSOR_EVERY};
use plimsoll_schemas::time::{Mono, seconds};
use sysinfo::{
    CpuRefreshKind, MemoryRefreshKind, Pid, Process, ProcessRefreshKind, ProcessesToUpdate, System,
};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::Tally;
use super::gather::Gather;
use super::lifeline::{Lifeline, Pace};
use super::procfs;
use super::scale::{self, Raw};
use super::slot::Slot;

const FAILED: Raw = Err(Missing::failed("unread"));

/// The thread that makes samples.
pub(super) struct HostLoop {
    pub(super) clock: Clock,
    pub(super) slots: Vec<Arc<Slot>>,
    pub(super) tally: Arc<Tally>,
    pub(super) samples: mpsc::Sender<Vec<Reading>>,
}

impl HostLoop {
    pub(super) fn run(self, lifeline: &Lifeline) {
        let mut host = Host::default();
        let mut pace = Pace::new(self.clock, SENSOR_EVERY);
        while pace.rest(lifeline) {
            let now = self.clock.now().mono;
            // Ordered by worth: what is over the bound of one sample is cut at the end.
            let mut gather = Gather::default();
            host.gather_scalars(now, &mut gather);
            self.slots.iter().for_each(|slot| gather.append(slot.seen_at(now)));
            host.gather_lists(&mut gather);
            if let Err(TrySendError::Full(_)) = self.samples.try_send(gather.finish(&self.tally)) {
                self.tally.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Readers of the kernel's figures, with what they need of the last time.
#[derive(Default)]
struct Host {
    system: Option<System>,
    // CPU shares are differences: the first refresh alone says nothing.
    refreshes: u64,
    spent: Option<Spent>,
}

/// CPU time of this process up to a moment.
#[derive(Clone, Copy)]
struct Spent {
    at: Mono,
    cpu_ms: u64,
}

impl Host {
    fn gather_scalars(&mut self, now: Mono, gather: &mut Gather) {
        gather_load(gather);
        if self.system.is_none() {
            self.system = System::new().ok();
        }
        let Some(system) = &mut self.system else {
            return [&CPU_USAGE_RATIO, &MEMORY_TOTAL_BYTES, &SWAP_TOTAL_BYTES]
                .into_iter()
                .for_each(|sensor| gather.put(sensor, FAILED));
        };
        system.refresh_cpu_specifics(CpuRefreshKind::nothing().with_usage());
        self.refreshes += 1;
        if system.cpus().is_empty() {
            gather.put(&CPU_USAGE_RATIO, FAILED);
        } else if self.refreshes > 1 {
            gather.put(&CPU_USAGE_RATIO, percent(system.global_cpu_usage()));
        }
        system.refresh_memory_specifics(MemoryRefreshKind::everything());
        gather_memory(system, gather);
        let spent = gather_own(system, now, self.spent, gather);
        self.spent = spent;
    }

    fn gather_lists(&self, gather: &mut Gather) {
        gather_network(gather);
        let Some(system) = self.system.as_ref().filter(|_| self.refreshes > 1) else { return };
        gather.skip(system.cpus().len().saturating_sub(CORES_MAX));
        for cpu in system.cpus().iter().take(CORES_MAX) {
            let core = cpu.name().trim_start_matches("cpu");
            let Some(labels) = gather.labels(&[("core", core)]) else { continue };
            gather.put_of(&CPU_CORE_USAGE_RATIO, &labels, percent(cpu.usage()));
        }
    }
}

fn percent(percent: f32) -> Raw {
    scale::ratio_from_percent(f64::from(percent))
}

fn gather_load(gather: &mut Gather) {
    let load = System::load_average().map_err(|_| Missing::failed("unread"));
    gather.put(&LOAD1, load.as_ref().map(|load| load.one).map_err(|state| *state));
    gather.put(&LOAD5, load.as_ref().map(|load| load.five).map_err(|state| *state));
    gather.put(&LOAD15, load.as_ref().map(|load| load.fifteen).map_err(|state| *state));
}

fn gather_memory(system: &System, gather: &mut Gather) {
    let (total, available) = (system.total_memory(), system.available_memory());
    let (swap, swap_free) = (system.total_swap(), system.free_swap());
    // No machine has no memory: the kernel's table was not read. No swap is quite usual.
    let known = |bytes: u64| if total == 0 { FAILED } else { scale::bytes(bytes) };
    for (sensor, bytes) in [
        (&MEMORY_TOTAL_BYTES, total),
        // Inside a container, "available" may be the host's and larger than "total".
        (&MEMORY_USED_BYTES, total.saturating_sub(available)),
        (&MEMORY_AVAILABLE_BYTES, available),
        (&SWAP_TOTAL_BYTES, swap),
        (&SWAP_USED_BYTES, swap.saturating_sub(swap_free)),
    ] {
        gather.put(sensor, known(bytes));
    }
}

/// This process's own share. sysinfo's share of a process reads 0 until the process has used
/// CPU time twice; the total that it also gives does not.
fn gather_own(
    system: &mut System,
    now: Mono,
    before: Option<Spent>,
    gather: &mut Gather,
) -> Option<Spent> {
    let pid = Pid::from_u32(std::process::id());
    let wanted = ProcessRefreshKind::nothing().without_tasks().with_cpu().with_memory();
    let seen = system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, wanted);
    let process = system.process(pid).filter(|_| seen > 0);
    let resident = process.map_or(FAILED, |process| scale::bytes(process.memory()));
    gather.put(&PROCESS_RESIDENT_BYTES, resident);
    let spent = process.map(Process::accumulated_cpu_time).map(|cpu_ms| Spent { at: now, cpu_ms });
    match (before, spent) {
        (Some(before), Some(spent)) => gather.put(&PROCESS_CPU_RATIO, Ok(share(before, spent))),
        (_, None) => gather.put(&PROCESS_CPU_RATIO, FAILED),
        (None, Some(_)) => {}
    }
    spent
}

fn share(before: Spent, spent: Spent) -> f64 {
    let cpu_ns = spent.cpu_ms.saturating_sub(before.cpu_ms).saturating_mul(1_000_000);
    let elapsed_ns = spent.at.0.saturating_sub(before.at.0).max(1);
    seconds(cpu_ns) / seconds(elapsed_ns)
}

fn gather_network(gather: &mut Gather) {
    let Ok(table) = fs::read_to_string("/proc/net/dev") else {
        return gather.put(&NETWORK_RECEIVE_BYTES_TOTAL, FAILED);
    };
    let interfaces = procfs::interfaces(&table).filter(|(name, _)| !is_container_end(name));
    for (name, counters) in gather.named(interfaces, INTERFACES_MAX) {
        let Some(labels) = gather.labels(&[("interface", &name)]) else { continue };
        for (sensor, figure) in [
            (&NETWORK_RECEIVE_BYTES_TOTAL, counters.receive_bytes),
            (&NETWORK_TRANSMIT_BYTES_TOTAL, counters.transmit_bytes),
            (&NETWORK_RECEIVE_ERRORS_TOTAL, counters.receive_errors),
            (&NETWORK_TRANSMIT_ERRORS_TOTAL, counters.transmit_errors),
        ] {
            gather.put_of(sensor, &labels, Ok(figure as f64));
        }
    }
}

/// The host's end of a container's interface: as many as there are containers, new names with
/// each of them, and their bytes are counted on the real interface already.
fn is_container_end(interface: &str) -> bool {
    ["veth", "cali", "lxc"].iter().any(|prefix| interface.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_share_is_cpu_time_over_elapsed_time() {
        let before = Spent { at: Mono(0), cpu_ms: 40 };
        for (at, cpu_ms, ratio) in [(1_000_000_000, 50, 0.01), (2_000_000_000, 4_040, 2.0)] {
            assert_eq!(share(before, Spent { at: Mono(at), cpu_ms }), ratio);
        }
        assert_eq!(share(before, Spent { at: Mono(0), cpu_ms: 40 }), 0.0);
    }

    #[test]
    fn shares_that_need_two_looks_are_left_out_of_the_first() {
        let (mut host, mut gather) = (Host::default(), Gather::default());
        host.gather_scalars(Mono(0), &mut gather);
        host.gather_lists(&mut gather);
        let first = gather.finish(&Tally::default());
        let shares = [&CPU_USAGE_RATIO, &CPU_CORE_USAGE_RATIO, &PROCESS_CPU_RATIO];
        let is_share = |reading: &&Reading| shares.iter().any(|s| s.name == reading.sensor);
        assert_eq!(first.iter().find(is_share), None);
        assert!(first.iter().any(|reading| reading.sensor == PROCESS_RESIDENT_BYTES.name));
    }

    #[test]
    fn ends_of_containers_are_not_interfaces_of_the_machine() {
        for (name, end) in [("veth12ab", true), ("cali0", true), ("eth0", false), ("ib0", false)] {
            assert_eq!(is_container_end(name), end, "{name}");
        }
    }
}
