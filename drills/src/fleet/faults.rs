//! Faults of a run, one at a time, drawn by its seed before it begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_schemas::time::nanos;
use serde::Serialize;

use super::args::FleetArgs;
use crate::live::expectation::in_seconds;
use crate::sim::rng::Rng;

/// Nothing happens before, or in the first sixth of a shorter run.
const CALM_FIRST: Duration = Duration::from_secs(60);
/// Nothing happens in so long a time at the end, or in the last third of a shorter run.
const CALM_LAST: Duration = Duration::from_secs(120);
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// One of this many nodes begins again.
const RESTARTED_OF: u64 = 10;
/// What is drawn from the seed, apart from all else.
const FAULTS: u64 = 0xfa17;
const RESTARTS: u64 = 0x4e57;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The broker is killed, and starts again.
    BrokerKilled,
    /// The broker stands still (SIGSTOP), and goes on.
    BrokerStalled,
    /// The first aggregator is killed, and starts again.
    AggregatorKilled,
    /// The first aggregator is asked to end (SIGTERM), and starts again at once.
    AggregatorEnded,
    /// The first aggregator stands still, and goes on.
    AggregatorStalled,
    /// The second aggregator stands still, and goes on.
    SecondStalled,
}

impl FaultKind {
    const ALL: [Self; 6] = [
        Self::BrokerKilled,
        Self::BrokerStalled,
        Self::AggregatorKilled,
        Self::AggregatorEnded,
        Self::AggregatorStalled,
        Self::SecondStalled,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// When it begins, from the beginning of the fleet.
    #[serde(serialize_with = "in_seconds")]
    pub at: Duration,
    pub kind: FaultKind,
    /// How long it lasts.
    #[serde(rename = "seconds", serialize_with = "in_seconds")]
    pub lasting: Duration,
}

impl Fault {
    /// When it is over.
    pub fn end(&self) -> Duration {
        self.at + self.lasting
    }
}

/// When faults may happen in a run of this length: from, and until.
fn window(length: Duration) -> (Duration, Duration) {
    (CALM_FIRST.min(length / 6), length.saturating_sub(CALM_LAST.min(length / 3)))
}

/// All faults of a run in the order of time; none if the options ask for none.
pub fn drawn(args: &FleetArgs) -> Vec<Fault> {
    let Some(every) = args.faults_every else { return Vec::new() };
    let (mut rng, mut bag, mut faults) = (Rng::new(args.seed, FAULTS), Vec::new(), Vec::new());
    let (mut at, until) = window(args.length());
    at += span(&mut rng, Duration::ZERO, every);
    let longest = LONGEST.min(every / 2);

    loop {
        if bag.is_empty() {
            bag.extend(
                FaultKind::ALL
                    .iter()
                    .filter(|kind| args.pair || **kind != FaultKind::SecondStalled),
            );
        }

        let kind: FaultKind = bag.swap_remove(rng.index(bag.len()));
        let lasting = match kind {
            FaultKind::AggregatorEnded => Duration::ZERO,
            FaultKind::AggregatorKilled => span(&mut rng, Duration::ZERO, longest),
            _ => span(&mut rng, SHORTEST.min(longest), longest),
        };

        if at + lasting > until {
            return faults;
        }
        faults.push(Fault { at, kind, lasting });
        at += lasting + span(&mut rng, every / 2, every * 3 / 2);
    }
}

fn span(rng: &mut Rng, from: Duration, to: Duration) -> Duration {
    Duration::from_nanos(rng.within(nanos(from)..=nanos(to)))
}

/// When node number `n` begins again, if it does: the probe never.
pub fn restart_at_ns(args: &FleetArgs, n: u64) -> Option<u64> {
    args.faults_every.filter(|_| n % RESTARTED_OF == RESTARTED_OF / 2)?;
    let (from, until) = window(args.length());
    Some(nanos(span(&mut Rng::new(args.seed ^ n, RESTARTS), from, until)))
}

/// Begins and ends of faults so far: odd while one is on.
#[derive(Clone, Debug, Default)]
pub struct FaultClock(Arc<AtomicU64>);

impl FaultClock {
    /// The number of begins and ends.
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether a fault is on.
    pub fn is_on(&self) -> bool {
        self.now() % 2 == 1
    }

    /// One begins or ends.
    pub fn turn(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn args(seconds: u32, every: u64, seed: u64) -> FleetArgs {
        let faults_every = Some(Duration::from_secs(every));
        FleetArgs { seconds, faults_every, seed, pair: true, ..FleetArgs::default() }
    }

    #[test]
    fn an_hour_has_each_kind_of_fault_one_at_a_time_and_none_at_its_ends() {
        for seed in 1..20 {
            let faults = drawn(&args(3_600, 60, seed));
            let kinds: BTreeSet<FaultKind> = faults.iter().map(|fault| fault.kind).collect();
            assert_eq!(kinds.len(), FaultKind::ALL.len(), "{kinds:?}");
            assert!((40..80).contains(&faults.len()), "{}", faults.len());
            assert!(faults[0].at >= CALM_FIRST);
            assert!(faults.last().unwrap().end() <= Duration::from_secs(3_480));
            for pair in faults.windows(2) {
                let pause = pair[1].at.saturating_sub(pair[0].end()).as_secs_f64();
                assert!((30.0..=90.0).contains(&pause), "{pair:?}");
            }
            assert!(faults.iter().all(|fault| fault.lasting <= LONGEST));
        }
        assert_eq!(drawn(&args(3_600, 60, 1)), drawn(&args(3_600, 60, 1)));
        assert_ne!(drawn(&args(3_600, 60, 1)), drawn(&args(3_600, 60, 2)));
    }

    #[test]
    fn a_short_run_has_faults_too_and_one_aggregator_no_fault_of_the_second() {
        for seed in 1..20 {
            let faults = drawn(&args(40, 6, seed));
            assert!(!faults.is_empty());
            assert!(faults.iter().all(|fault| fault.end() <= Duration::from_secs(27)));
            let alone = drawn(&FleetArgs { pair: false, ..args(3_600, 60, seed) });
            assert!(alone.iter().all(|fault| fault.kind != FaultKind::SecondStalled));
        }
        assert!(drawn(&FleetArgs { faults_every: None, ..args(3_600, 60, 1) }).is_empty());
    }

    #[test]
    fn a_tenth_of_the_nodes_begin_again_each_at_its_own_time() {
        let args = args(3_600, 60, 1);
        let times: BTreeSet<u64> = (0..1_000).filter_map(|n| restart_at_ns(&args, n)).collect();
        assert_eq!(times.len(), 100);
        let (from, until) = window(args.length());
        assert!(times.iter().all(|at| (nanos(from)..=nanos(until)).contains(at)));
        assert_eq!(restart_at_ns(&args, 0), None, "the probe");
    }
}
