//! Points in, and what they add: examples of every rule.

use std::time::Duration;

use plimsoll_schemas::ids::{Operation, Series};
use plimsoll_schemas::wire::Latency;

use super::*;
use crate::core::intake::Intake;
use crate::core::intake::Rules;
use crate::core::intake::lines::{TimeUnit, ValueUnit};
use crate::core::intake::points::{Buckets, Latencies};

mod bounds;
mod model;
mod refused;
mod values;

const BOUNDS: [f64; 3] = [5.0, 10.0, 25.0];

/// Seconds after the node began, by its own clock.
fn at(seconds: u64) -> Now {
    let began = Now { mono: plimsoll_schemas::time::Mono(5), wall: Wall(1_000_000_000_000) };
    began.after(Duration::from_secs(seconds))
}

fn intake() -> Intake {
    Intake::new(at(0), 2_000, Rules::default(), 7)
}

fn series() -> Result<Series, Reject> {
    Ok(Series::plain(Operation::new("a").unwrap()))
}

fn latencies(counts: &[u64]) -> Latencies<'_> {
    Latencies {
        unit: ValueUnit::Time(TimeUnit::Milliseconds),
        count: counts.iter().sum(),
        sum: None,
        min: None,
        max: None,
        buckets: Buckets::Explicit { bounds: &BOUNDS, counts },
    }
}

fn explicit(counts: &[u64]) -> Value<'_> {
    Value::Latencies(latencies(counts))
}

fn point(temporality: Temporality, start: u64, time: u64, value: Value<'_>) -> Point<'_> {
    let (start, time) = (at(start).wall, at(time).wall);
    Point { stream: 1, series: &series, start, time, temporality, value }
}

fn delta(start: u64, time: u64, value: Value<'_>) -> Point<'_> {
    point(Temporality::Delta, start, time, value)
}

fn since(start: u64, time: u64, value: Value<'_>) -> Point<'_> {
    point(Temporality::Cumulative, start, time, value)
}

/// Samples of a point that is recorded at its own time, or why there are none.
fn recorded(intake: &mut Intake, point: &Point<'_>) -> Result<u64, &'static str> {
    let (before, now) = (intake.open_samples(), Now { wall: point.time, ..at(1_000) });
    let now = Now { mono: at(0).mono.plus(now.wall.since(at(0).wall)), ..now };
    intake.on_point(now, point).map_err(Reject::as_str)?;
    Ok(intake.open_samples() - before)
}

fn closed(intake: &mut Intake) -> Latency {
    intake.close(at(1_000)).latency
}

fn figures(intake: &Intake) -> (u64, u64, u64) {
    let figures = intake.stats().points;
    (figures.recorded, figures.baselines, figures.restarts)
}

#[test]
fn a_producer_that_began_after_the_node_is_counted_from_its_start() {
    let mut intake = intake();
    for (time, counts, new) in [(5, [1, 2, 3, 4], 10), (6, [1, 2, 3, 4], 0), (9, [2, 2, 3, 5], 2)] {
        assert_eq!(recorded(&mut intake, &since(1, time, explicit(&counts))), Ok(new));
    }
    assert_eq!(figures(&intake), (3, 0, 0));
    assert_eq!(closed(&mut intake).histograms[0].1.count(), 12);
}

#[test]
fn a_producer_that_began_before_the_node_is_counted_from_its_first_point() {
    let mut intake = intake();
    let old = Wall(at(0).wall.0 - 1);
    let point = Point { start: old, ..since(0, 5, explicit(&[1, 2, 3, 4])) };
    assert_eq!(recorded(&mut intake, &point), Ok(0));
    let point = Point { start: old, ..since(0, 6, explicit(&[1, 2, 4, 4])) };
    assert_eq!(recorded(&mut intake, &point), Ok(1));
    assert_eq!(figures(&intake), (2, 1, 0));
}

#[test]
fn a_delta_is_added_and_its_repetition_refused() {
    let mut intake = intake();
    assert_eq!(recorded(&mut intake, &delta(1, 5, explicit(&[1, 2, 3, 4]))), Ok(10));
    assert_eq!(recorded(&mut intake, &delta(1, 5, explicit(&[1, 2, 3, 4]))), Err("duplicate"));
    assert_eq!(recorded(&mut intake, &delta(4, 6, explicit(&[1, 2, 3, 4]))), Err("duplicate"));
    assert_eq!(recorded(&mut intake, &delta(2, 4, explicit(&[1, 2, 3, 4]))), Err("out_of_order"));
    assert_eq!(recorded(&mut intake, &delta(5, 6, explicit(&[1, 0, 0, 0]))), Ok(1));
}

/// What becomes of a point: (start, time, counts, samples or the reason for none).
type Case = (u64, u64, [u64; 4], Result<u64, &'static str>);

/// Points of one stream in turn.
fn check(points: &[Case]) -> (u64, u64, u64) {
    let mut intake = intake();
    for (n, (start, time, counts, expected)) in points.iter().enumerate() {
        let outcome = recorded(&mut intake, &since(*start, *time, explicit(counts)));
        assert_eq!(outcome, *expected, "point {n}");
    }
    let samples: u64 = points.iter().filter_map(|(.., outcome)| outcome.ok()).sum();
    assert_eq!(closed(&mut intake).samples(), samples);
    figures(&intake)
}

#[test]
fn a_later_start_is_a_restart() {
    let points = [
        (1, 5, [1, 2, 3, 4], Ok(10)),
        (6, 7, [0, 1, 0, 0], Ok(1)),
        (6, 9, [0, 1, 1, 0], Ok(1)),
        // The rest that the run before had to report.
        (1, 6, [1, 2, 4, 4], Ok(1)),
        (1, 5, [1, 2, 3, 4], Err("out_of_order")),
        (6, 9, [0, 1, 1, 0], Err("duplicate")),
    ];
    assert_eq!(check(&points), (4, 0, 1));
}

#[test]
fn two_of_the_same_name_are_distinguished_by_their_start() {
    let points = [
        (1, 5, [1, 0, 0, 0], Ok(1)),
        (2, 6, [0, 0, 0, 7], Ok(0)),
        (1, 7, [2, 0, 0, 0], Ok(1)),
        (2, 8, [0, 0, 0, 9], Ok(9)),
        (1, 9, [4, 0, 0, 0], Ok(2)),
        (2, 10, [0, 0, 0, 10], Ok(1)),
    ];
    assert_eq!(check(&points), (6, 1, 0));
}

#[test]
fn a_start_that_is_another_each_time_is_never_counted_twice() {
    let mut points = vec![(1, 1_000, [9, 0, 0, 0], Ok(9))];
    points.extend((0..200).map(|n| (2 + n, 1_001 + n, [10, 0, 0, 0], Ok(0))));
    assert_eq!(check(&points), (201, 200, 0));
}

#[test]
fn without_a_start_a_count_that_went_down_is_a_restart() {
    let mut intake = intake();
    fn without_start(time: u64, counts: &[u64]) -> Point<'_> {
        Point { start: Wall(0), ..since(0, time, explicit(counts)) }
    }
    for (time, counts, new) in
        [(5, [9, 9, 9, 9], 0), (6, [9, 9, 9, 10], 1), (7, [2, 0, 0, 0], 2), (8, [2, 1, 0, 0], 1)]
    {
        assert_eq!(recorded(&mut intake, &without_start(time, &counts)), Ok(new), "{time}");
    }
    // Not all of them, and yet it cannot be.
    assert_eq!(recorded(&mut intake, &without_start(9, &[1, 8, 0, 0])), Ok(9));
    assert_eq!(figures(&intake), (5, 1, 2));
}

#[test]
fn with_a_start_a_count_that_went_down_is_refused_until_it_is_above() {
    let points = [
        (1, 5, [5, 0, 0, 0], Ok(5)),
        (1, 6, [4, 0, 0, 0], Err("counts")),
        (1, 7, [4, 2, 0, 0], Err("counts")),
        (1, 8, [6, 0, 0, 0], Ok(1)),
    ];
    assert_eq!(check(&points), (2, 0, 0));
}

/// A producer whose clock is this many seconds ahead of the node's, which began at second 1 000.
fn skewed(ahead: i64, start: i64, time: i64) -> Point<'static> {
    let wall = |seconds| at(u64::try_from(1_000 + seconds + ahead).unwrap()).wall;
    Point { start: wall(start), time: wall(time), ..since(0, 0, explicit(&[1, 2, 3, 4])) }
}

#[test]
fn a_clock_that_was_set_back_costs_no_more_than_the_point_that_it_divides() {
    let at_ten = |start, time, temporality| Point {
        temporality,
        ..since(start, time, explicit(if time < 3_000 { &[2, 2, 3, 4] } else { &[1, 2, 3, 4] }))
    };
    let recorded = |intake: &mut Intake, now, point: &Point<'_>| {
        let before = intake.open_samples();
        intake.on_point(at(now), point).map_err(Reject::as_str)?;
        Ok(intake.open_samples() - before)
    };
    let (delta, cumulative) = (Temporality::Delta, Temporality::Cumulative);
    let mut intake = intake();
    // An hour ahead, and then not.
    for (now, start, time, expected) in [
        (5, 3_601, 3_605, Ok(10)),
        (6, 3_601, 3_605, Err("duplicate")),
        (7, 3_605, 7, Err("timestamp")),
        (9, 7, 9, Ok(11)),
        (9, 7, 9, Err("duplicate")),
        (9, 6, 8, Err("out_of_order")),
    ] {
        let point = Point { stream: 2, ..at_ten(start, time, delta) };
        assert_eq!(recorded(&mut intake, now, &point), expected, "{now} {start} {time}");
    }
    let early = |time| Point { start: at(1).wall, ..at_ten(1, time, cumulative) };
    assert_eq!(recorded(&mut intake, 5, &early(3_605)), Ok(0));
    assert_eq!(recorded(&mut intake, 9, &early(9)), Ok(1));
    // Of a clock that goes on ahead, order is kept.
    let ahead = |time| Point { stream: 3, ..at_ten(time - 1, time, delta) };
    assert_eq!(recorded(&mut intake, 5, &ahead(3_605)), Ok(10));
    assert_eq!(recorded(&mut intake, 6, &ahead(3_604)), Err("out_of_order"));
}

#[test]
fn a_clock_that_is_wrong_makes_nothing_count_twice() {
    // The node began at second 0 here and receives each point at the second of its time.
    for (ahead, start, new) in [
        (0, 0, 10),
        (0, 2, 10),
        (0, -1, 0),
        (60, 2, 10),
        (60, -1, 0),
        (60, -70, 0),
        (-60, 2, 0),
        (-60, -1, 0),
    ] {
        let began = at(1_000);
        let mut intake = Intake::new(began, 2_000, Rules::default(), 7);
        let now = began.after(Duration::from_secs(5));
        assert_eq!(intake.on_point(now, &skewed(ahead, start, 5)), Ok(()));
        assert_eq!(intake.open_samples(), new, "{ahead} {start}");
        // A restart is one by its own clock.
        let now = began.after(Duration::from_secs(9));
        assert_eq!(intake.on_point(now, &skewed(ahead, 6, 9)), Ok(()));
        assert_eq!(intake.open_samples(), new + 10, "{ahead} {start}");
    }
}

#[test]
fn other_bounds_from_the_same_start_are_counted_on_from() {
    let mut intake = intake();
    assert_eq!(recorded(&mut intake, &since(1, 5, explicit(&[1, 2, 3, 4]))), Ok(10));
    let offer_since = |time, counts: &[u64; 2], intake: &mut Intake| {
        let buckets = Buckets::Explicit { bounds: &[1.0], counts };
        let latencies = Latencies { count: counts.iter().sum(), buckets, ..latencies(&[]) };
        recorded(intake, &since(1, time, Value::Latencies(latencies)))
    };
    for (time, counts, expected) in
        [(6, [6, 6], Ok(0)), (7, [5, 8], Err("counts")), (8, [6, 7], Ok(1))]
    {
        assert_eq!(offer_since(time, &counts, &mut intake), expected, "{time}");
    }
    assert_eq!(figures(&intake), (3, 1, 0));
}
