//! Usage of the processes of one watch, including those that have ended. No I/O.
//!
//! Adds the increase of each process since the last sample, so that the sums only grow. Usage from
//! before the start of the agent is not included.
//!
//! DESIGN N37.

use std::collections::BTreeMap;

use crate::limits::WATCHED_PROCESSES_MAX;
use plimsoll_schemas::time::{Mono, seconds};

use super::process::{Process, Used};

/// The account of one watch.
#[derive(Debug)]
pub(super) struct ProcessUsage {
    /// When the agent started, in the ticks of [`Process::started`].
    began: Option<u64>,
    /// By process id. A process that is missing from a sample stays for a while, so that it is not
    /// counted twice when it reappears.
    known: BTreeMap<u32, Known>,
    pub(super) total: Used,
    samples: u64,
    last: Mono,
}

#[derive(Debug)]
struct Known {
    started: u64,
    used: Used,
    sample: u64,
}

impl ProcessUsage {
    pub(super) fn new(began: Option<u64>) -> Self {
        let (known, total) = (BTreeMap::new(), Used::default());
        Self { began, known, total, samples: 0, last: Mono(0) }
    }

    /// Adds one sample. Returns CPU ticks per second of the processes that were in the last sample
    /// too, since the start of a new one within the interval is unknown; `None` without any.
    pub(super) fn sample(&mut self, now: Mono, processes: &[(u32, Process)]) -> Option<f64> {
        let mut of_known = None;
        self.samples += 1;

        for (pid, process) in processes {
            let known = self.known.get(pid).filter(|known| known.started == process.started);
            let was_there = known.is_some_and(|known| known.sample + 1 == self.samples);

            let before = match known {
                Some(known) => known.used,
                None if self.is_younger(process) => Used::default(),
                None => process.used,
            };

            let grown = process.used.since(before);
            self.total = self.total.plus(grown);
            if was_there {
                of_known = Some(of_known.unwrap_or(0) + grown.cpu_ticks);
            }
            // A figure that went back would otherwise be counted twice.
            let used = before.plus(grown);
            self.known.insert(*pid, Known { started: process.started, used, sample: self.samples });
        }

        self.evict();
        let elapsed = seconds(now.0.saturating_sub(self.last.0));
        self.last = now;
        of_known.filter(|_| elapsed > 0.0).map(|ticks| ticks as f64 / elapsed)
    }

    /// Whether all that a process used was used since the agent began.
    fn is_younger(&self, process: &Process) -> bool {
        self.began.is_some_and(|began| process.started >= began)
    }

    fn evict(&mut self) {
        if self.known.len() > 2 * WATCHED_PROCESSES_MAX {
            let newest = self.samples;
            self.known.retain(|_, known| known.sample == newest);
        }
    }
}

impl Used {
    fn since(self, before: Self) -> Self {
        Self {
            cpu_ticks: self.cpu_ticks.saturating_sub(before.cpu_ticks),
            faults_minor: self.faults_minor.saturating_sub(before.faults_minor),
            faults_major: self.faults_major.saturating_sub(before.faults_major),
        }
    }

    fn plus(self, more: Self) -> Self {
        Self {
            cpu_ticks: self.cpu_ticks.saturating_add(more.cpu_ticks),
            faults_minor: self.faults_minor.saturating_add(more.faults_minor),
            faults_major: self.faults_major.saturating_add(more.faults_major),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process(started: u64, cpu_ticks: u64) -> Process {
        let used = Used { cpu_ticks, faults_minor: 2 * cpu_ticks, faults_major: 0 };
        Process { started, has_ended: false, used, resident_pages: 1, threads: 1 }
    }

    /// Samples a second apart, and the total and the ticks a second after each.
    fn follow(began: Option<u64>, samples: &[&[(u32, Process)]]) -> Vec<(u64, Option<f64>)> {
        let mut usage = ProcessUsage::new(began);
        let at = |n: usize| Mono(1_000_000_000 * (n as u64 + 1));
        let samples = samples.iter().enumerate();
        samples
            .map(|(n, sample)| (usage.sample(at(n), sample), usage.total))
            .map(|(r, t)| {
                assert_eq!(t.faults_minor, 2 * t.cpu_ticks);
                (t.cpu_ticks, r)
            })
            .collect()
    }

    #[test]
    fn what_an_ended_process_used_is_kept() {
        let (old, young) = (process(5, 100), process(50, 7));
        let samples: [&[_]; 5] = [
            &[(1, old)],
            &[(1, process(5, 130)), (2, young)],
            &[(2, process(50, 27))],
            &[],
            &[(3, process(90, 4))],
        ];
        let expected = [(0, None), (37, Some(30.0)), (57, Some(20.0)), (57, None), (61, None)];
        assert_eq!(follow(Some(10), &samples), expected);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let samples: [&[_]; 3] =
            [&[(7, process(20, 500))], &[(7, process(60, 3))], &[(7, process(60, 4))]];
        assert_eq!(follow(Some(10), &samples), [(500, None), (503, None), (504, Some(1.0))]);
    }

    #[test]
    fn who_comes_back_is_not_counted_twice() {
        let samples: [&[_]; 3] = [&[(7, process(20, 500))], &[], &[(7, process(20, 502))]];
        assert_eq!(follow(Some(10), &samples), [(500, None), (500, None), (502, None)]);
    }

    #[test]
    fn without_the_agents_start_no_process_is_counted_from_its_start() {
        let samples: [&[_]; 2] = [&[(7, process(20, 500))], &[(7, process(20, 501))]];
        assert_eq!(follow(None, &samples), [(0, None), (1, Some(1.0))]);
    }

    #[test]
    fn who_is_remembered_is_bounded() {
        let mut usage = ProcessUsage::new(Some(0));
        for n in 0..100_000 {
            let _rate = usage.sample(Mono(u64::from(n)), &[(n, process(1, 1))]);
            assert!(usage.known.len() <= 2 * WATCHED_PROCESSES_MAX);
        }
        assert_eq!(usage.total.cpu_ticks, 100_000);
    }

    proptest! {
        #[test]
        fn sums_only_grow_and_are_what_all_processes_used_at_most(
            samples in proptest::collection::vec(
                proptest::collection::btree_map(0_u32..4, 0_u64..9, 0..4), 0..20,
            ),
        ) {
            let mut usage = ProcessUsage::new(Some(0));
            let mut used = BTreeMap::new();
            for (n, sample) in (0..).zip(samples) {
                // Each number goes to another process at each fourth sample.
                let started = n / 4;
                let sample: Vec<_> =
                    sample.into_iter().map(|(pid, used)| (pid, process(started, used))).collect();
                let before = usage.total.cpu_ticks;
                let _rate = usage.sample(Mono(n), &sample);
                prop_assert!(usage.total.cpu_ticks >= before);
                for (pid, process) in sample {
                    let most: &mut u64 = used.entry((pid, started)).or_default();
                    *most = process.used.cpu_ticks.max(*most);
                }
            }
            prop_assert_eq!(usage.total.cpu_ticks, used.values().sum::<u64>());
        }
    }
}
