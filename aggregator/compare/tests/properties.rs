//! What holds for all comparisons: the order of slots does not matter, swapped sides have the
//! opposite verdict, scaled samples shift by their scale. And what happens at the edges.

mod runs;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_compare::{BucketLayout, Compared, Comparison, Options, Side, Verdict, compare};
use plimsoll_schemas::histogram::layout::lowest;
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::Operation;
use proptest::prelude::*;
use runs::{Run, operation};

fn plain(a: &Side, b: &Side) -> Comparison {
    compare(a, b, &Options::default())
}

fn only(comparison: &Comparison) -> &Compared {
    &comparison.operations[&operation()]
}

fn runs() -> impl Strategy<Value = Run> {
    let scale = prop_oneof![Just(1.0), Just(1.05), Just(1.5), Just(0.7)];
    (1_u64..4, 40_u64..80, 5_u64..40, 0.0..0.9, scale).prop_map(
        |(nodes, slots, per_slot, level_correlation, scale)| Run {
            nodes,
            slots,
            per_slot,
            level_sigma: 0.05,
            level_correlation,
            scale,
            ..Run::PLAIN
        },
    )
}

fn reversed(mut side: Side) -> Side {
    side.operations.values_mut().for_each(|measured| measured.slots.reverse());
    side
}

/// The same samples, each this many times as large.
fn multiplied(side: &Side, factor: u64) -> Side {
    let mut scaled = side.clone();
    for slot in scaled.operations.values_mut().flat_map(|measured| &mut measured.slots) {
        let mut samples = Histogram::default();
        for (index, n) in slot.samples.buckets() {
            let lowest = lowest(index);
            samples.record_n(lowest * factor, n);
        }
        slot.samples = Packed::from(&samples);
    }
    scaled
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_order_of_slots_does_not_matter(run in runs(), seed in 0_u64..1_000) {
        let (a, b) = (run.side(seed), run.side(seed + 1_000));
        prop_assert_eq!(plain(&a, &b), plain(&reversed(a), &reversed(b)));
    }

    #[test]
    fn swapped_sides_have_the_opposite_shifts(a in runs(), b in runs(), seed in 0_u64..1_000) {
        let (a, b) = (a.side(seed), b.side(seed + 1_000));
        let (there, back) = (plain(&a, &b), plain(&b, &a));
        for (one, other) in only(&there).shifts.iter().zip(&only(&back).shifts) {
            prop_assert_eq!(one.change.is_some(), other.change.is_some());
            let (Some(one), Some(other)) = (one.change, other.change) else { continue };
            let product = (1.0 + one.estimate) * (1.0 + other.estimate);
            prop_assert!((product - 1.0).abs() < 1e-9, "{product}");
            prop_assert!(((1.0 + one.low) * (1.0 + other.high) - 1.0).abs() < 1e-9);
            prop_assert!((one.floor - other.floor).abs() < 1e-9);
            let opposite = match one.verdict {
                Verdict::Worse => Verdict::Better,
                Verdict::Better => Verdict::Worse,
                same => same,
            };
            prop_assert_eq!(other.verdict, opposite);
        }
    }

    #[test]
    fn samples_that_are_all_doubled_shift_by_their_factor(run in runs(), power in 1_u32..5) {
        // Buckets of values above 1 ms double with the value.
        let a = multiplied(&run.side(1), 1);
        let factor = 2_u64.pow(power);
        let comparison = plain(&a, &multiplied(&a, factor));
        prop_assume!(comparison.verdict != Verdict::NotEnoughData);
        for change in only(&comparison).shifts.iter().filter_map(|shift| shift.change) {
            prop_assert!((change.estimate - (factor as f64 - 1.0)).abs() < 1e-9);
            prop_assert_eq!(change.verdict, Verdict::Worse);
        }
        prop_assert_eq!(comparison.verdict, Verdict::Worse);
    }
}

#[test]
fn a_side_compared_with_itself_has_no_shift_and_an_interval() {
    let side = Run::PLAIN.side(3);
    let comparison = plain(&side, &side);
    assert_eq!(comparison.verdict, Verdict::Same);
    let median = only(&comparison).shifts[4].change.unwrap();
    assert_eq!(median.estimate, 0.0);
    assert!(median.low < -0.005 && median.high > 0.005, "{median:?}");
}

#[test]
fn nodes_that_differ_are_compared_each_with_their_own_slots() {
    let run = Run { nodes: 5, slots: 20, ..Run::PLAIN };
    let compared = plain(&run.side(1), &run.side(2));
    let extent = only(&compared).a.unwrap();
    assert_eq!((extent.samples, extent.slots), (10_000, 100));
    assert!(extent.blocks >= 20, "{extent:?}");
}

#[test]
fn one_slow_quantile_outweighs_a_faster_one() {
    let a = Run::PLAIN.side(1);
    // Narrower below and wider above the median.
    let mut b = a.clone();
    for slot in b.operations.values_mut().flat_map(|measured| &mut measured.slots) {
        let mut samples = Histogram::default();
        for (index, n) in slot.samples.buckets() {
            let value = lowest(index);
            let moved = if value < 10_000_000 { value / 2 } else { value * 2 };
            samples.record_n(moved, n);
        }
        slot.samples = Packed::from(&samples);
    }
    let comparison = plain(&a, &b);
    let verdicts: BTreeSet<Verdict> =
        only(&comparison).shifts.iter().filter_map(|s| Some(s.change?.verdict)).collect();
    assert!(verdicts.contains(&Verdict::Better) && verdicts.contains(&Verdict::Worse));
    assert_eq!(comparison.verdict, Verdict::Worse);
    assert_eq!(plain(&b, &a).verdict, Verdict::Worse);
}

#[test]
fn what_cannot_be_compared_is_stated_for_each_operation() {
    let a = Run::PLAIN.side(1);
    let mut b = Run::PLAIN.side(2);
    b.operations.get_mut("fetch").unwrap().layout =
        BucketLayout { digits: 2, ..BucketLayout::MESH };
    let comparison = plain(&a, &b);
    assert_eq!(comparison.verdict, Verdict::NotComparable);
    let reason = only(&comparison).reason.clone().unwrap();
    assert!(reason.contains("B has 2 digits from 1000 up, in units of 1 ns"), "{reason}");
    let comparison = plain(&a, &Side::default());
    assert_eq!(comparison.verdict, Verdict::NotComparable);
    assert_eq!(only(&comparison).reason.as_deref(), Some("only A has it"));
    assert_eq!(plain(&Side::default(), &Side::default()).verdict, Verdict::NotComparable);
}

#[test]
fn too_little_data_is_stated_with_what_is_missing() {
    for (run, words) in [
        (Run { slots: 19, per_slot: 1_000, ..Run::PLAIN }, "B has 19 intervals, fewer than 20"),
        (Run { slots: 33, per_slot: 3, ..Run::PLAIN }, "B has 99 samples, fewer than 100"),
        (
            Run { level_sigma: 1.0, level_correlation: 0.999, ..Run::PLAIN },
            "B changes too slowly for its length",
        ),
    ] {
        let comparison = plain(&Run::PLAIN.side(1), &run.side(2));
        assert_eq!(comparison.verdict, Verdict::NotEnoughData, "{run:?}");
        let reason = only(&comparison).reason.clone().unwrap();
        assert!(reason.starts_with(words), "{reason}");
    }
}

#[test]
fn tails_without_samples_have_no_verdict() {
    let run = Run { per_slot: 10, ..Run::PLAIN };
    let comparison = plain(&run.side(1), &run.side(2));
    let judged: Vec<f64> = only(&comparison)
        .shifts
        .iter()
        .filter(|shift| shift.change.is_some())
        .map(|shift| shift.quantile)
        .collect();
    // Of 1 000 samples 10 are beyond p1 and p99, and one beyond p99.9.
    assert_eq!(judged, [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]);
}

#[test]
fn the_share_over_a_limit_is_judged_too() {
    let options = Options {
        limits: BTreeMap::from([(operation(), 18_000_000)]),
        tolerance: 1.0,
        ..Options::default()
    };
    let slower = Run { scale: 1.2, ..Run::PLAIN };
    let comparison = compare(&Run::PLAIN.side(1), &slower.side(2), &options);
    let share = only(&comparison).over_limit.unwrap();
    // ln 1.8 is 1.96 sigma, and ln 1.5 is 1.35.
    assert!((share.a - 0.025).abs() < 0.006 && (share.b - 0.088).abs() < 0.01, "{share:?}");
    let change = share.change.unwrap();
    assert!((change.estimate - (share.b - share.a)).abs() < 1e-12);
    assert_eq!((change.verdict, comparison.verdict), (Verdict::Worse, Verdict::Worse));
    let same = compare(&Run::PLAIN.side(1), &Run::PLAIN.side(2), &options);
    assert_eq!(same.verdict, Verdict::Same);
}

#[test]
fn shifts_within_the_tolerance_are_none() {
    let slower = Run { scale: 1.05, ..Run::PLAIN };
    let (a, b) = (Run::PLAIN.side(1), slower.side(2));
    for (tolerance, verdict) in [(0.0, Verdict::Worse), (0.1, Verdict::Same)] {
        let options = Options { tolerance, ..Options::default() };
        assert_eq!(compare(&a, &b, &options).verdict, verdict, "{tolerance}");
    }
}

#[test]
fn larger_sizes_decide_only_where_they_are_named() {
    let sizes = Operation::new("read:bytes").unwrap();
    let with_sizes = |seed: u64, scale: f64| {
        let mut side = Run::PLAIN.side(seed);
        let of = Run { scale, ..Run::PLAIN }.side(seed + 2).operations.remove("fetch").unwrap();
        side.operations.insert(sizes.clone(), of);
        side
    };
    let (a, b) = (with_sizes(1, 1.0), with_sizes(2, 1.5));
    let all = plain(&a, &b);
    assert_eq!(
        (all.verdict, all.operations["read:bytes"].verdict),
        (Verdict::Same, Verdict::Worse)
    );
    let options = Options { operations: BTreeSet::from([sizes.clone()]), ..Options::default() };
    assert_eq!(compare(&a, &b, &options).verdict, Verdict::Worse);
}

#[test]
fn chosen_operations_alone_decide() {
    let mut a = Run::PLAIN.side(1);
    let mut b = Run { scale: 1.5, ..Run::PLAIN }.side(2);
    let publish = Operation::new("publish").unwrap();
    a.operations.insert(publish.clone(), Run::PLAIN.side(3).operations.remove("fetch").unwrap());
    b.operations.insert(publish.clone(), Run::PLAIN.side(4).operations.remove("fetch").unwrap());
    assert_eq!(plain(&a, &b).verdict, Verdict::Worse);
    let options = Options { operations: BTreeSet::from([publish]), ..Options::default() };
    let comparison = compare(&a, &b, &options);
    assert_eq!((comparison.verdict, comparison.operations.len()), (Verdict::Same, 1));
}
