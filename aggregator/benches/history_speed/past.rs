//! The past of one operation in a history file, and how long queries of it take.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use plimsoll_aggregator::core::fleet::Pool;
use plimsoll_aggregator::core::history::{
    Accumulator, BatchId, Coverage, HistoryBatch, HistoryQuery, Layout, MetricKey, MetricTotals,
    Resolution, SlotSamples, default_bounds,
};
use plimsoll_aggregator::io::history::HistoryStore;
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{MeshName, Operation};
use plimsoll_schemas::summary::MetricKind;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::unit::Unit;
use serde_json::{Value, json};

use crate::samples::Shapes;

pub(crate) const OPERATION: &str = "epoch_hook";
pub(crate) const SLOT_SECONDS: u64 = 10;
pub(crate) const HOUR: u64 = 3_600;
pub(crate) const DAY: u64 = 24 * HOUR;
/// The quantiles of every query.
pub(crate) const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// Nodes with a counter: how many there are changes nothing of a slot.
const COUNTING_NODES: u64 = 1;
/// Turns of a query; its time is their median.
const TURNS: usize = 5;

pub(crate) fn at(seconds: u64) -> Wall {
    Wall(seconds * 1_000_000_000)
}

pub(crate) fn pool() -> Pool {
    Pool::Fleet(Operation::new(OPERATION).expect("a constant name of plain letters"))
}

/// The counter of the same fleet.
fn counter() -> MetricKey {
    let name = Operation::new("epoch_hook.tokens").expect("a constant name of plain letters");
    MetricKey { kind: MetricKind::Counter, pool: Pool::Fleet(name) }
}

fn mesh() -> MeshName {
    MeshName::new("default").expect("a constant name of plain letters")
}

/// Fills a history file by checkpoints, as an aggregator does.
pub(crate) struct Writer {
    store: HistoryStore,
    samples: SlotSamples,
    generation: u64,
    /// Bytes of slots that all checkpoints wrote.
    pub(crate) written: u64,
}

impl Writer {
    pub(crate) fn new(path: &Path, from: u64) -> Result<Self> {
        let opened = HistoryStore::open(path, &mesh(), default_bounds(), Some(0), at(from))?;
        Ok(Self { store: opened.store, samples: SlotSamples::default(), generation: 0, written: 0 })
    }

    /// Adds what this many nodes sent of a pool in the slot with this number.
    pub(crate) fn add(&mut self, pool: &Pool, number: u64, samples: &[&Packed]) {
        let slots = self.samples.pools.entry(pool.clone()).or_default();
        let slot: &mut Histogram = slots.entry(number).or_default();
        samples.iter().for_each(|part| slot.merge_packed(part));
    }

    /// Adds what this many nodes counted in the slot, each a whole number a second.
    pub(crate) fn count(&mut self, metric: &MetricKey, number: u64, nodes: u64) {
        let mut totals = MetricTotals::default();
        (0..nodes * SLOT_SECONDS).for_each(|of| totals.add(&MetricTotals::of(of as f64)));
        self.samples.metrics.entry(metric.clone()).or_default().insert(number, totals);
    }

    /// All of this many nodes reported in the slot with this number.
    pub(crate) fn cover(&mut self, number: u64, nodes: u64) {
        let observed_ns = SLOT_SECONDS * 1_000_000_000;
        let (received_ns, expected_ns) = (nodes * observed_ns, nodes * observed_ns);
        let coverage = Coverage { received_ns, expected_ns, observed_ns };
        self.samples.coverage.entry(number).or_default().add(coverage);
    }

    /// A checkpoint at this time.
    pub(crate) fn write(&mut self, seconds: u64) -> Result<()> {
        self.generation += 1;
        let id = BatchId { generation: self.generation, attempt: 0 };
        let samples = std::mem::take(&mut self.samples);
        let batch = HistoryBatch { id, at: at(seconds), samples, ..HistoryBatch::default() };
        let written = self.store.write(&batch)?;
        ensure!(written.dropped == 0, "{} samples found no room", written.dropped);
        ensure!(written.dropped_values == 0, "values found no room");
        self.written += written.bytes;
        Ok(())
    }

    /// Bytes of each tier's slots, from the finest on.
    pub(crate) fn bytes(&self) -> Result<[u64; Resolution::ALL.len()]> {
        Ok(self.store.reader().read()?.bytes())
    }
}

/// Writes the past of one operation, with a checkpoint in ten minutes.
pub(crate) fn fill(path: &Path, shapes: &Shapes, seconds: Range<u64>) -> Result<Value> {
    let watch = Stopwatch::start();
    let mut writer = Writer::new(path, seconds.start)?;
    for number in seconds.start / SLOT_SECONDS..seconds.end / SLOT_SECONDS {
        writer.add(&pool(), number, &[&shapes.of_slot(number).packed]);
        writer.count(&counter(), number, COUNTING_NODES);
        writer.cover(number, crate::NODES);
        let end = (number + 1) * SLOT_SECONDS;
        if end.is_multiple_of(600) || end == seconds.end {
            writer.write(end)?;
        }
    }
    let bytes = writer.bytes()?;
    let tiers = Resolution::ALL.into_iter().zip(bytes);
    let tiers: Value =
        tiers.map(|(tier, bytes)| json!({ "slot": tier.as_str(), "bytes": bytes })).collect();
    drop(writer);
    let file = disk_bytes(path)?;
    Ok(json!({ "seconds": watch.elapsed().as_secs_f64(), "tiers": tiers, "disk_bytes": file }))
}

/// What a file takes on its disk: it is longer where nothing was written yet.
pub(crate) fn disk_bytes(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path)?.blocks() * 512)
}

/// A question of the past: its name, its range as seconds before the end, and its step.
const QUESTIONS: [(&str, u64, Option<u64>); 5] = [
    ("30 days, one point", 30 * DAY, None),
    ("30 days, hour by hour", 30 * DAY, Some(HOUR)),
    ("7 days, one point", 7 * DAY, None),
    ("one day, minute by minute", DAY, Some(60)),
    ("one hour, 10 s by 10 s", HOUR, Some(10)),
];

/// Milliseconds of each query of the operation and of the counter.
pub(crate) fn queries(path: &Path, days: u64, end: u64) -> Result<Value> {
    let of_operation = |range, step| HistoryQuery {
        pool: pool(),
        metrics: Vec::new(),
        range,
        step,
        quantiles: QUANTILES.to_vec(),
        limits_ns: vec![18_000_000],
        with_distribution: false,
        nodes: None,
    };
    asked(path, days, end, crate::SAMPLES, of_operation)
}

/// The same of the counter, by wall time: its samples would be those of the operation.
pub(crate) fn metric_queries(path: &Path, days: u64, end: u64) -> Result<Value> {
    let of_counter = |range, step| HistoryQuery {
        pool: Pool::Fleet(Operation::new("none").expect("a constant name of plain letters")),
        metrics: vec![counter()],
        range,
        step,
        quantiles: Vec::new(),
        limits_ns: Vec::new(),
        with_distribution: false,
        nodes: None,
    };
    asked(path, days, end, COUNTING_NODES * SLOT_SECONDS, of_counter)
}

/// Milliseconds of each query: with the file out of the system's cache and opened anew, opened
/// anew, and open as in an aggregator that runs.
fn asked(
    path: &Path,
    days: u64,
    end: u64,
    of_slot: u64,
    query: impl Fn(Range<Wall>, Option<Duration>) -> HistoryQuery,
) -> Result<Value> {
    let mut rows = Vec::new();
    for (what, span, step) in QUESTIONS.into_iter().filter(|(_, span, _)| *span <= days * DAY) {
        let query = query(at(end - span)..at(end), step.map(Duration::from_secs));

        let (mut cold, mut read) = (Vec::new(), 0);
        let (mut reopened, mut warm) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            uncache(path)?;
            let before = read_bytes()?;
            cold.push(timed(|| opened_and_asked(path, &query, end))?.0);
            read = read_bytes()? - before;
            reopened.push(timed(|| opened_and_asked(path, &query, end))?.0);
        }

        let store = open(path, end)?;
        let mut count = ask(&store, &query, end)?;
        for _ in 0..TURNS {
            let (took, asked) = timed(|| ask(&store, &query, end))?;
            warm.push(took);
            count = asked;
        }

        ensure!(count == span / SLOT_SECONDS * of_slot, "{what}: {count} samples");
        rows.push(json!({
            "what": what, "count": count, "read_bytes": read,
            "cold_ms": median(cold), "reopened_ms": median(reopened), "warm_ms": median(warm),
        }));
    }
    Ok(rows.into())
}

fn open(path: &Path, end: u64) -> Result<HistoryStore> {
    Ok(HistoryStore::open(path, &mesh(), default_bounds(), None, at(end))?.store)
}

/// The file is returned open: to close it is no part of a query.
fn opened_and_asked(path: &Path, query: &HistoryQuery, end: u64) -> Result<HistoryStore> {
    let store = open(path, end)?;
    ask(&store, query, end)?;
    Ok(store)
}

/// The number of samples or values of a query, whose figures are computed too.
fn ask(store: &HistoryStore, query: &HistoryQuery, end: u64) -> Result<u64> {
    let reading = store.reader().read()?;
    let layout = Layout::of(&query.range, query.step, at(end), &reading.kept_from())?;
    let mut answer = Accumulator::new(layout);
    let known = reading.add_to(&mut answer, &query.keys())?;
    ensure!(known.contains(&true), "neither operation nor counter is in the file");
    Ok(match query.metrics.first() {
        None => answer.points(query).iter().map(|point| point.count).sum(),
        Some(of) => answer
            .metric_points(of, &[], Wall(0), Unit::Nanoseconds)
            .iter()
            .map(|point| point.count)
            .sum(),
    })
}

fn timed<T>(turn: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let watch = Stopwatch::start();
    let done = turn()?;
    Ok((watch.elapsed().as_secs_f64() * 1e3, done))
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Removes a file from the system's cache.
fn uncache(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    Ok(())
}

/// Bytes that this process has had read from disks.
fn read_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let mut values = text.lines().filter_map(|line| line.strip_prefix("read_bytes: "));
    Ok(values.next().context("/proc/self/io has no read_bytes")?.parse()?)
}
