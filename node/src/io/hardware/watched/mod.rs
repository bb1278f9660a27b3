//! Watched processes: the summed usage of the processes of each `[[hardware.watch]]`.
//!
//! Runs on a thread of its own, since reading ten thousand processes takes as long as all other
//! sensors together. It samples once a second: usage after the last sample of a process, and a
//! process that starts and ends between two samples, are missed. A sum with an unreadable part is a
//! failed reading, not a smaller sum.

mod find;
mod growth;
mod memory;
mod process;
mod usage;

use std::path::Path;

use crate::limits::{
    GROWTH_LIMIT_SECONDS_MAX, WATCH_LOOK_REST, WATCH_LOOK_REST_MAX, WATCH_MEMORY_EVERY,
    WATCHED_PROCESSES_MAX,
};
use nix::unistd::{SysconfVar, sysconf};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::hardware::{
    MissingReading, Reading, Sensor, WATCHED_CPU_RATIO, WATCHED_CPU_SECONDS_TOTAL,
    WATCHED_FAULTS_MAJOR_TOTAL, WATCHED_FAULTS_MINOR_TOTAL, WATCHED_GROWTH_BYTES_PER_SECOND,
    WATCHED_LIMIT_EARLIEST_SECONDS, WATCHED_LIMIT_LATEST_SECONDS, WATCHED_PEAK_BYTES,
    WATCHED_PROCESSES, WATCHED_PROPORTIONAL_BYTES, WATCHED_RESIDENT_BYTES, WATCHED_SWAP_BYTES,
    WATCHED_THREADS,
};
use plimsoll_schemas::time::Mono;

use self::find::Found;
use self::growth::{Growth, Slope};
use self::memory::Memory;
use self::process::{Process, Processes, Used};
use self::usage::ProcessUsage;
use super::gather::{Gather, List};
use super::root::Root;
use super::scale::{self, Raw};
use crate::config::{By, Watch};

/// What is summed over processes: all that a watch reports beside their number.
const SUMS: [&Sensor; 12] = [
    &WATCHED_CPU_SECONDS_TOTAL,
    &WATCHED_CPU_RATIO,
    &WATCHED_RESIDENT_BYTES,
    &WATCHED_PEAK_BYTES,
    &WATCHED_PROPORTIONAL_BYTES,
    &WATCHED_SWAP_BYTES,
    &WATCHED_GROWTH_BYTES_PER_SECOND,
    &WATCHED_LIMIT_EARLIEST_SECONDS,
    &WATCHED_LIMIT_LATEST_SECONDS,
    &WATCHED_THREADS,
    &WATCHED_FAULTS_MINOR_TOTAL,
    &WATCHED_FAULTS_MAJOR_TOTAL,
];

type Sums = Vec<(&'static Sensor, Raw)>;

pub(super) struct Watched {
    root: Root,
    processes: Processes,
    watches: Vec<(Watch, Members)>,
    names: Rest,
    groups: Rest,
    units: Units,
    /// Processes of the machine whose names were not read in the latest search.
    unlisted: usize,
}

/// The processes of one watch and what they used.
struct Members {
    found: Result<Vec<Member>, MissingReading>,
    usage: ProcessUsage,
    memory: Option<Memory>,
    memory_rest: Rest,
    growth: Growth,
}

/// A process that was found, and by its start whether it is still the same one.
struct Member {
    pid: u32,
    started: Option<u64>,
}

/// What was read of the members: those that could be, and why others could not.
#[derive(Default)]
struct Read {
    processes: Vec<(u32, Process)>,
    unread: usize,
    why: Option<MissingReading>,
}

/// In what the kernel counts.
#[derive(Clone, Copy)]
struct Units {
    ticks_per_second: f64,
    page_bytes: u64,
}

/// Until when something is not done again that takes long.
#[derive(Default)]
struct Rest(Mono);

impl Rest {
    fn is_over(&self, now: Mono) -> bool {
        now >= self.0
    }

    fn begin(&mut self, now: Mono, took: Stopwatch) {
        let rest = took.elapsed().saturating_mul(WATCH_LOOK_REST);
        self.0 = now.plus(rest.min(WATCH_LOOK_REST_MAX));
    }

    /// The same of what may rest as long as it likes.
    fn begin_long(&mut self, now: Mono, took: Stopwatch) {
        let rest = took.elapsed().saturating_mul(WATCH_LOOK_REST);
        self.0 = now.plus(rest.max(WATCH_MEMORY_EVERY));
    }
}

impl Units {
    fn of_this_kernel() -> Self {
        let configured =
            |variable| sysconf(variable).ok().flatten().and_then(|n| u32::try_from(n).ok());
        Self {
            ticks_per_second: configured(SysconfVar::CLK_TCK).map_or(100.0, f64::from),
            page_bytes: configured(SysconfVar::PAGE_SIZE).map_or(4_096, u64::from),
        }
    }
}

/// The processes of this machine that have one of these names.
pub(in crate::io) fn processes_called(root: &Path, names: &[&str]) -> Vec<u32> {
    let (found, _unlisted) = find::by_names(&Processes::below(&Root::new(root)), names);
    found.into_iter().flatten().flatten().collect()
}

impl Watched {
    pub(super) fn new(root: &Root, watches: Vec<Watch>) -> Self {
        let processes = Processes::below(root);
        let began = processes.own_start();
        let members = || Members::new(ProcessUsage::new(began));
        let watches = watches.into_iter().map(|watch| (watch, members())).collect();
        let units = Units::of_this_kernel();
        let (names, groups) = (Rest::default(), Rest::default());
        let root = root.clone();
        Self { root, processes, watches, names, groups, units, unlisted: 0 }
    }

    pub(super) fn sample(&mut self, now: Mono) -> Vec<Reading> {
        let mut gather = Gather::default();
        self.find(now);
        for (watch, members) in &mut self.watches {
            let (count, sums) = members.look(now, &self.root, &self.processes, self.units);
            gather.put_of(&WATCHED_PROCESSES, &watch.labels, count);
            let absent = |missing| SUMS.iter().map(move |sensor| (*sensor, Err(missing))).collect();
            for (sensor, sum) in sums.unwrap_or_else(absent) {
                gather.put_of(sensor, &watch.labels, sum);
            }
        }
        gather.leave_out(List::Processes, self.unlisted);
        gather.finish()
    }

    fn find(&mut self, now: Mono) {
        if self.names.is_over(now) {
            let took = Stopwatch::start();
            self.find_names();
            self.names.begin(now, took);
        }

        let groups_too = self.groups.is_over(now);
        let took = Stopwatch::start();

        for (watch, members) in &mut self.watches {
            match &watch.by {
                By::Pid(pid) => members.take(Ok(vec![*pid])),
                By::Cgroup(group) if groups_too => {
                    members.take(find::in_cgroup(&self.root, group));
                }
                By::Cgroup(_) | By::Process(_) => {}
            }
        }

        if groups_too {
            self.groups.begin(now, took);
        }
    }

    /// One sample through all processes serves all watches by name.
    fn find_names(&mut self) {
        let mut named: Vec<(&str, &mut Members)> = Vec::new();
        for (watch, members) in &mut self.watches {
            if let By::Process(name) = &watch.by {
                named.push((name, members));
            }
        }
        if named.is_empty() {
            return;
        }
        let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        let (found, unlisted) = find::by_names(&self.processes, &names);
        self.unlisted = unlisted;
        named.into_iter().zip(found).for_each(|((_, members), found)| members.take(found));
    }
}

impl Members {
    fn new(usage: ProcessUsage) -> Self {
        let (memory_rest, growth) = (Rest::default(), Growth::default());
        Self { found: Ok(Vec::new()), usage, memory: None, memory_rest, growth }
    }

    fn take(&mut self, found: Found) {
        let member = |pid| Member { pid, started: None };
        self.found = found.map(|pids| pids.into_iter().map(member).collect());
    }

    /// How many there are, and the sums of their figures.
    fn look(
        &mut self,
        now: Mono,
        root: &Root,
        from: &Processes,
        units: Units,
    ) -> (Raw, Result<Sums, MissingReading>) {
        let found = match &mut self.found {
            Err(missing) => return (Err(*missing), Err(*missing)),
            Ok(found) if found.len() > WATCHED_PROCESSES_MAX => {
                return (Ok(found.len() as f64), Err(MissingReading::failed("too_many")));
            }
            Ok(found) => found,
        };

        let Read { processes, unread, why } = read(found, from);
        let living = processes.iter().filter(|(_, process)| !process.has_ended).count();
        let count = Ok((living + unread) as f64);
        if let Some(missing) = why {
            return (count, Err(missing));
        }
        // Those that have just ended are booked too: it is all that they used.
        let ticks_per_second = self.usage.sample(now, &processes);
        if living == 0 {
            self.growth = Growth::default();
            return (count, Err(MissingReading::unsupported("no_process")));
        }

        let mut sums = sums(&processes, self.usage.total, ticks_per_second, units);
        sums.extend(self.memory(now, root, from, &processes, units));
        (count, Ok(sums))
    }

    /// How much memory they have, as it was last read, and where its growth leads.
    fn memory(
        &mut self,
        now: Mono,
        root: &Root,
        from: &Processes,
        processes: &[(u32, Process)],
        units: Units,
    ) -> Sums {
        let living = processes.iter().filter(|(_, process)| !process.has_ended);
        let members: Vec<(u32, u64)> = living.map(|(pid, of)| (*pid, of.started)).collect();
        let memory = match self.memory {
            Some(memory) if !self.memory_rest.is_over(now) => memory,
            _ => {
                let took = Stopwatch::start();
                let pids: Vec<u32> = members.iter().map(|(pid, _)| *pid).collect();
                let memory = Memory::read(root, from, &pids);
                self.memory_rest.begin_long(now, took);
                *self.memory.insert(memory)
            }
        };

        self.growth.sample(now, members, resident(processes, units));
        let slope = self.growth.slope().zip(memory.headroom);
        let until = |of: fn(Slope) -> f64| {
            let seconds = slope.map(|(slope, headroom)| headroom as f64 / of(slope));
            // A value in any case, so that an alert clears.
            Ok(seconds.unwrap_or(f64::MAX).min(GROWTH_LIMIT_SECONDS_MAX))
        };
        vec![
            (&WATCHED_PEAK_BYTES, memory.peak),
            (&WATCHED_PROPORTIONAL_BYTES, memory.proportional),
            (&WATCHED_SWAP_BYTES, memory.swap),
            (
                &WATCHED_GROWTH_BYTES_PER_SECOND,
                Ok(self.growth.slope().map_or(0.0, |slope| slope.median)),
            ),
            (&WATCHED_LIMIT_EARLIEST_SECONDS, until(|slope| slope.high)),
            (&WATCHED_LIMIT_LATEST_SECONDS, until(|slope| slope.low)),
        ]
    }
}

/// Reads all that are still there, and drops the others.
fn read(found: &mut Vec<Member>, from: &Processes) -> Read {
    let mut read = Read::default();
    found.retain_mut(|member| match from.process(member.pid) {
        // Another start under the number is another process.
        Ok(Some(process)) if process.started == *member.started.get_or_insert(process.started) => {
            read.processes.push((member.pid, process));
            true
        }
        Ok(_) => false,
        Err(missing) => {
            read.unread += 1;
            read.why = Some(missing);
            true
        }
    });

    read
}

fn sums(
    processes: &[(u32, Process)],
    total: Used,
    ticks_per_second: Option<f64>,
    units: Units,
) -> Sums {
    let sum = |of: fn(&Process) -> u64| {
        processes.iter().fold(0_u64, |sum, (_, process)| sum.saturating_add(of(process)))
    };
    let seconds = |ticks: f64| ticks / units.ticks_per_second;

    let mut sums = vec![
        (&WATCHED_CPU_SECONDS_TOTAL, Ok(seconds(total.cpu_ticks as f64))),
        (&WATCHED_RESIDENT_BYTES, scale::bytes(resident(processes, units))),
        (&WATCHED_THREADS, Ok(sum(|process| process.threads) as f64)),
        (&WATCHED_FAULTS_MINOR_TOTAL, Ok(total.faults_minor as f64)),
        (&WATCHED_FAULTS_MAJOR_TOTAL, Ok(total.faults_major as f64)),
    ];

    sums.extend(ticks_per_second.map(|ticks| (&WATCHED_CPU_RATIO, Ok(seconds(ticks)))));
    sums
}

fn resident(processes: &[(u32, Process)], units: Units) -> u64 {
    let pages = processes.iter().map(|(_, process)| process.resident_pages);
    pages.fold(0_u64, u64::saturating_add).saturating_mul(units.page_bytes)
}

#[cfg(test)]
mod tests;
