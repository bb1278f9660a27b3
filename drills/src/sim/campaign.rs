//! Many runs, one seed each, on a given number of threads; their combined coverage, and the failure
//! with the lowest seed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_clock::Stopwatch;

use super::kernel::{Broken, Outcome};
use super::oracle::Sets;
use super::plan::Plan;
use super::reached::Reached;
use super::schedule::SECOND;
use super::shrink::{Attempt, shrink};
use super::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// The first seed.
    pub from: u64,
    pub seeds: u64,
    /// Steps in each plan.
    pub steps: usize,
    /// Threads; each works on runs of its own.
    pub threads: usize,
}

/// A run that broke, and the shortest that was found to break in the same way.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub broken: Broken,
    /// The plan with few steps.
    pub shortest: Plan,
    /// The end of that plan's trace.
    pub trace: Vec<String>,
}

/// The result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub runs: u64,
    /// Events in all of them.
    pub events: u64,
    /// Virtual time in all of them, in seconds.
    pub virtual_seconds: u64,
    pub took: Duration,
    /// Samples of all of them as sets.
    pub sets: Sets,
    /// Branches reached, with counts.
    pub reached: Reached,
    /// The failure with the lowest seed, if there was one.
    pub failure: Option<Failure>,
}

/// One run: how it ended, and the samples of all nodes as sets. A panic breaks it, too.
pub fn run(plan: &Plan, traces: bool) -> (Outcome, Sets) {
    let ran = catch_unwind(AssertUnwindSafe(|| World::new(plan, traces).run()));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let what = text.unwrap_or_default();
        let broken = Some(Broken { invariant: "no core panics", what, at: 0 });
        (Outcome { broken, ..Outcome::default() }, Sets::default())
    })
}

impl Campaign {
    /// Runs all seeds and calls `progress` after each.
    pub fn run(&self, progress: &(dyn Fn(&Findings) + Sync)) -> Findings {
        let watch = Stopwatch::start();
        let next = AtomicU64::new(self.from);
        let stop = AtomicBool::new(false);
        let shared = Mutex::new((Findings::default(), BTreeMap::new()));

        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= self.from.saturating_add(self.seeds) {
                    return;
                }
                let (outcome, sets) = run(&Plan::draw(seed, self.steps), false);
                let Ok(mut shared) = shared.lock() else { return };
                let (findings, broken) = &mut *shared;
                findings.add(&outcome, &sets);
                findings.took = watch.elapsed();

                if let Some(what) = outcome.broken {
                    broken.insert(seed, what);
                    stop.store(true, Ordering::Relaxed);
                }

                progress(findings);
            }
        };

        std::thread::scope(|scope| {
            (1..self.threads).for_each(|_| drop(scope.spawn(work)));
            work();
        });

        let (mut findings, broken) = shared.into_inner().unwrap_or_default();
        findings.failure =
            broken.into_iter().next().map(|(seed, broken)| self.explain(seed, broken));
        findings.took = watch.elapsed();
        findings
    }

    fn explain(&self, seed: u64, broken: Broken) -> Failure {
        let plan = Plan::draw(seed, self.steps);
        let attempt = |plan: &Plan| {
            let (outcome, _) = run(plan, false);
            let is_broken = outcome.broken.is_some_and(|found| found.invariant == broken.invariant);
            Attempt { is_broken, events: outcome.events.max(1_000) }
        };
        let shortest = shrink(&plan, attempt);
        let trace = run(&shortest, true).0.trace;
        Failure { seed, broken, shortest, trace }
    }
}

impl Findings {
    fn add(&mut self, outcome: &Outcome, sets: &Sets) {
        self.runs += 1;
        self.events += outcome.events;
        self.virtual_seconds += outcome.ended_at / SECOND;
        self.reached.add(&outcome.reached);
        self.sets.add(sets);
    }

    pub fn runs_per_second(&self) -> u64 {
        let milliseconds = self.took.as_millis().max(1);
        u64::try_from(u128::from(self.runs) * 1_000 / milliseconds).unwrap_or(0)
    }
}
