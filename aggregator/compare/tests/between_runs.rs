//! Runs of one version that differ from each other: intervals hold for the next runs too, where
//! those of all slots in one pool hold for these runs alone.

mod runs;

use std::collections::BTreeMap;

use plimsoll_compare::{
    BucketLayout, Change, Comparison, Measured, MeasuredRate, Named, Options, RateSlot, Side, Slot,
    Verdict, compare, compare_runs,
};
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::random::SplitMix64;
use runs::{Run, operation};

const RUNS: u64 = 5;
const PAIRS: u64 = 40;
/// Deviation of the logarithm of a run's level: that of its median from samples is 0.01.
const BETWEEN: f64 = 0.05;
const NAMES: [&str; 5] = ["1", "2", "3", "4", "5"];

/// Normal within what twelve uniform numbers show.
fn normal(rng: &mut SplitMix64) -> f64 {
    (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
}

fn rate() -> Operation {
    Operation::new("fetch.rows").unwrap()
}

/// Some runs whose levels differ, with a rate that is as much lower as they are slower.
fn side(seed: u64, slower: f64, between: f64) -> Vec<Side> {
    let mut rng = SplitMix64(seed.wrapping_mul(0xd1b5_4a32_d192_ed03));
    let run = |n| {
        let scale = slower * (between * normal(&mut rng)).exp();
        let mut side =
            Run { slots: 30, per_slot: 60, scale, ..Run::PLAIN }.side(RUNS * seed + n + 1);
        let slot = |_| RateSlot { amount: 60.0, seconds: scale * (1.0 + 0.05 * normal(&mut rng)) };
        let slots = (0..30).map(slot).collect();
        side.rates.insert(rate(), MeasuredRate { operation: None, slots });
        side
    };
    (0..RUNS).map(run).collect()
}

fn options() -> Options {
    let limits = BTreeMap::from([(operation(), 15_000_000)]);
    Options { limits, ..Options::default() }
}

fn named(runs: &[Side]) -> Vec<Named<'_, Side>> {
    NAMES.iter().zip(runs).map(|(name, of)| Named { name, of }).collect()
}

fn by_run(a: &[Side], b: &[Side]) -> Comparison {
    let [a, b] = [a, b].map(named);
    compare_runs([&a, &b], &options())
}

/// All slots in one pool, as if those of a run were those of a node.
fn pooled(a: &[Side], b: &[Side]) -> Comparison {
    let pool = |runs: &[Side]| {
        let mut measured = Measured::new(BucketLayout::MESH);
        let mut rates = MeasuredRate::default();
        for (n, run) in runs.iter().enumerate() {
            let node = Some(NodeName::new(format!("n{n}")).unwrap());
            let slots = run.operations[&operation()].slots.iter();
            measured.slots.extend(slots.map(|slot| Slot { node: node.clone(), ..slot.clone() }));
            rates.slots.extend(&run.rates[&rate()].slots);
        }
        // In turn: one run after the other would be a level that changes slowly.
        let (slots, runs) = (rates.slots.clone(), runs.len());
        let each = slots.len() / runs;
        let turned = (0..slots.len()).map(|n| slots[n % runs * each + n / runs]).collect();
        let rates = [(rate(), MeasuredRate { slots: turned, ..rates })].into();
        Side { operations: [(operation(), measured)].into(), rates }
    };
    compare(&pool(a), &pool(b), &options())
}

/// Intervals of pairs of sides that do not hold the shift that was planted: of the median, of the
/// rate, and of the share over the limit where nothing changed.
fn missed(slower: f64, compared: fn(&[Side], &[Side]) -> Comparison) -> [u64; 3] {
    let mut missed = [0; 3];
    for seed in 0..PAIRS {
        let (a, b) = (side(2 * seed, 1.0, BETWEEN), side(2 * seed + 1, slower, BETWEEN));
        let found = compared(&a, &b);
        let latency = &found.operations[&operation()];
        let share = latency.over_limit.and_then(|share| share.change);
        let misses = |of: Option<Change>, truth: f64| {
            of.is_some_and(|change| !(change.low..=change.high).contains(&truth))
        };
        let all = [
            misses(latency.shifts.get(4).and_then(|shift| shift.change), slower - 1.0),
            misses(found.rates[&rate()].change, 1.0 / slower - 1.0),
            slower == 1.0 && misses(share, 0.0),
        ];
        missed.iter_mut().zip(all).for_each(|(missed, misses)| *missed += u64::from(misses));
    }
    missed
}

#[test]
fn intervals_hold_for_runs_that_differ_where_those_of_a_pool_do_not() {
    for slower in [1.0, 1.2] {
        let (ours, plain) = (missed(slower, by_run), missed(slower, pooled));
        // Each is one of several that hold together with 95 %.
        assert!(ours.iter().all(|missed| *missed <= PAIRS * 5 / 100), "{slower}: {ours:?}");
        assert!(plain[..2].iter().all(|missed| *missed > PAIRS / 4), "{slower}: {plain:?}");
    }
}

#[test]
fn versions_that_are_equal_are_hardly_ever_different_although_their_runs_are() {
    let verdicts = |compared: fn(&[Side], &[Side]) -> Comparison| {
        let differs = |seed: &u64| {
            let (a, b) = (side(2 * seed, 1.0, BETWEEN), side(2 * seed + 1, 1.0, BETWEEN));
            compared(&a, &b).verdict != Verdict::Same
        };
        (0..PAIRS).filter(differs).count()
    };
    let (ours, plain) = (verdicts(by_run), verdicts(pooled));
    assert!(ours <= 2, "{ours}");
    assert!(plain > 10, "{plain}");
}

#[test]
fn a_version_that_is_slower_by_more_than_its_runs_differ_is_worse() {
    let found = by_run(&side(1, 1.0, 0.01), &side(2, 1.2, 0.01));
    assert_eq!((found.verdict, found.within_runs_only.as_deref()), (Verdict::Worse, None));
    let fetch = &found.operations[&operation()];
    assert_eq!((found.a_runs.len(), fetch.a_runs.len(), fetch.b_runs.len()), (5, 5, 5));
    let of_runs: u64 = fetch.b_runs.iter().map(|run| run.samples).sum();
    assert_eq!(of_runs, fetch.b.unwrap().samples);
    let medians = fetch.b_runs.iter().map(|run| run.quantiles[4].value_ns);
    assert!(medians.clone().min().unwrap() < fetch.shifts[4].b_ns);
    assert!(medians.max().unwrap() > fetch.shifts[4].b_ns);
    let rates = found.rates[&rate()].a_runs.iter().map(|run| run.rate);
    assert!(
        rates.clone().all(|rate| (55.0..66.0).contains(&rate)),
        "{:?}",
        rates.collect::<Vec<_>>()
    );
}

#[test]
fn fewer_than_three_runs_a_side_state_that_they_do_not_show_what_runs_differ_by() {
    let (a, b) = (side(1, 1.0, 0.0), side(2, 1.0, 0.0));
    for (of_a, of_b, words) in [
        (1, 1, Some("A has 1 run and B 1 run, and 3 a side show what runs differ by")),
        (5, 2, Some("A has 5 runs and B 2 runs, and 3 a side show what runs differ by")),
        (3, 3, None),
    ] {
        let found = by_run(&a[..of_a], &b[..of_b]);
        assert_eq!(found.within_runs_only.as_deref(), words);
    }
    // One run a side is what two sides are.
    let (one, two) = (by_run(&a[..1], &b[..1]), compare(&a[0], &b[0], &options()));
    assert_eq!((one.operations, one.rates), (two.operations, two.rates));
}

#[test]
fn a_run_that_lacks_an_operation_or_intervals_is_named() {
    let (a, mut b) = (side(1, 1.0, 0.0), side(2, 1.0, 0.0));
    let reason = |b: &[Side]| by_run(&a, b).operations[&operation()].reason.clone().unwrap();
    b[3].operations.get_mut("fetch").unwrap().slots.truncate(12);
    let found = reason(&b);
    assert!(found.starts_with("4 of B has 12 intervals, fewer than 20"), "{found}");
    b[3].operations.clear();
    assert_eq!(reason(&b), "4 of B does not have it");
    b[3].rates.clear();
    assert_eq!(by_run(&a, &b).rates[&rate()].reason.as_deref(), Some("4 of B does not have it"));
}
