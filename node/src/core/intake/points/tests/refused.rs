//! Points that are refused, and wrong fields that are accepted.

use super::*;

const NAN: f64 = f64::NAN;
const INFINITY: f64 = f64::INFINITY;

/// Refused for this reason, and nothing of it is left.
fn refused(point: &Point<'_>, reason: &str) {
    let mut intake = intake();
    let shown = format!("{:?} {:?} {:?}", point.start, point.time, point.value);
    assert_eq!(recorded(&mut intake, point), Err(reason), "{shown}");
    let figures = intake.stats();
    assert_eq!(figures.rejected.values().sum::<u64>(), 1, "{shown}");
    assert_eq!(figures.rejected.keys().map(|reason| reason.as_str()).next(), Some(reason));
    let held =
        (figures.points.streams, figures.points.recorded, intake.series(), intake.open_samples());
    assert_eq!(held, (0, 0, 0, 0), "{shown}");
    assert_eq!(recorded(&mut intake, &since(1, 5, explicit(&[1, 2, 3, 4]))), Ok(10), "{shown}");
}

fn both(value: Value<'_>, reason: &str) {
    refused(&delta(1, 5, value), reason);
    refused(&since(1, 5, value), reason);
}

#[test]
fn a_distribution_that_contradicts_itself_is_refused_whole() {
    let given = latencies(&[1, 2, 3, 4]);
    let within = |bounds: &'static [f64], counts: &'static [u64]| Latencies {
        count: counts.iter().copied().fold(0, u64::wrapping_add),
        buckets: Buckets::Explicit { bounds, counts },
        ..given
    };
    for (latencies, reason) in [
        (within(&[5.0, 4.0], &[1, 1, 1]), "bounds"),
        (within(&[5.0, 5.0], &[1, 1, 1]), "bounds"),
        (within(&[NAN], &[1, 1]), "bounds"),
        (within(&[5.0, NAN], &[1, 1, 1]), "bounds"),
        (within(&[5.0, INFINITY], &[1, 1, 1]), "bounds"),
        (within(&[-INFINITY, 5.0], &[0, 1, 1]), "bounds"),
        (within(&[0.5; 1_024], &[0; 1_025]), "bounds"),
        (within(&[5.0], &[1]), "counts"),
        (within(&[5.0], &[]), "counts"),
        (within(&[5.0], &[1, 1, 1]), "counts"),
        (within(&[], &[1, 1]), "counts"),
        (within(&[5.0], &[u64::MAX, 1]), "counts"),
        (within(&[-5.0, 5.0], &[1, 1, 1]), "negative"),
        (Latencies { count: 11, ..given }, "counts"),
        (Latencies { count: 0, ..given }, "counts"),
        (Latencies { min: Some(-0.5), ..given }, "negative"),
        (Latencies { sum: Some(-0.5), ..given }, "negative"),
        (Latencies { sum: Some(-INFINITY), ..given }, "negative"),
    ] {
        both(Value::Latencies(latencies), reason);
    }
}

#[test]
fn exponential_buckets_that_cannot_be_are_refused() {
    let long = [0; 1_025];
    for (scale, zero_threshold, negative, positive, count, reason) in [
        (21, 0.0, 0, &[1][..], 1, "bounds"),
        (-11, 0.0, 0, &[1], 1, "bounds"),
        (i32::MIN, 0.0, 0, &[1], 1, "bounds"),
        (0, NAN, 0, &[1], 1, "bounds"),
        (0, -1.0, 0, &[1], 1, "bounds"),
        (0, INFINITY, 0, &[1], 1, "bounds"),
        (0, 0.0, 0, &long, 0, "bounds"),
        (0, 0.0, 0, &[1, 2], 4, "counts"),
        (0, 0.0, 0, &[u64::MAX, 2], 1, "counts"),
        (0, 0.0, 1, &[1], 2, "negative"),
    ] {
        let buckets =
            Buckets::Exponential { scale, zero: 0, zero_threshold, offset: 0, positive, negative };
        both(Value::Latencies(Latencies { count, buckets, ..latencies(&[]) }), reason);
    }
}

#[test]
fn numbers_and_times_that_are_none_are_refused() {
    for (value, monotonic, reason) in [
        (NAN, true, "number"),
        (INFINITY, true, "number"),
        (-1.0, true, "negative"),
        (NAN, false, "number"),
        (-INFINITY, false, "number"),
    ] {
        both(Value::Sum { value, monotonic }, reason);
    }
    both(Value::Gauge(NAN), "number");
    let values = [explicit(&[1, 2, 3, 4]), Value::Sum { value: 1.0, monotonic: true }];
    for value in values {
        refused(&since(6, 5, value), "timestamp");
        refused(&delta(6, 5, value), "timestamp");
        refused(&Point { time: Wall(0), start: Wall(0), ..since(1, 5, value) }, "timestamp");
    }
    refused(&Point { time: Wall(0), ..since(1, 5, Value::Gauge(1.0)) }, "timestamp");
}

#[test]
fn a_series_that_has_no_name_is_refused_with_its_reason() {
    let nameless = || Err(Reject::Name);
    refused(&Point { series: &nameless, ..since(1, 5, explicit(&[1, 2, 3, 4])) }, "name");
}

#[test]
fn impossible_values_beside_buckets_are_ignored() {
    for beside in [NAN, INFINITY, 1e300, 0.0, 7.0] {
        let value = Latencies { sum: Some(beside), ..latencies(&[1, 2, 3, 4]) };
        let value = Latencies { min: Some(beside), max: Some(beside), ..value };
        let mut intake = intake();
        assert_eq!(
            recorded(&mut intake, &delta(1, 5, Value::Latencies(value))),
            Ok(10),
            "{beside}"
        );
        let histogram = closed(&mut intake).histograms.remove(0).1;
        assert_eq!(histogram.count(), 10);
        let median = histogram.quantile(0.5).unwrap();
        assert!(median.lower_ns > 5_000_000 && median.upper_ns <= 25_004_096, "{median:?}");
    }
}

#[test]
fn what_finds_no_room_is_refused_and_a_cumulative_stream_goes_on_once_there_is() {
    let mut intake = intake();
    let most = plimsoll_schemas::limits::wire::SAMPLES_MAX;
    assert_eq!(recorded(&mut intake, &since(1, 5, explicit(&[most, 0, 0, 0]))), Ok(most));
    assert_eq!(recorded(&mut intake, &since(1, 6, explicit(&[most, 1, 0, 0]))), Err("samples_cap"));
    closed(&mut intake);
    assert_eq!(recorded(&mut intake, &since(1, 7, explicit(&[most, 1, 1, 0]))), Ok(2));
}

#[test]
fn past_the_series_cap_latencies_fold_and_gauges_are_refused() {
    let mut intake = Intake::new(at(0), 1, Rules::default(), 7);
    intake.on_datagram(at(0).wall, b"b:1|ms");
    for (time, counts) in [(5, [1, 0, 0, 0]), (6, [2, 0, 0, 0])] {
        assert_eq!(recorded(&mut intake, &since(1, time, explicit(&counts))), Ok(1));
    }
    let gauge = Point { stream: 2, ..since(1, 5, Value::Gauge(1.0)) };
    assert_eq!(recorded(&mut intake, &gauge), Err("series_cap"));
    assert_eq!(intake.stats().overflowed, 2);
    let names = closed(&mut intake).histograms;
    let names: Vec<_> = names.iter().map(|(series, h)| (series.to_string(), h.count())).collect();
    assert_eq!(names, [("b".to_owned(), 1), ("other".to_owned(), 2)]);
}
