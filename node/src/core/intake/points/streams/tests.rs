//! How many streams are tracked, and how the first point of an untracked one is classified.

use std::time::Duration;

use plimsoll_schemas::ids::Series;

use super::*;
use crate::core::intake::Reject;
use crate::core::intake::points::buckets::BucketCounts;
use crate::core::intake::points::{Temporality, Value};

const NONE: fn() -> Result<Series, Reject> = || Err(Reject::Name);

fn now(seconds: u64) -> Now {
    Now { wall: Wall(1_000_000_000_000), ..Now::default() }.after(Duration::from_secs(seconds))
}

fn point(stream: u64, start: u64, time: u64) -> Point<'static> {
    Point {
        stream,
        series: &NONE,
        start: now(start).wall,
        time: now(time).wall,
        temporality: Temporality::Cumulative,
        value: Value::Gauge(0.0),
    }
}

fn memory(buckets: usize) -> StreamState {
    let counts = vec![1; buckets];
    let counted = BucketCounts { layout: 1, scale: 0, zero: 0, offset: 0, counts: &counts };
    let mut kept = PreviousBuckets::nothing(&counted);
    kept.replace(&counted, None);
    StreamState { slot: None, last: LastValue::Buckets(kept) }
}

/// Inserts a point and returns its classification; `None` when its stream was known.
fn offer(
    streams: &mut StreamTable,
    at: Now,
    point: &Point<'_>,
    buckets: usize,
) -> Option<FirstPoint> {
    if let Some(stream) = streams.get(point.stream, point.start) {
        stream.time = point.time;
        return None;
    }
    let first = streams.first(at, point);
    streams.insert(at, point.start, point, memory(buckets));
    Some(first)
}

#[test]
fn the_longest_silent_are_evicted_and_their_counts_are_not_repeated() {
    let (mut streams, most) = (StreamTable::new(now(0), 7), STREAMS_MAX as u64);
    for id in 0..most {
        assert_eq!(offer(&mut streams, now(9), &point(id, 1, 9), 1), Some(FirstPoint::New));
    }
    assert_eq!(offer(&mut streams, now(10), &point(0, 1, 10), 1), None);
    assert_eq!((streams.len(), streams.evicted), (STREAMS_MAX, 0));
    assert_eq!(offer(&mut streams, now(11), &point(most, 1, 11), 1), Some(FirstPoint::New));
    let share = most / EVICTED_SHARE as u64 + 1;
    assert_eq!(streams.evicted, share);
    assert_eq!(streams.len() as u64, most + 1 - share);
    assert_eq!(streams.bytes, streams.len() * 8);
    // The first reported later than those after it.
    assert_eq!(offer(&mut streams, now(12), &point(0, 1, 12), 1), None);
    assert_eq!(offer(&mut streams, now(12), &point(1, 1, 12), 1), Some(FirstPoint::Baseline));
    assert_eq!(offer(&mut streams, now(12), &point(share + 1, 1, 12), 1), None);
    // A start that may have been evicted does not count as new either.
    assert_eq!(offer(&mut streams, now(12), &point(2, 10, 12), 1), Some(FirstPoint::Baseline));
    assert_eq!(offer(&mut streams, now(13), &point(3, 12, 13), 1), Some(FirstPoint::New));
}

#[test]
fn bytes_of_counts_are_bounded_as_well() {
    let mut streams = StreamTable::new(now(0), 7);
    for id in 0..2_000 {
        offer(&mut streams, now(9), &point(id, 1, 9), 1_024);
        assert!(streams.bytes <= STREAMS_BYTES_MAX);
        assert_eq!(streams.bytes, streams.len() * 8 * 1_024);
    }
    assert!(streams.len() > STREAMS_BYTES_MAX / 8_192 * 9 / 10 && streams.evicted > 0);
    let bytes = streams.bytes;
    streams.on_resized(now(9), 0, 8_192);
    assert_eq!(streams.bytes, bytes - 8_192);
}

#[test]
fn one_stream_has_so_many_starts() {
    let mut streams = StreamTable::new(now(0), 7);
    offer(&mut streams, now(9), &point(2, 1, 9), 1);
    for start in 0..1_000 {
        let first = offer(&mut streams, now(2_000), &point(1, start, 2_000), 1);
        let expected = match start {
            0 => FirstPoint::New,
            1..=64 => FirstPoint::Ambiguous,
            _ => FirstPoint::Baseline,
        };
        assert_eq!(first, Some(expected), "{start}");
    }
    assert_eq!((streams.len(), streams.evicted), (STREAM_STARTS_MAX + 1, 1_000 - 64));
    assert_eq!(offer(&mut streams, now(10), &point(2, 1, 10), 1), None);
    // The history of other streams is as complete as before.
    assert_eq!(offer(&mut streams, now(2_000), &point(3, 1, 2_000), 1), Some(FirstPoint::New));
}

#[test]
fn when_starts_of_too_many_streams_are_evicted_nothing_older_is_accepted() {
    let (mut streams, most) = (StreamTable::new(now(0), 7), STREAMS_MAX / EVICTED_SHARE);
    let mut evicted_of = |id| {
        for start in 0..=STREAM_STARTS_MAX as u64 {
            let at = 2_000 + start;
            offer(&mut streams, now(at), &point(id, at, at), 1);
            streams.table.retain(|known| known.id == id);
        }
        (streams.since_of.len(), streams.since)
    };
    for id in 1..=most {
        assert_eq!(evicted_of(id as u64), (id, now(0)));
    }
    assert_eq!(evicted_of(0), (0, now(2_000 + STREAM_STARTS_MAX as u64)));
}

#[test]
fn a_stream_of_twenty_buckets_takes_three_hundred_bytes() {
    // Its counts, and what the allocator adds to them, are 184.
    assert!(size_of::<Stream>() <= 152, "{}", size_of::<Stream>());
}
