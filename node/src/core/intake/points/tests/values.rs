//! What of a point's figures comes out, and between which bounds.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::wire::confirmation::LatencyLimit;

use super::*;

fn one(value: Latencies<'_>) -> (Histogram, u64) {
    let mut intake = intake();
    let (operation, limit_ns) = (Operation::new("a").unwrap(), 18_000_000);
    let limit = LatencyLimit { operation, limit_ns, allowed_ppm: 10_000 };
    intake.on_limits(at(0).mono, &[limit]);
    recorded(&mut intake, &delta(1, 5, Value::Latencies(value))).unwrap();
    let clamped = intake.stats().clamped;
    (closed(&mut intake).histograms.remove(0).1, clamped)
}

/// Between which values the sample of each rank is.
fn bounds(histogram: &Histogram) -> Vec<(u64, u64)> {
    let ranks = 1..=histogram.count();
    ranks.map(|rank| histogram.at_rank(rank).map(|q| (q.lower_ns, q.upper_ns)).unwrap()).collect()
}

fn within(histogram: &Histogram, expected: &[(u64, u64)]) {
    let found = bounds(histogram);
    assert_eq!(found.len(), expected.len());
    for ((lower, upper), (least, most)) in found.into_iter().zip(expected) {
        // A bucket of ours is at most 0.1 % wide, or 512 ns.
        assert!(lower <= least + 1 && lower + lower / 512 + 1_024 >= *least, "{lower} {least}");
        assert!(upper >= *most && upper <= most + most / 512 + 1_024, "{upper} {most}");
    }
}

const HOUR: u64 = 3_600_000_000_000;

#[test]
fn a_bound_at_a_limit_makes_the_share_over_it_exact() {
    let bounds = [0.005, 0.018, 0.1];
    let buckets = Buckets::Explicit { bounds: &bounds, counts: &[3, 4, 5, 6] };
    let given = Latencies {
        unit: ValueUnit::Time(TimeUnit::Seconds),
        count: 18,
        buckets,
        ..latencies(&[])
    };
    let over = one(given).0.over(18_000_000);
    assert_eq!((over.over, over.uncertain), (11, 0));
    // The smallest may be a sample of 18 ms, which is not over it.
    let given = Latencies { min: Some(18.0), max: Some(20.0), ..latencies(&[0, 0, 2, 0]) };
    let over = one(given).0.over(18_000_000);
    assert_eq!((over.over, over.uncertain), (0, 2));
}

#[test]
fn ends_of_explicit_buckets_and_the_smallest_and_largest_bound_their_samples() {
    let (histogram, clamped) = one(latencies(&[1, 1, 0, 1]));
    let (five, ten, hour) = (5_000_000, 10_000_000, HOUR);
    within(&histogram, &[(0, five), (five, ten), (25_000_000, hour)]);
    assert_eq!(clamped, 0);
    let given = Latencies { min: Some(2.0), max: Some(26.0), ..latencies(&[1, 1, 0, 1]) };
    let given = Latencies { sum: Some(35.5), ..given };
    let (histogram, _) = one(given);
    within(&histogram, &[(2_000_000, five), (five, ten), (25_000_000, 26_000_000)]);
    assert_eq!(histogram.sum_ns(), 35_500_000);
    let given = Latencies { min: Some(6.0), max: Some(7.0), ..latencies(&[0, 2, 0, 0]) };
    within(&one(given).0, &[(6_000_000, 7_000_000); 2]);
}

#[test]
fn the_sum_bounds_the_samples_of_a_bucket_without_an_end() {
    let buckets = Buckets::Explicit { bounds: &[], counts: &[100] };
    let given = Latencies { count: 100, buckets, sum: Some(500.0), ..latencies(&[]) };
    let (histogram, _) = one(given);
    let sum_ns = 500_000_000;
    for (rank, (_, upper)) in (1..).zip(bounds(&histogram)) {
        // `larger` samples are at least as large and share the sum. Parts double in size, which can
        // cost a factor of two.
        let larger = 101 - rank;
        assert!(upper <= sum_ns * 2 / larger + sum_ns / 512, "{upper} of rank {rank}");
    }
    assert_eq!((histogram.count(), histogram.sum_ns()), (100, sum_ns.into()));

    // What is over the bound of the bucket is left for its samples to share.
    let given = Latencies { sum: Some(200.0), ..latencies(&[0, 0, 0, 4]) };
    let bounds = bounds(&one(given).0);
    assert!(bounds[3].1 <= 125_300_000 && bounds[0].1 <= 75_200_000, "{bounds:?}");

    // A sum that is too small for its buckets bounds nothing.
    let given = Latencies { sum: Some(1.0), ..latencies(&[0, 0, 0, 4]) };
    within(&one(given).0, &[(25_000_000, HOUR); 4]);
}

#[test]
fn a_bucket_up_to_zero_holds_zeros() {
    let buckets = Buckets::Explicit { bounds: &[0.0, 5.0], counts: &[2, 1, 0] };
    let (histogram, _) = one(Latencies { count: 3, buckets, ..latencies(&[]) });
    within(&histogram, &[(0, 0), (0, 0), (0, 5_000_000)]);
    assert_eq!(histogram.min_ns(), 0);
}

#[test]
fn without_buckets_all_lie_between_the_smallest_and_the_largest() {
    let buckets = Buckets::Explicit { bounds: &[], counts: &[] };
    let given = Latencies { count: 2, buckets, ..latencies(&[]) };
    within(&one(given).0, &[(0, HOUR); 2]);
    let given = Latencies { min: Some(3.0), max: Some(4.0), sum: Some(7.0), ..given };
    let (histogram, _) = one(given);
    within(&histogram, &[(3_000_000, 4_000_000); 2]);
    assert_eq!(histogram.sum_ns(), 7_000_000);
    let buckets = Buckets::Explicit { bounds: &[], counts: &[2] };
    within(&one(Latencies { buckets, ..given }).0, &[(3_000_000, 4_000_000); 2]);
}

fn exponential(scale: i32, zero: u64, offset: i32, positive: &[u64]) -> Latencies<'_> {
    let zero_threshold = if zero > 1 { 0.25 } else { 0.0 };
    let negative = 0;
    let count = positive.iter().sum::<u64>() + zero;
    let buckets = Buckets::Exponential { scale, zero, zero_threshold, offset, positive, negative };
    Latencies { count, buckets, ..latencies(&[]) }
}

#[test]
fn exponential_buckets_have_the_ends_of_their_scale() {
    let ms = |n: u64| n * 1_000_000;
    for (given, expected) in [
        (exponential(0, 0, 0, &[1, 0, 1]), vec![(ms(1), ms(2)), (ms(4), ms(8))]),
        (exponential(0, 0, -2, &[1]), vec![(250_000, 500_000)]),
        (exponential(-2, 0, 1, &[1]), vec![(ms(16), ms(256))]),
        (exponential(1, 0, 3, &[1]), vec![(2_828_427, ms(4))]),
        (exponential(0, 1, 0, &[1]), vec![(0, 0), (ms(1), ms(2))]),
        (exponential(0, 2, 0, &[]), vec![(0, 250_000); 2]),
        (exponential(20, 0, 1 << 20, &[1]), vec![(ms(2), ms(2) + 2)]),
        (exponential(-10, 0, -1, &[1, 1]), vec![(0, ms(1)), (ms(1), HOUR)]),
        (exponential(0, 0, i32::MIN, &[1]), vec![(0, 1)]),
    ] {
        let (histogram, clamped) = one(given);
        within(&histogram, &expected);
        assert_eq!(clamped, 0, "{given:?}");
    }
}

#[test]
fn what_is_over_an_hour_is_clamped_and_counted() {
    for given in [exponential(0, 0, 21, &[1, 1, 3]), exponential(0, 0, i32::MAX - 1, &[1, 3])] {
        let (histogram, clamped) = one(given);
        assert_eq!(
            (histogram.max_ns(), histogram.count() - clamped),
            (HOUR, u64::from(given.count > 4))
        );
    }
    let buckets = Buckets::Explicit { bounds: &[3_600_000.0], counts: &[0, 2] };
    assert_eq!(one(Latencies { count: 2, buckets, ..latencies(&[]) }).1, 2);
}

#[test]
fn wider_buckets_from_the_same_start_are_compared_in_the_wider() {
    let mut intake = intake();
    for (time, given_now, new) in [
        (5, exponential(3, 0, 3, &[1, 2, 3]), 6),
        // Buckets 3; 4 and 5: 1 and 2.
        (6, exponential(2, 1, 1, &[1, 5, 1]), 2),
        (7, exponential(0, 1, 0, &[8]), 1),
        (8, exponential(-10, 1, 0, &[8]), 0),
        // Narrower ones, which no producer makes from one start.
        (9, exponential(0, 1, 0, &[8, 1]), 1),
    ] {
        let outcome = recorded(&mut intake, &since(1, time, Value::Latencies(given_now)));
        assert_eq!(outcome, Ok(new), "{time}");
    }
    let down = since(1, 10, Value::Latencies(exponential(0, 1, 1, &[9])));
    assert_eq!(recorded(&mut intake, &down), Err("counts"));
    assert_eq!(figures(&intake), (5, 0, 0));
}

fn sums(temporality: Temporality, monotonic: bool, values: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let mut intake = intake();
    for (time, value) in (5..).zip(values) {
        let value = Value::Sum { value: *value, monotonic };
        let start = if temporality == Temporality::Delta { time - 1 } else { 1 };
        recorded(&mut intake, &point(temporality, start, time, value)).unwrap();
    }
    let Latency { counters, gauges, .. } = closed(&mut intake);
    let each = |series: Vec<(Series, f64)>| series.into_iter().map(|(_, value)| value).collect();
    (each(counters), each(gauges))
}

#[test]
fn sums_become_counters_where_they_only_grow_and_gauges_where_they_do_not() {
    use Temporality::{Cumulative, Delta};
    for (temporality, monotonic, values, counter, gauge) in [
        (Cumulative, true, &[3.0, 5.0, 5.5][..], Some(5.5), None),
        (Cumulative, true, &[3.0, 2.0, 2.5], Some(5.5), None),
        (Cumulative, true, &[0.0], None, None),
        (Delta, true, &[3.0, 2.0, 2.5], Some(7.5), None),
        (Cumulative, false, &[3.0, -2.0], None, Some(-2.0)),
        (Delta, false, &[3.0, -2.0, 0.5], None, Some(1.5)),
        (Delta, false, &[f64::MAX, f64::MAX], None, Some(f64::MAX)),
    ] {
        let (counters, gauges) = sums(temporality, monotonic, values);
        let given = (counters.first().copied(), gauges.first().copied());
        assert_eq!(given, (counter, gauge), "{temporality:?} {monotonic} {values:?}");
    }
}

#[test]
fn a_gauge_is_what_it_was_last_and_no_earlier_one_comes_after() {
    let mut intake = intake();
    for (time, value, expected) in [
        (5, 1.0, Ok(0)),
        (7, 2.0, Ok(0)),
        (6, 3.0, Err("out_of_order")),
        (7, 4.0, Err("duplicate")),
    ] {
        let point = Point { start: Wall(u64::MAX), ..since(1, time, Value::Gauge(value)) };
        assert_eq!(recorded(&mut intake, &point), expected);
    }
    assert_eq!(closed(&mut intake).gauges[0].1, 2.0);
}

#[test]
fn labels_are_built_once_while_a_stream_sends_in_each_interval() {
    let (mut intake, requested) = (intake(), std::cell::Cell::new(0));
    let counting = || {
        requested.set(requested.get() + 1);
        series()
    };
    let offer = |intake: &mut Intake, time, counts: &[u64]| {
        recorded(intake, &Point { series: &counting, ..since(1, time, explicit(counts)) }).unwrap()
    };
    // Another series whose slot comes first and then goes.
    intake.on_datagram(at(0).wall, b"Z:1|ms");
    for round in 1..4 {
        assert_eq!(offer(&mut intake, 2 * round, &[round, 0, 0, 0]), 1);
        offer(&mut intake, 2 * round + 1, &[round, 0, 0, 0]);
        closed(&mut intake);
    }
    assert_eq!(requested.get(), 1);
    closed(&mut intake);
    closed(&mut intake);
    assert_eq!(offer(&mut intake, 20, &[9, 0, 0, 0]), 6);
    assert_eq!((requested.get(), closed(&mut intake).samples()), (2, 6));
}
