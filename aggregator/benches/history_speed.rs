//! Cost of the past: one operation of a large fleet over 30 days is written by the real store and
//! queried, the file opened anew for each query. It prints milliseconds of each query, bytes of
//! each tier, and the growth of a day.
//!
//! `cargo bench -p plimsoll-aggregator --bench history_speed`

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use plimsoll_aggregator::core::fleet::{
    MergedSamples, MergedSnapshot, OVERFLOW, Operations, Pool, Rollups,
};
use plimsoll_aggregator::core::history::{
    Accumulator, History, HistoryQuery, Known, Layout, Resolution, default_bounds,
};
use plimsoll_aggregator::io::history::HistoryStore;
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName, Operation, Series};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::Latency;

const DAYS: u64 = 30;
const DAY_SECONDS: u64 = 24 * 3_600;
const SLOT_SECONDS: u64 = 10;
/// Samples of one slot: 10 000 nodes with some samples each.
const SAMPLES: u64 = 100_000;
/// Slots in one batch: what an aggregator collects in ten minutes.
const BATCH: u64 = 60;
const QUERIES: u32 = 5;
const MEBIBYTE: f64 = 1_048_576.0;

fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("history.redb");
    let end = DAYS * DAY_SECONDS;
    let (bytes, took) = fill(&path)?;
    println!("written in {:.1} s", took.as_secs_f64());
    for (resolution, bytes) in Resolution::ALL.into_iter().zip(bytes) {
        let held = resolution.default_bound().age.min(Duration::from_secs(end));
        let a_day = bytes as f64 / held.as_secs_f64() * DAY_SECONDS as f64;
        println!(
            "slots of {:>3}: {:>7.1} MiB, {:.2} MiB a day",
            resolution.as_str(),
            bytes as f64 / MEBIBYTE,
            a_day / MEBIBYTE
        );
    }
    println!("file: {:.1} MiB", std::fs::metadata(&path)?.len() as f64 / MEBIBYTE);
    for (what, range, step) in [
        ("30 days, one point", 0..end, None),
        ("30 days, hour by hour", 0..end, Some(3_600)),
        ("7 days, one point", end - 7 * DAY_SECONDS..end, None),
        ("one day, minute by minute", end - DAY_SECONDS..end, Some(60)),
        ("one hour, 10 s by 10 s", end - 3_600..end, Some(10)),
    ] {
        let query = HistoryQuery {
            pool: pool(),
            range: at(range.start)..at(range.end),
            step: step.map(Duration::from_secs),
            quantiles: vec![0.5, 0.9, 0.99, 0.999],
            limits_ns: vec![18_000_000],
            with_distribution: false,
            nodes: None,
        };
        let mut took = Vec::new();
        let mut count = 0;
        for _ in 0..QUERIES {
            let watch = Stopwatch::start();
            count = ask(&path, &query, at(end))?;
            took.push(watch.elapsed().as_secs_f64() * 1e3);
        }
        took.sort_by(f64::total_cmp);
        println!(
            "{what:<26}: {:>7.1} ms (median of {QUERIES}), {count} samples",
            took[took.len() / 2]
        );
    }
    Ok(())
}

fn at(seconds: u64) -> Wall {
    Wall(seconds * 1_000_000_000)
}

fn mesh() -> Result<MeshName> {
    MeshName::new("bench").context("a name")
}

/// Where samples are that the fleet has no room for, as this one without windows.
fn pool() -> Pool {
    Pool::Fleet(Operation::new(OVERFLOW).expect("a constant name of plain letters"))
}

/// Writes all slots; returns the bytes of each tier.
fn fill(path: &Path) -> Result<([u64; Resolution::ALL.len()], Duration)> {
    let watch = Stopwatch::start();
    let opened = HistoryStore::open(path, &mesh()?, default_bounds(), (Some(0), at(1)))?;
    let (mut store, mut history) = (opened.store, History::kept(opened.stored));
    let shapes: Vec<Packed> = (0..16).map(shape).collect();
    let (operations, rollups) = (Operations::default(), Rollups::default());
    let slots = DAYS * DAY_SECONDS / SLOT_SECONDS;
    for slot in 0..slots {
        let place = usize::try_from(slot % shapes.len() as u64)?;
        let known = Known { operations: &operations, rollups: &rollups };
        history.on_merged(&snapshot(slot * SLOT_SECONDS, &shapes[place])?, known);
        if slot % BATCH == BATCH - 1 || slot == slots - 1 {
            let batch = history.take(at(slot * SLOT_SECONDS), Default::default());
            let batch = batch.context("nothing to write")?;
            store.write(&batch)?;
            history.on_stored();
        }
    }
    Ok((store.reader().read()?.bytes(), watch.elapsed()))
}

fn snapshot(seconds: u64, samples: &Packed) -> Result<MergedSnapshot> {
    let series = Series::plain(Operation::new("op")?);
    let histograms = [(series, samples.clone())].into_iter().collect();
    let latency = Latency { histograms, ..Latency::default() };
    Ok(MergedSnapshot {
        node: NodeName::new("n")?,
        taken: at(seconds),
        run_reports: Vec::new(),
        reported: None,
        samples: Some(MergedSamples { node_labels: Labels::default(), latency }),
    })
}

/// Some 1 000 buckets in use, as of a fleet whose latencies spread over two decades.
fn shape(seed: u64) -> Packed {
    let mut histogram = Histogram::default();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..SAMPLES {
        let mut sum = 0.0;
        // The sum of uniform numbers is nearly normal, and its exponential nearly lognormal.
        for _ in 0..4 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            sum += (state >> 11) as f64 / (1_u64 << 53) as f64;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        histogram.record((8e6 * ((sum - 2.0) * 1.2).exp()) as u64);
    }
    Packed::from(&histogram)
}

/// One query of a file that is opened for it; returns the number of samples.
fn ask(path: &Path, query: &HistoryQuery, now: Wall) -> Result<u64> {
    let opened = HistoryStore::open(path, &mesh()?, default_bounds(), (None, now))?;
    let reading = opened.store.reader().read()?;
    let layout = Layout::of(query, now, &reading.kept_from())?;
    let mut answer = Accumulator::new(layout);
    ensure!(reading.add_to(&mut answer, &query.pool)?, "the operation is not in the file");
    Ok(answer.points(query).iter().map(|point| point.count).sum())
}
