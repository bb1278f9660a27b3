//! Plans beside a naive cover of the range, and what waits for the store.

use std::ops::Range;
use std::time::Duration;

use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{Labels, NodeName, Operation, Series};
use plimsoll_schemas::summary::MetricKind;
use plimsoll_schemas::time::nanos;
use plimsoll_schemas::unit::Unit;
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::history::{HistorySlot, MetricValues, OperationTime};
use proptest::prelude::*;

use super::*;
use crate::core::fleet::{
    Batch, Definition, Group, Limits, MergedSamples, Operations, Pool, Retention, Rollups, Times,
};
use crate::limits::HISTORY_PENDING_SHARE;
use plimsoll_schemas::budget::Window;

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
        node: NodeName::new("n").unwrap(),
        taken: at(seconds),
        run_reports: Vec::new(),
        reported: Some(nanos(SECOND)),
        of_shard: false,
        samples: vec![MergedSamples { taken: at(seconds), node_labels, latency }],
        lost: Vec::new(),
    }
}

/// A fleet that has room for the operation of [`merged`] and its [`PHASES`].
pub(crate) fn operations() -> Operations {
    let retention = Retention { up_to: Window::OneMinute, limits: Limits::default() };
    let times = Times { shown: at(1), now: at(1), taken: at(1) };
    let mut operations = Operations::default();
    let batch = Batch::new(&Packed::default(), &retention.limits);
    for name in ["op", "op.input", "op.sync"] {
        operations.add(&Operation::new(name).unwrap(), &retention, times, &batch);
    }
    operations
}

/// Adds one sample as an aggregator without roll-ups does.
pub(crate) fn add(history: &mut History, seconds: u64, value_ns: u64) {
    let (operations, rollups) = (operations(), Rollups::default());
    let known = Known { operations: &operations, rollups: &rollups };
    history.on_merged(&merged(seconds, value_ns), known);
}

/// The classes of time of the phases of [`add_phases`].
pub(crate) const PHASES: [&str; 2] = ["input", "sync"];

/// Adds a sample of each phase of the operation.
pub(crate) fn add_phases(history: &mut History, seconds: u64, values_ns: [u64; 2]) {
    let (operations, rollups) = (operations(), Rollups::default());
    let known = Known { operations: &operations, rollups: &rollups };
    let of_phase = |(class, value_ns): (&str, u64)| {
        let mut samples = Histogram::default();
        samples.record(value_ns);
        let operation = Operation::new(format!("op.{class}")).unwrap();
        let labels = Labels::new([("class", class)]).unwrap();
        (Series { operation, labels }, Packed::from(&samples))
    };
    let mut snapshot = merged(seconds, 1);
    snapshot.samples[0].latency.histograms =
        PHASES.into_iter().zip(values_ns).map(of_phase).collect();
    // The time of the interval is that of its other samples.
    snapshot.reported = None;
    history.on_merged(&snapshot, known);
}

/// The counter and the gauge of [`add_metrics`].
pub(crate) fn metric_keys() -> [MetricKey; 2] {
    let key = |kind| MetricKey { kind, pool: Pool::Fleet(Operation::new("op.n").unwrap()) };
    [MetricKind::Counter, MetricKind::Gauge].map(key)
}

/// Adds a value of a counter and of a gauge of one name.
pub(crate) fn add_metrics(history: &mut History, seconds: u64, value: f64) {
    let (operations, rollups) = (operations(), Rollups::default());
    let known = Known { operations: &operations, rollups: &rollups };
    let values = vec![(Series::plain(Operation::new("op.n").unwrap()), value)];
    let latency =
        Latency { counters: values.clone(), gauges: values, ..Latency::<Packed>::default() };
    let mut snapshot = merged(seconds, 1);
    (snapshot.samples[0].latency, snapshot.reported) = (latency, None);
    history.on_merged(&snapshot, known);
}

#[test]
fn a_sample_with_a_class_is_also_in_the_group_of_its_class() {
    let with_class = |history: &mut History, name: &str, class: &str, rollups: &Rollups| {
        let mut merged = merged(5, 7);
        let of = &mut merged.samples[0].latency.histograms;
        let packed = of.iter().next().unwrap().1.clone();
        let labels = Labels::new([("class", class)]).unwrap();
        let series = Series { operation: Operation::new(name).unwrap(), labels };
        *of = [(series, packed)].into_iter().collect();
        history.on_merged(&merged, Known { operations: &operations(), rollups });
    };
    let of_class = |class: &str| {
        let operation = Operation::new("op").unwrap();
        Pool::Group("class".to_owned(), Group { operation, values: vec![class.into()] })
    };
    let mut history = History::kept(StoredHistory::default());
    let none = Rollups::default();
    with_class(&mut history, "op", "sync", &none);
    with_class(&mut history, "op", "a word of a site", &none);
    // The fleet has no room for it.
    with_class(&mut history, "unknown", "sync", &none);
    let other = Pool::Fleet(Operation::new("other").unwrap());
    let all = [pool(), other, of_class("other"), of_class("sync")].map(HistoryKey::Samples);
    assert_eq!(history.keys(), all);
    let keys = [pool(), of_class("sync")].map(HistoryKey::Samples);
    let unstored = history.unstored(&keys, BatchId::default()).unwrap();
    assert_eq!(count(&unstored.samples), 3, "two of the operation, and one of the class");

    let mut history = History::kept(StoredHistory::default());
    let own = Rollups::default().redefined(&[Definition::of_label("class")]);
    with_class(&mut history, "op", "sync", &own);
    let key = HistoryKey::Samples(of_class("sync"));
    let unstored = history.unstored(&[key], BatchId::default()).unwrap();
    assert_eq!(count(&unstored.samples), 0, "a roll-up of that name takes its place");
}

/// Slots that one node alone can begin: four fifths of all.
fn of_one_node() -> u64 {
    (HISTORY_PENDING_SLOTS_MAX * HISTORY_PENDING_SHARE).div_ceil(HISTORY_PENDING_SHARE + 1) as u64
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
    add(&mut history, 5, 7);
    let first = history.take(at(6), BTreeMap::new()).unwrap();
    assert_eq!((first.id.generation, first.id.attempt, count(&first.samples)), (1, 0, 1));
    add(&mut history, 7, 7);
    let second = history.take(at(8), BTreeMap::new()).unwrap();
    assert_eq!((second.id.generation, second.id.attempt, count(&second.samples)), (1, 1, 2));
    history.on_stored();
    assert!(!history.has_changed());
    assert_eq!(history.generation(), 1);
}

#[test]
fn a_query_adds_what_its_reading_lacks_and_nothing_twice() {
    let mut history = History::kept(StoredHistory::default());
    let unstored = |history: &History, held| {
        history
            .unstored(&[HistoryKey::Samples(pool())], held)
            .map(|unstored| count(&unstored.samples))
    };
    add(&mut history, 5, 7);
    let none = BatchId::default();
    assert_eq!(unstored(&history, none), Some(1));
    let batch = history.take(at(6), BTreeMap::new()).unwrap();
    add(&mut history, 7, 7);
    assert_eq!(unstored(&history, none), Some(2), "read before the batch was written");
    assert_eq!(unstored(&history, batch.id), Some(1), "read after it");
    history.on_stored();
    assert_eq!(unstored(&history, none), None, "read before, and the batch is gone");
    assert_eq!(unstored(&history, batch.id), Some(1));
}

#[test]
fn a_history_created_beside_an_older_state_is_read_before_its_first_batch() {
    let batch = BatchId { generation: 7, attempt: 0 };
    let stored = StoredHistory { batch, is_empty: true, ..StoredHistory::default() };
    let mut history = History::kept(stored);
    let unstored = |history: &History, held| {
        history
            .unstored(&[HistoryKey::Samples(pool())], held)
            .map(|unstored| count(&unstored.samples))
    };
    let empty = BatchId::default();
    assert_eq!(unstored(&history, empty), Some(0));
    add(&mut history, 5, 7);
    let first = history.take(at(6), BTreeMap::new()).unwrap();
    assert_eq!((first.id.generation, unstored(&history, empty)), (8, Some(1)));
    history.on_stored();
    assert_eq!(unstored(&history, empty), None, "read before, and the batch is gone");
    assert_eq!(unstored(&history, first.id), Some(0));
}

#[test]
fn without_a_store_nothing_is_collected() {
    let mut history = History::default();
    add(&mut history, 5, 7);
    history.on_tick(Now::default(), 3);
    history.on_tick(Now::default().after(SECOND), 3);
    assert!(!history.has_changed());
    assert!(history.take(at(6), BTreeMap::new()).is_none());
}

#[test]
fn a_history_that_is_not_kept_for_a_while_has_its_generation_afterwards() {
    let mut history = History::paused(7);
    add(&mut history, 5, 7);
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
    assert!(history.is_new(Lane::Normal, 1, || other), "the stream is another one");
    let mut history = history;
    history.on_reset(Lane::Normal);
    assert!(history.is_new(Lane::Normal, 1, || position(1)), "the stream was created anew");
    let read = BTreeMap::from([(Lane::Normal, Position::default())]);
    let history = History::kept(StoredHistory { read, ..StoredHistory::default() });
    assert!(history.is_new(Lane::Normal, 0, Position::default), "there was no stream");
}

#[test]
fn an_operation_that_the_fleet_has_no_room_for_is_among_the_others() {
    let mut history = History::kept(StoredHistory::default());
    let (operations, rollups) = (Operations::default(), Rollups::default());
    let known = Known { operations: &operations, rollups: &rollups };
    history.on_merged(&merged(5, 7), known);
    let names: Vec<String> = history.keys().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["fleet other"]);
}

#[test]
fn a_batch_that_fails_and_leaves_no_room_is_tried_again_alone() {
    let mut history = History::kept(StoredHistory::default());
    let most = of_one_node();
    (0..most).for_each(|slot| add(&mut history, slot * 10, 7));
    let first = history.take(at(6), BTreeMap::new()).unwrap();
    (0..most).for_each(|slot| add(&mut history, slot * 10, 7));
    assert!(!history.is_crowded(), "a write that fails is not hastened");
    let second = history.take(at(8), BTreeMap::new()).unwrap();
    assert_eq!((second.id.attempt, count(&second.samples)), (1, count(&first.samples)));
    history.on_stored();
    assert!(history.is_crowded());
    let third = history.take(at(9), BTreeMap::new()).unwrap();
    assert_eq!((third.id.generation, count(&third.samples)), (2, most));
}

#[test]
fn slots_that_find_no_room_are_counted() {
    let mut history = History::kept(StoredHistory::default());
    for slot in 0..of_one_node() + 3 {
        add(&mut history, slot * 10, 7);
    }
    assert_eq!(history.dropped(), Some(3));
}

#[test]
fn a_node_that_begins_slots_without_end_leaves_room_for_others() {
    let mut history = History::kept(StoredHistory::default());
    let (operations, rollups) = (operations(), Rollups::default());
    let mut send = |node: &str, slot: u64| {
        let node = NodeName::new(node).unwrap();
        let snapshot = MergedSnapshot { node, ..merged(slot * 10, 7) };
        let dropped = history.dropped();
        history.on_merged(&snapshot, Known { operations: &operations, rollups: &rollups });
        history.dropped() == dropped
    };
    let kept = |send: &mut dyn FnMut(&str, u64) -> bool, node: &str, first: u64| {
        (first..first + 9_000).filter(|slot| send(node, *slot)).count() as u64
    };
    assert_eq!(kept(&mut send, "loud", 0), of_one_node());
    assert_eq!(kept(&mut send, "louder", 10_000), 1_311, "four times what is left then");
    assert!(send("a", 30_000) && send("b", 30_001), "a slot each");
}

#[test]
fn samples_of_a_group_are_in_the_group_and_in_the_fleet() {
    let mut history = History::kept(StoredHistory::default());
    let (operations, rollups) =
        (operations(), Rollups::default().redefined(&[Definition::of_label("run")]));
    let mut snapshot = merged(5, 7);
    let samples = &mut snapshot.samples[0];
    samples.node_labels = Labels::new([("run", "v42")]).unwrap();
    history.on_merged(&snapshot, Known { operations: &operations, rollups: &rollups });
    let names: Vec<String> = history.keys().iter().map(ToString::to_string).collect();
    // The roll-up has no group of it, so it is among the others.
    assert_eq!(names, ["fleet op", "rollup run other [\"other\"]"]);
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
            metrics: Vec::new(),
            range: at(begin)..at(begin + length),
            step: Some(Duration::from_secs(step)),
            quantiles: Vec::new(),
            limits_ns: Vec::new(),
            with_distribution: false,
        nodes: None,
        };
        let now = at(begin + length);
        let Ok(layout) = Layout::of(&query.range, query.step, now, &KeptFrom::default()) else {
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
        metrics: Vec::new(),
        range: at(from)..at(to),
        step: Some(Duration::from_secs(step)),
        quantiles: Vec::new(),
        limits_ns: Vec::new(),
        with_distribution: false,
        nodes: None,
    };
    let layout = |query: HistoryQuery| {
        Layout::of(&query.range, query.step, at(100_000), &KeptFrom::default())
    };
    assert_eq!(layout(query(50, 50, 10)), Err(NoHistory::Inverted));
    assert_eq!(layout(query(100_000, 100_010, 10)), Err(NoHistory::Future));
    let error = layout(query(0, 100_000, 10)).unwrap_err().to_string();
    assert!(error.contains("10000 points") && error.contains("step=28s or more"), "{error}");
    assert!(layout(query(0, 100_000, 30)).is_ok());
    let seconds = |from: u64, to: u64, step: u64| {
        Layout::of_nodes(&(at(from)..at(to)), Some(Duration::from_secs(step)), at(100_000))
    };
    assert_eq!(seconds(50, 50, 1), Err(NoHistory::Inverted));
    assert_eq!(seconds(100_000, 100_010, 1), Err(NoHistory::Future));
    let error = seconds(0, 100_000, 1).unwrap_err().to_string();
    assert!(error.contains("100000 points") && error.contains("step=28s or more"), "{error}");
    assert_eq!(seconds(0, 18_000_000_000, 28).map(|of| of.range.end), Ok(at(100_000)));
}

#[test]
fn metrics_of_nodes_are_added_up_by_point() {
    let name = |name: &str| Operation::new(name).unwrap();
    let layout = Layout::of_nodes(&(at(100)..at(120)), Some(Duration::from_secs(10)), at(200));
    let values = |metric: &str, sum: f64, last: f64| MetricValues {
        metric: name(metric),
        count: 2,
        sum,
        min: 1.0,
        max: 9.0,
        last,
    };
    let slot = |second: u64, tokens: f64, level: f64| HistorySlot {
        begin_ns: at(second).0,
        covered_ns: 1_000_000_000,
        counters: vec![values("step.tokens", tokens, 1.0), values("hits", 8.0, 1.0)],
        gauges: vec![values("memory", 10.0, level)],
        operations: vec![OperationTime {
            operation: name("step"),
            class: None,
            count: 1,
            sum_ns: 500_000_000,
            max_ns: 500_000_000,
        }],
        ..HistorySlot::default()
    };

    // Two nodes have a slot of the same second, which is the latest of its point.
    let slots =
        [slot(100, 3.0, 9.0), slot(105, 5.0, 4.0), slot(105, 8.0, 2.0), slot(110, 1.0, 7.0)];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let mut answer = Accumulator::new(layout.clone().unwrap());
        answer.expect_nodes(2);
        order.iter().for_each(|place| answer.add_of_node(&slots[*place]));
        let key = |kind, of: &str| MetricKey { kind, pool: Pool::Fleet(name(of)) };

        let tokens = key(MetricKind::Counter, "step.tokens");
        let hits = [key(MetricKind::Counter, "hits")];
        let points = answer.metric_points(&tokens, &hits, at(100), Unit::Nanoseconds);
        let [first, second] = &points[..] else { panic!("{points:?}") };
        assert_eq!((first.count, first.sum, first.per_second), (6, 16.0, Some(1.6)));
        assert_eq!((first.operation_seconds, second.operation_seconds), (Some(1.5), Some(0.5)));
        assert_eq!((first.ratio, first.last, second.sum), (Some(16.0 / 24.0), None, 1.0));
        assert_eq!((first.completeness, second.completeness), (Some(0.15), Some(0.05)));

        let memory = key(MetricKind::Gauge, "memory");
        let points = answer.metric_points(&memory, &[], at(100), Unit::Nanoseconds);
        let of = (points[0].mean, points[0].min, points[0].max, points[0].last);
        assert_eq!(of, (Some(5.0), Some(1.0), Some(9.0), Some(3.0)));
        assert_eq!((points[1].last, points[1].per_operation_second), (Some(7.0), None));
    }
}
