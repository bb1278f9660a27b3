//! The file beside a naive list of all samples, through restarts, crashes between the two files,
//! expiry and damage.

use std::ops::Range;
use std::time::Duration;

use plimsoll_schemas::histogram::{ExactFigures, Histogram, layout};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::summary::{ClassShare, HistoryPoint, WallTime};
use plimsoll_schemas::time::nanos;
use plimsoll_schemas::unit::Unit;
use proptest::prelude::*;
use tempfile::TempDir;

use std::collections::BTreeMap;

use super::*;
use crate::core::advice::{OperationSamples, Shares};
use crate::core::fleet::Pool;
use crate::core::history::tests::{PHASES, add, add_metrics, add_phases, metric_keys};
use crate::core::history::{
    Accumulator, Bound, ExactSum, History, HistoryQuery, KeptFrom, Layout, default_bounds,
};
use crate::core::ingest::Position;
use crate::limits::HISTORY_POINTS_MAX;
use plimsoll_schemas::subject::Lane;

const DAY: u64 = 24 * 3_600;

fn at(seconds: u64) -> Wall {
    Wall(seconds * 1_000_000_000)
}

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

fn pool() -> Pool {
    Pool::Fleet(Operation::new("op").unwrap())
}

fn query(range: Range<u64>, step: Option<u64>) -> HistoryQuery {
    HistoryQuery {
        pool: pool(),
        // The counter twice, as where it is part of what it is divided by.
        metrics: metric_keys().into_iter().chain([metric_keys()[0].clone()]).collect(),
        range: at(range.start)..at(range.end),
        step: step.map(Duration::from_secs),
        quantiles: vec![0.5, 0.99],
        limits_ns: vec![1_000_000],
        with_distribution: false,
        nodes: None,
    }
}

/// An aggregator's history and its file, with the generation that its state file holds.
struct Kept {
    _dir: TempDir,
    path: PathBuf,
    bounds: Bounds,
    history: History,
    store: Option<HistoryStore>,
    generation: u64,
}

impl Kept {
    fn new(bounds: Bounds) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.redb");
        let (history, store) = (History::default(), None);
        let mut kept = Self { _dir: dir, path, bounds, history, store, generation: 0 };
        kept.restart(Some(0));
        kept
    }

    fn restart(&mut self, generation: Option<u64>) -> OpenedFlags {
        self.store = None;
        let opened =
            HistoryStore::open(&self.path, &mesh(), self.bounds, generation, at(1)).unwrap();
        self.history = History::kept(opened.stored);
        self.store = Some(opened.store);
        (opened.quarantined.is_some(), opened.has_diverged)
    }

    fn add(&mut self, seconds: u64, value_ns: u64) {
        add(&mut self.history, seconds, value_ns);
        add_metrics(&mut self.history, seconds, metric_value(value_ns));
    }

    fn add_with_phases(&mut self, seconds: u64, value_ns: u64) {
        self.add(seconds, value_ns);
        add_phases(&mut self.history, seconds, phases(value_ns));
    }

    /// Writes a batch; whether the state is written after it decides what a restart finds.
    fn write(&mut self, now: u64, state_too: bool) {
        let Some(batch) = self.history.take(at(now), Default::default()) else { return };
        self.store.as_mut().unwrap().write(&batch).unwrap();
        if state_too {
            self.generation = batch.id.generation;
            self.history.on_stored();
        }
    }

    fn answer(&self, query: &HistoryQuery, now: u64) -> (Layout, Vec<HistoryPoint>) {
        let (layout, answer) = self.accumulated(query, now);
        (layout, answer.points(query))
    }

    fn accumulated(&self, query: &HistoryQuery, now: u64) -> (Layout, Accumulator) {
        let reading = self.store.as_ref().unwrap().reader().read().unwrap();
        let layout = Layout::of(&query.range, query.step, at(now), &reading.kept_from()).unwrap();
        let mut answer = Accumulator::new(layout.clone());
        reading.add_to(&mut answer, &query.keys()).unwrap();
        let unstored = self.history.unstored(&query.keys(), reading.batch()).unwrap();
        answer.add_unstored(&unstored, &query.pool);
        (layout, answer)
    }
}

/// What a job sends beside a sample: no sum of two of these is exact in floating point.
fn metric_value(value_ns: u64) -> f64 {
    value_ns as f64 * 0.1
}

/// How long the phases of a sample of this value take; together as long as it, and of one
/// nanosecond twice as long.
fn phases(value_ns: u64) -> [u64; 2] {
    let input = (value_ns / 3).max(1);
    [input, (value_ns - input).max(1)]
}

type OpenedFlags = (bool, bool);

/// What the samples themselves say of a point.
fn naive(samples: &[(u64, u64)], point: &Range<Wall>) -> (u64, Option<u64>, u64) {
    let of = samples.iter().filter(|(seconds, _)| point.contains(&at(*seconds)));
    let mut values: Vec<u64> = of.map(|(_, value)| *value).collect();
    values.sort_unstable();
    let over = values.iter().filter(|value| **value > 1_000_000).count() as u64;
    let median = values.get((values.len().max(1) - 1) / 2).copied();
    (values.len() as u64, median, over)
}

fn check(kept: &Kept, samples: &[(u64, u64)], query: &HistoryQuery, now: u64) {
    let (layout, points) = kept.answer(query, now);
    for (point, range) in points.iter().zip(layout.points()) {
        let (count, median, over) = naive(samples, &range);
        assert_eq!(point.count, count, "{range:?} at {:?}", layout.resolution);
        let found = point.quantiles.first().map(|found| (found.lower, found.upper));
        if let Some(median) = median {
            let median = median as f64 / 1e9;
            let (lower, upper) = found.unwrap();
            assert!(lower <= median && median <= upper, "{lower} {median} {upper}");
        }
        let counted = &point.over[0];
        assert!(counted.over <= over && over <= counted.over + counted.uncertain);
    }
    check_metrics(kept, samples, query, now);
    let total: u64 = points.iter().map(|point| point.count).sum();
    let within = samples.iter().filter(|(seconds, _)| layout.range.contains(&at(*seconds)));
    assert_eq!(total, within.count() as u64);
}

fn check_metrics(kept: &Kept, samples: &[(u64, u64)], query: &HistoryQuery, now: u64) {
    let (_, answer) = kept.accumulated(query, now);
    let [counter, gauge] = metric_keys();
    let counters =
        answer.metric_points(&counter, std::slice::from_ref(&counter), Wall(0), Unit::Nanoseconds);
    let gauges = answer.metric_points(&gauge, &[], Wall(0), Unit::Nanoseconds);

    for ((of_counter, of_gauge), range) in counters.iter().zip(&gauges).zip(answer.layout.points())
    {
        let of = samples.iter().filter(|(seconds, _)| range.contains(&at(*seconds)));
        let mut values: Vec<f64> = of.map(|(_, value)| metric_value(*value)).collect();
        // In another order than they came.
        values.sort_unstable_by(f64::total_cmp);
        let mut exact = ExactSum::default();
        values.iter().for_each(|value| exact.add(&ExactSum::of(*value)));
        let sum = exact.value();
        assert_eq!((of_counter.count, of_counter.sum), (values.len() as u64, sum));
        assert_eq!((of_gauge.min, of_gauge.max), (values.first().copied(), values.last().copied()));

        let passed = range.end.min(at(now)).since(range.start).as_secs_f64();
        assert_eq!(of_counter.per_second, (passed > 0.0).then(|| sum / passed));
        let ratio = (!values.is_empty()).then_some(1.0);
        assert_eq!((of_counter.ratio, of_gauge.ratio), (ratio, None));
        let ns: u128 = of_range(samples, &range).map(u128::from).sum();
        let seconds = (ns > 0).then(|| ns as f64 / 1e9);
        assert_eq!(of_counter.operation_seconds, seconds);
        assert_eq!(of_counter.per_operation_second, seconds.map(|seconds| sum / seconds));
    }
}

/// Of the whole range, as a page of bottlenecks divides it.
fn check_shares(kept: &Kept, samples: &[(u64, u64)], asked: &HistoryQuery, now: u64) {
    let of = |name: &str, class| {
        let operation = Operation::new(name).unwrap();
        let pool = Pool::Fleet(operation.clone());
        let query =
            HistoryQuery { pool, metrics: Vec::new(), step: None, ..HistoryQuery::clone(asked) };
        let (layout, answer) = kept.accumulated(&query, now);
        let exact = answer.samples().map(Histogram::exact).unwrap_or_default();
        let ExactFigures { count, sum_ns, max_ns, .. } = exact;
        let samples = OperationSamples { operation, class, count, sum_ns, p99_ns: None, max_ns };
        (samples, layout.range, answer.received().unwrap_or_default().ns)
    };
    let (cycle, range, received) = of("op", None);
    let parts = PHASES.map(|class| of(&format!("op.{class}"), Some(class)).0);
    let all: Vec<OperationSamples> = parts.into_iter().chain([cycle]).collect();
    let node_seconds = Some(received as f64 / 1e9).filter(|seconds| *seconds > 0.0);
    let shares = Shares::of(&all, WallTime { seconds: 1.0, node_seconds }, None);

    // Each sample is of an interval of one second.
    let values: Vec<u64> = of_range(samples, &range).collect();
    assert_eq!(received, values.len() as u64 * 1_000_000_000);
    let Some(cycle) = shares.cycles.first() else { return assert!(values.is_empty()) };
    let whole: u128 = values.iter().copied().map(u128::from).sum();
    for (place, class) in PHASES.into_iter().enumerate() {
        let ns: u128 = values.iter().map(|value| u128::from(phases(*value)[place])).sum();
        let find = |of: &[ClassShare]| of.iter().find(|of| of.class == class).unwrap().share;
        assert_eq!(find(&cycle.classes), Some(ns as f64 / whole as f64));
        let of_nodes = ns as f64 / 1e9 / values.len() as f64;
        assert_eq!(find(&shares.classes), Some(of_nodes));
    }
    assert_eq!((cycle.count, cycle.seconds), (values.len() as u64, whole as f64 / 1e9));
}

fn of_range(samples: &[(u64, u64)], range: &Range<Wall>) -> impl Iterator<Item = u64> {
    let of = samples.iter().filter(|(seconds, _)| range.contains(&at(*seconds)));
    of.map(|(_, value)| *value)
}

#[derive(Clone, Debug)]
enum Step {
    /// A sample this many seconds before now, and its value.
    Sample(u64, u64),
    /// A checkpoint of both files.
    Write,
    /// An orderly start from both files.
    Restart,
    /// The history was written and the state was not: the streams bring the samples again.
    Crash,
    /// The write failed after all, and the process goes on.
    Fail,
    Ask {
        back: u64,
        length: u64,
        step: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ages = prop_oneof![6 => 0_u64..60, 2 => 0_u64..7_200, 1 => 0_u64..4 * DAY];
    let step = prop_oneof![
        8 => (ages, 1_u64..10_000_000_000).prop_map(|(age, value)| Step::Sample(age, value)),
        3 => Just(Step::Write),
        1 => Just(Step::Restart),
        1 => Just(Step::Crash),
        1 => Just(Step::Fail),
        2 => (1_u64..5 * DAY, 1_u64..3 * DAY, 1_u64..DAY).prop_map(|(back, length, step)| {
            // The slots at both ends make a few points more than the range itself.
            let step = step.max(length.div_ceil(HISTORY_POINTS_MAX - 4));
            Step::Ask { back, length, step }
        }),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Over days in which tiers drop their slots, every answer is that of the samples themselves.
    #[test]
    fn answers_equal_a_naive_oracle(steps in steps()) {
        // Short ages, so that each tier comes into use.
        let ages = [DAY / 24, DAY / 4, 2 * DAY, 20 * DAY];
        let bounds = ages.map(|age| Bound { age: Duration::from_secs(age), bytes_max: 1 << 30 });
        let mut kept = Kept::new(bounds);
        let mut now = 10 * DAY;
        let (mut all, mut unsaved) = (Vec::new(), Vec::new());
        for step in steps {
            now += 97;
            match step {
                Step::Sample(age, value) => {
                    kept.add_with_phases(now - age, value);
                    unsaved.push((now - age, value));
                }
                Step::Write => {
                    kept.write(now, true);
                    all.append(&mut unsaved);
                }
                Step::Restart => {
                    kept.write(now, true);
                    all.append(&mut unsaved);
                    prop_assert_eq!(kept.restart(Some(kept.generation)), (false, false));
                }
                Step::Crash => {
                    kept.write(now, false);
                    prop_assert_eq!(kept.restart(Some(kept.generation)), (false, false));
                    for (seconds, value) in &unsaved {
                        kept.add_with_phases(*seconds, *value);
                    }
                }
                Step::Fail => kept.write(now, false),
                Step::Ask { back, length, step } => {
                    let from = now - back;
                    let samples: Vec<_> = all.iter().chain(&unsaved).copied().collect();
                    let asked = query(from..(from + length).min(now), Some(step));
                    check(&kept, &samples, &asked, now);
                    let whole = query(from..now, None);
                    check(&kept, &samples, &whole, now);
                    check_shares(&kept, &samples, &whole, now);
                }
            }
        }
    }
}

#[test]
fn a_tier_with_too_many_bytes_drops_its_oldest_slots_and_coarser_ones_answer() {
    let mut bounds = default_bounds();
    bounds[0].bytes_max = 4_096;
    let mut kept = Kept::new(bounds);
    let begin = 100 * DAY;
    for slot in 0..300 {
        kept.add(begin + slot * 10, layout::MAX_NS / 2 + slot);
        kept.write(begin + slot * 10, true);
    }
    let now = begin + 3_000;
    let reading = kept.store.as_ref().unwrap().reader().read().unwrap();
    assert!(reading.bytes()[0] <= 4_096 + 2_048, "{:?}", reading.bytes());
    let [ten_seconds, minute, ..]: KeptFrom = reading.kept_from();
    assert!(ten_seconds > at(begin) && minute == Wall(0), "{:?}", reading.kept_from());
    let (layout, points) = kept.answer(&query(begin..now, None), now);
    assert_eq!((layout.resolution, points[0].count), (Some(Resolution::Minute), 300));
    let cut_short = |seconds| kept.store.as_ref().unwrap().cut_short(at(seconds));
    assert_eq!(cut_short(now), [(Resolution::TenSeconds, ten_seconds)]);
    assert_eq!(cut_short(now + 2 * DAY), [], "what is gone is older than the tier keeps");
}

#[test]
fn a_heatmap_counts_every_sample_in_the_band_and_column_that_it_lies_in() {
    let mut kept = Kept::new(default_bounds());
    let samples: Vec<(u64, u64)> =
        (0..600).map(|n| (1_000 + n, 1_000 * (1 + (n * n * 7_919) % 5_000_000))).collect();
    samples.iter().for_each(|(seconds, value)| kept.add(*seconds, *value));
    kept.write(1_600, true);
    let asked = query(1_000..1_600, Some(60));
    let reading = kept.store.as_ref().unwrap().reader().read().unwrap();
    let layout = Layout::of(&asked.range, asked.step, at(1_600), &reading.kept_from()).unwrap();
    let mut answer = Accumulator::new(layout.clone());
    assert_eq!(
        answer.bands(20, Unit::Nanoseconds),
        (Vec::new(), vec![Vec::new(); layout.points().count()])
    );
    reading.add_to(&mut answer, &asked.keys()).unwrap();
    let (bands, counts) = answer.bands(20, Unit::Nanoseconds);
    assert!((10..=20).contains(&bands.len()), "{}", bands.len());
    for (column, range) in counts.iter().zip(layout.points()) {
        for (count, band) in column.iter().zip(&bands) {
            let lies_within = |(seconds, value): &&(u64, u64)| {
                let value = *value as f64 / 1e9;
                range.contains(&at(*seconds)) && band.lower <= value && value <= band.upper
            };
            assert_eq!(*count, samples.iter().filter(lies_within).count() as u64, "{band:?}");
        }
    }
}

#[test]
fn a_state_that_is_gone_leaves_the_history_and_its_positions() {
    let mut kept = Kept::new(default_bounds());
    kept.add(50, 7);
    kept.write(60, true);
    kept.store = None;
    let opened = HistoryStore::open(&kept.path, &mesh(), default_bounds(), None, at(70)).unwrap();
    assert_eq!(opened.stored.batch.generation, 1);
    assert!(!opened.has_diverged);
    drop(opened);
    assert_eq!(kept.restart(Some(7)), (false, true), "the state is of another history");
}

#[test]
fn an_empty_history_beside_an_older_state_is_answered_from() {
    let mut kept = Kept::new(default_bounds());
    kept.add(50, 7);
    kept.write(60, true);
    kept.store = None;
    std::fs::remove_file(&kept.path).unwrap();
    assert_eq!(kept.restart(Some(7)), (false, false));
    let query = query(60..80, Some(10));
    check(&kept, &[], &query, 90);
    kept.add(70, 9);
    check(&kept, &[(70, 9)], &query, 90);
    kept.write(90, true);
    check(&kept, &[(70, 9)], &query, 90);
}

#[test]
fn a_state_that_is_lost_and_written_again_before_all_is_read_doubles_nothing() {
    let position = |read| {
        let position = Position { read, stream_id: Some("s".to_owned()) };
        BTreeMap::from([(Lane::Normal, position)])
    };
    let mut kept = Kept::new(default_bounds());
    kept.add(50, 7);
    let batch = kept.history.take(at(60), position(1_000)).unwrap();
    kept.store.as_mut().unwrap().write(&batch).unwrap();
    kept.history.on_stored();
    // The state is lost, the streams are read again, and a checkpoint comes before their end.
    kept.restart(None);
    kept.add(300, 7);
    let batch = kept.history.take(at(310), position(300)).unwrap();
    kept.store.as_mut().unwrap().write(&batch).unwrap();
    kept.restart(Some(batch.id.generation));
    let again = || position(301)[&Lane::Normal].clone();
    assert!(!kept.history.is_new(Lane::Normal, 301, again), "it is in the history");
    assert!(kept.history.is_new(Lane::Normal, 1_001, || position(1_001)[&Lane::Normal].clone()));
    // Without its state the batch is undone, and what had been read before it stands.
    kept.restart(Some(batch.id.generation - 1));
    assert!(!kept.history.is_new(Lane::Normal, 1_000, again));
}

#[test]
fn a_clock_that_is_ahead_for_a_while_drops_nothing_and_stops_no_expiry() {
    let mut kept = Kept::new(default_bounds());
    let begin = 1_000 * DAY;
    kept.add(begin, 7);
    kept.write(begin, true);
    kept.add(begin + 1, 7);
    kept.write(begin + 400 * DAY, true);
    let reading = kept.store.as_ref().unwrap().reader().read().unwrap();
    assert_eq!(reading.kept_from(), KeptFrom::default(), "nothing was dropped");
    for minute in 1..4 {
        kept.add(begin + minute * 120, 7);
        kept.write(begin + minute * 120, true);
    }
    let (layout, points) = kept.answer(&query(begin..begin + 600, None), begin + 600);
    assert_eq!((layout.resolution, points[0].count), (Some(Resolution::TenSeconds), 5));
    kept.add(begin + 3 * DAY, 7);
    kept.write(begin + 3 * DAY, true);
    kept.add(begin + 3 * DAY, 7);
    kept.write(begin + 3 * DAY + 700, true);
    let reading = kept.store.as_ref().unwrap().reader().read().unwrap();
    assert!(reading.kept_from()[0] > at(begin), "slots of 10 s are older than two days");
}

#[test]
fn a_series_without_slots_gives_its_place_back_and_never_its_number() {
    let mut kept =
        Kept::new(default_bounds().map(|bound| Bound { age: Duration::from_secs(3_600), ..bound }));
    kept.add(10_000, 7);
    kept.write(10_000, true);
    let other = Pool::Fleet(Operation::new("other").unwrap());
    for hour in 1..8 {
        let now = 10_000 + hour * 3_700;
        let slots = BTreeMap::from([(now / 10, Histogram::default())]);
        let pools = BTreeMap::from([(other.clone(), slots)]);
        let samples = SlotSamples { pools, ..SlotSamples::default() };
        let id = BatchId { generation: 1 + hour, attempt: 0 };
        let batch = HistoryBatch { id, at: at(now), samples, ..HistoryBatch::default() };
        kept.store.as_mut().unwrap().write(&batch).unwrap();
    }
    let store = kept.store.as_ref().unwrap();
    assert_eq!(store.reader().read().unwrap().keys().unwrap(), [HistoryKey::Samples(other)]);
    assert_eq!(store.meta.next_series, 4, "that of the operation, its two metrics and the other");
}

#[test]
fn a_damaged_file_is_quarantined_and_another_meshs_is_refused() {
    let mut kept = Kept::new(default_bounds());
    kept.add(50, 7);
    kept.write(60, true);
    kept.store = None;
    let other = MeshName::new("other").unwrap();
    let error = HistoryStore::open(&kept.path, &other, default_bounds(), Some(1), at(70));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("history.path: ") && error.contains("mesh m"), "{error}");
    std::fs::write(&kept.path, vec![7; 100_000]).unwrap();
    assert_eq!(kept.restart(Some(0)), (true, false));
    assert!(kept.path.exists());
}

/// Something bad that happens to a file, and what the log must state of it.
type Damage<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn a_file_of_another_version_or_a_truncated_one_is_set_aside_and_a_new_one_is_used() {
    let of_version = |path: &Path, version: u16| {
        #[derive(serde::Serialize)]
        struct Head {
            version: u16,
            fields_of_that_version: u8,
        }
        let transaction = builder().create(path).unwrap().begin_write().unwrap();
        let head = pack(&Head { version, fields_of_that_version: 1 });
        transaction.open_table(META).unwrap().insert(meta::KEY, head.as_slice()).unwrap();
        transaction.commit().unwrap();
    };
    let cut = |path: &Path, part: u64| {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() * part / 8).unwrap();
    };
    let damages: [Damage<'_>; 5] = [
        ("its version is 2; this program reads 1", &|path| of_version(path, 2)),
        ("its version is 0; this program reads 1", &|path| of_version(path, 0)),
        ("", &|path| cut(path, 1)),
        ("", &|path| cut(path, 4)),
        ("", &|path| cut(path, 7)),
    ];
    for (words, damage) in damages {
        let mut kept = Kept::new(default_bounds());
        kept.add(50, 7);
        kept.write(60, true);
        kept.store = None;
        damage(&kept.path);
        let bounds = default_bounds();
        let opened = HistoryStore::open(&kept.path, &mesh(), bounds, Some(1), at(61)).unwrap();
        let (why, moved_to) = opened.quarantined.unwrap();
        assert!(why.contains(words), "{why}");
        assert!(moved_to.is_file(), "{why}");
        kept.history = History::kept(opened.stored);
        kept.store = Some(opened.store);
        kept.add(70, 7);
        kept.write(80, true);
        let (_, points) = kept.answer(&query(0..100, None), 100);
        assert_eq!(points[0].count, 1, "the new file has what came since");
    }
}

#[test]
fn a_file_of_another_process_is_refused_with_its_key() {
    let kept = Kept::new(default_bounds());
    let error = HistoryStore::open(&kept.path, &mesh(), default_bounds(), Some(0), at(1));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("history.path: "), "{error}");
    assert!(error.ends_with("history.redb is in use by another process"), "{error}");
}

#[test]
fn a_damaged_slot_fails_the_query_and_no_write() {
    let mut kept = Kept::new(default_bounds());
    kept.add(50, 7);
    kept.write(60, true);
    {
        let store = kept.store.as_mut().unwrap();
        let transaction = store.begin().unwrap();
        let key = (0, 1, 5);
        transaction.open_table(SLOTS).unwrap().insert(key, &[1_u8, 2, 3, 4, 5][..]).unwrap();
        transaction.commit().unwrap();
    }
    let reading = kept.store.as_ref().unwrap().reader().read().unwrap();
    let asked = query(40..60, None);
    let layout = Layout::of(&asked.range, asked.step, at(60), &KeptFrom::default()).unwrap();
    let error = reading.add_to(&mut Accumulator::new(layout), &asked.keys()).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
    kept.add(51, 7);
    kept.write(62, true);
    let (_, points) = kept.answer(&asked, 65);
    assert_eq!(points[0].count, 1, "what was damaged is gone, what came since is there");
}

#[test]
fn coverage_is_what_was_received_of_what_was_expected() {
    let mut kept = Kept::new(default_bounds());
    let mut now = plimsoll_schemas::time::Now { wall: at(100), ..Default::default() };
    kept.history.on_tick(now, 2);
    for second in 101..=110 {
        now = now.after(Duration::from_secs(1));
        kept.history.on_tick(now, 2);
        kept.add(second, 7);
    }
    kept.write(110, true);
    let (_, points) = kept.answer(&query(100..110, None), 110);
    let found = points[0].completeness.unwrap();
    // Of two nodes one reported: 9 of 18 node-seconds lie before 110 s.
    assert!((found - 0.5).abs() < 1e-9, "{found} {}", nanos(Duration::from_secs(1)));
    let (_, empty) = kept.answer(&query(10..20, None), 110);
    assert_eq!((empty[0].count, empty[0].completeness), (0, None));
}
