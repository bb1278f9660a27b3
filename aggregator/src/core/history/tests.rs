//! Plans beside a naive cover of the range, and what waits for the store.

use std::ops::Range;
use std::time::Duration;

use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::time::nanos;
use plimsoll_schemas::wire::Latency;
use proptest::prelude::*;

use super::*;
use crate::core::fleet::{Definition, MergedSamples};

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Wall {
    Wall(seconds * 1_000_000_000)
}

/// One sample of an interval that ended then.
pub(crate) fn merged(seconds: u64, value_ns: u64) -> MergedSnapshot {
    let mut samples = Histogram::default();
    samples.record(value_ns);
    let series = Series::plain(Operation::new("op").unwrap());
    let histograms = [(series, Packed::from(&samples))].into_iter().collect();
    let latency = Latency { histograms, ..Latency::default() };
    let node_labels = Labels::default();
    MergedSnapshot {
        taken: at(seconds),
        reported: Some(nanos(SECOND)),
        samples: Some(MergedSamples { node_labels, latency }),
    }
}

fn pool() -> Pool {
    Pool::Fleet(Operation::new("op").unwrap())
}

fn count(samples: &SlotSamples) -> u64 {
    samples.pools.values().flatten().map(|(_, samples)| samples.count()).sum()
}

#[test]
fn a_batch_that_failed_is_in_the_next_attempt_of_the_same_generation() {
    let mut history = History::kept(StoredHistory::default());
    let rollups = Rollups::default();
    history.on_merged(&merged(5, 7), &rollups);
    let first = history.take(at(6), BTreeMap::new()).unwrap();
    assert_eq!((first.id.generation, first.id.attempt, count(&first.samples)), (1, 0, 1));
    history.on_merged(&merged(7, 7), &rollups);
    let second = history.take(at(8), BTreeMap::new()).unwrap();
    assert_eq!((second.id.generation, second.id.attempt, count(&second.samples)), (1, 1, 2));
    history.on_stored();
    assert!(!history.has_changed());
    assert_eq!(history.generation(), 1);
}

#[test]
fn a_query_adds_what_its_reading_lacks_and_nothing_twice() {
    let mut history = History::kept(StoredHistory::default());
    let rollups = Rollups::default();
    let unstored = |history: &History, held| {
        history.unstored(&pool(), held).map(|unstored| count(&unstored.samples))
    };
    history.on_merged(&merged(5, 7), &rollups);
    let none = BatchId::default();
    assert_eq!(unstored(&history, none), Some(1));
    let batch = history.take(at(6), BTreeMap::new()).unwrap();
    history.on_merged(&merged(7, 7), &rollups);
    assert_eq!(unstored(&history, none), Some(2), "read before the batch was written");
    assert_eq!(unstored(&history, batch.id), Some(1), "read after it");
    history.on_stored();
    assert_eq!(unstored(&history, none), None, "read before, and the batch is gone");
    assert_eq!(unstored(&history, batch.id), Some(1));
}

#[test]
fn without_a_store_nothing_is_collected() {
    let mut history = History::default();
    history.on_merged(&merged(5, 7), &Rollups::default());
    history.on_tick(Now::default(), 3);
    history.on_tick(Now::default().after(SECOND), 3);
    assert!(!history.has_changed());
    assert!(history.take(at(6), BTreeMap::new()).is_none());
}

#[test]
fn a_history_that_is_not_kept_for_a_while_has_its_generation_afterwards() {
    let mut history = History::paused(7);
    history.on_merged(&merged(5, 7), &Rollups::default());
    assert!(history.take(at(6), BTreeMap::new()).is_none());
    assert_eq!((history.generation(), history.dropped()), (7, None));
}

#[test]
fn what_the_streams_hold_again_is_not_new() {
    let position = |read| Position { read, stream_id: Some("s".to_owned()) };
    let read = BTreeMap::from([(Lane::Normal, position(9))]);
    let history = History::kept(StoredHistory { read, ..StoredHistory::default() });
    assert!(!history.is_new(Lane::Normal, 9, || position(9)));
    assert!(history.is_new(Lane::Normal, 10, || position(10)));
    assert!(history.is_new(Lane::Emergency, 1, || position(1)));
    let other = Position { read: 1, stream_id: Some("another".to_owned()) };
    assert!(history.is_new(Lane::Normal, 1, || other), "the stream was created anew");
}

#[test]
fn slots_that_find_no_room_are_counted() {
    let mut history = History::kept(StoredHistory::default());
    for slot in 0..crate::limits::HISTORY_PENDING_SLOTS_MAX as u64 + 3 {
        history.on_merged(&merged(slot * 10, 7), &Rollups::default());
    }
    assert_eq!(history.dropped(), Some(3));
}

#[test]
fn samples_of_a_group_are_in_the_group_and_in_the_fleet() {
    let mut history = History::kept(StoredHistory::default());
    let rollups = Rollups::default().redefined(&[Definition::of_label("run")]);
    let mut snapshot = merged(5, 7);
    let samples = snapshot.samples.as_mut().unwrap();
    samples.node_labels = Labels::new([("run", "v42")]).unwrap();
    history.on_merged(&snapshot, &rollups);
    let names: Vec<String> = history.pools().iter().map(ToString::to_string).collect();
    // No group has room that fleet and roll-ups did not make for it.
    assert_eq!(names, ["fleet op", "rollup run op [\"other\"]"]);
}

fn kept() -> impl Strategy<Value = KeptFrom> {
    prop::array::uniform4(0_u64..400_000).prop_map(|kept| {
        let [s, m, ten, h] = Resolution::ALL;
        let [a, b, c, d] = kept;
        let whole =
            |at_second, resolution: Resolution| resolution.begin(resolution.number(at(at_second)));
        [whole(a, s), whole(b, m), whole(c, ten), whole(d, h)]
    })
}

proptest! {
    /// Every second of the range is in one span, none outside, and no tier is read before it keeps
    /// everything, but the coarsest.
    #[test]
    fn spans_cover_a_range_once(
        kept in kept(), begin in 0_u64..400_000, length in 1_u64..90_000,
    ) {
        let resolution = resolution_at(&kept, at(begin));
        let range = widened(&(at(begin)..at(begin + length)), resolution);
        prop_assert!(range.start <= at(begin) && range.end >= at(begin + length));
        let spans = spans(&range, resolution, &kept);
        let mut reached = range.start;
        for Span { resolution: tier, slots } in &spans {
            prop_assert_eq!(tier.begin(slots.start), reached);
            prop_assert!(slots.start < slots.end);
            let place = Resolution::ALL.iter().position(|other| other == tier).unwrap();
            prop_assert!(*tier == resolution || tier.begin(slots.start) >= kept[place]);
            reached = tier.begin(slots.end);
        }
        prop_assert_eq!(reached, range.end);
    }

    #[test]
    fn points_divide_a_range_and_a_time_finds_its_point(
        begin in 0_u64..1_000_000, length in 1_u64..100_000, step in 1_u64..10_000,
    ) {
        let query = HistoryQuery {
            pool: pool(),
            range: at(begin)..at(begin + length),
            step: Some(Duration::from_secs(step)),
            quantiles: Vec::new(),
            limits_ns: Vec::new(),
            with_distribution: false,
        };
        let now = at(begin + length);
        let Ok(layout) = Layout::of(&query, now, &KeptFrom::default()) else {
            prop_assert!(length / step.next_multiple_of(10) > 1_000);
            return Ok(());
        };
        let points: Vec<Range<Wall>> = layout.points().collect();
        prop_assert_eq!(points[0].start, layout.range.start);
        prop_assert_eq!(points.last().unwrap().end, layout.range.end);
        for (place, point) in points.iter().enumerate() {
            prop_assert_eq!(layout.point_of(point.start), Some(place));
            prop_assert_eq!(layout.point_of(Wall(point.end.0 - 1)), Some(place));
        }
        prop_assert_eq!(layout.point_of(layout.range.end), None);
    }
}

#[test]
fn a_range_that_cannot_be_answered_is_refused_with_the_fix() {
    let query = |from: u64, to: u64, step: u64| HistoryQuery {
        pool: pool(),
        range: at(from)..at(to),
        step: Some(Duration::from_secs(step)),
        quantiles: Vec::new(),
        limits_ns: Vec::new(),
        with_distribution: false,
    };
    let layout = |query| Layout::of(&query, at(100_000), &KeptFrom::default());
    assert_eq!(layout(query(50, 50, 10)), Err(NoHistory::Inverted));
    assert_eq!(layout(query(100_000, 100_010, 10)), Err(NoHistory::Future));
    let error = layout(query(0, 100_000, 10)).unwrap_err().to_string();
    assert!(error.contains("10000 points") && error.contains("step=50s or more"), "{error}");
    assert!(layout(query(0, 100_000, 50)).is_ok());
}
