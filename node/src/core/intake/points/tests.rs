//! Points in, and what they add: examples of every rule.

use std::time::Duration;

use plimsoll_schemas::ids::{Operation, Series};
use plimsoll_schemas::wire::Latency;

use super::*;
use crate::core::intake::Intake;
use crate::core::intake::point::Buckets;
use crate::core::intake::rules::Rules;
use crate::core::intake::units::TimeUnit;

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

fn explicit(counts: &[u64]) -> Value<'_> {
    Value::Latencies(Latencies {
        unit: TimeUnit::Milliseconds,
        count: counts.iter().sum(),
        sum: None,
        min: None,
        max: None,
        buckets: Buckets::Explicit { bounds: &BOUNDS, counts },
    })
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

/// Samples of a point told as soon as it holds, or why there are none.
fn told(intake: &mut Intake, point: &Point<'_>) -> Result<u64, &'static str> {
    let (before, now) = (intake.counted(), Now { wall: point.time, ..at(1_000) });
    let now = Now { mono: at(0).mono.plus(now.wall.since(at(0).wall)), ..now };
    intake.on_point(now, point).map_err(Reject::as_str)?;
    Ok(intake.counted() - before)
}

fn closed(intake: &mut Intake) -> Latency {
    intake.close(at(1_000)).latency
}

fn figures(intake: &Intake) -> (u64, u64, u64) {
    let figures = intake.figures().points;
    (figures.taken, figures.baselines, figures.restarts)
}

#[test]
fn a_producer_that_began_after_the_node_is_counted_from_its_start() {
    let mut intake = intake();
    for (time, counts, new) in [(5, [1, 2, 3, 4], 10), (6, [1, 2, 3, 4], 0), (9, [2, 2, 3, 5], 2)] {
        assert_eq!(told(&mut intake, &since(1, time, explicit(&counts))), Ok(new));
    }
    assert_eq!(figures(&intake), (3, 0, 0));
    assert_eq!(closed(&mut intake).histograms[0].1.count(), 12);
}

#[test]
fn a_producer_that_began_before_the_node_is_counted_from_its_first_point() {
    let mut intake = intake();
    let old = Wall(at(0).wall.0 - 1);
    let point = Point { start: old, ..since(0, 5, explicit(&[1, 2, 3, 4])) };
    assert_eq!(told(&mut intake, &point), Ok(0));
    let point = Point { start: old, ..since(0, 6, explicit(&[1, 2, 4, 4])) };
    assert_eq!(told(&mut intake, &point), Ok(1));
    assert_eq!(figures(&intake), (2, 1, 0));
}

#[test]
fn a_delta_is_added_and_its_repetition_refused() {
    let mut intake = intake();
    assert_eq!(told(&mut intake, &delta(1, 5, explicit(&[1, 2, 3, 4]))), Ok(10));
    assert_eq!(told(&mut intake, &delta(1, 5, explicit(&[1, 2, 3, 4]))), Err("duplicate"));
    assert_eq!(told(&mut intake, &delta(4, 6, explicit(&[1, 2, 3, 4]))), Err("duplicate"));
    assert_eq!(told(&mut intake, &delta(2, 4, explicit(&[1, 2, 3, 4]))), Err("out_of_order"));
    assert_eq!(told(&mut intake, &delta(5, 6, explicit(&[1, 0, 0, 0]))), Ok(1));
}
