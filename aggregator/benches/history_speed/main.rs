//! Cost of the past: one operation of 10 000 nodes over 30 days in a history file and how long
//! queries of it take, by how much a file grows in a day, and how long two runs of 10^8 samples
//! take to compare. Prints JSON, which `aggregator/bench/run --only history` shows beside
//! Prometheus as tables, with its targets.
//!
//! `cargo bench -p plimsoll-aggregator --bench history_speed`, with `-- --days N` for fewer than 30
//! days, and `-- --keep DIR` to leave the history and the same samples for Prometheus there.

mod growth;
mod past;
mod remote_write;
mod runs;
mod samples;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use plimsoll_clock::Clock;
use serde_json::{Value, json};

use past::{DAY, HOUR, QUANTILES, SLOT_SECONDS};
use samples::Shapes;

/// Nodes of the fleet, of which each records one sample of the operation a second.
const NODES: u64 = 10_000;
/// Samples of one slot of 10 s.
const SAMPLES: u64 = NODES * SLOT_SECONDS;
/// Slots that are drawn; those of the past are of these, by chance.
const SHAPES: u64 = 64;
/// Schemas of native histograms: buckets at most 9 % wide, which client libraries advise, and the
/// finest.
const SCHEMAS: [i32; 2] = [3, 8];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).cloned()
    };
    let days: u64 = value("--days").map_or(Ok(30), |days| days.parse()).context("--days")?;
    ensure!((1..=30).contains(&days), "--days: write 1 to 30");
    let own = tempfile::tempdir()?;
    let dir = value("--keep").map_or(own.path().to_owned(), PathBuf::from);
    let path = dir.join("history.redb");
    ensure!(!path.exists(), "{}: remove it first", path.display());

    let shapes = Shapes::new(SHAPES, SAMPLES, NODES);
    // The range ends with a whole hour, so that each system can answer for just this range.
    let end = Clock::start().now().wall.0 / 1_000_000_000 / HOUR * HOUR;
    let seconds = end - days * DAY..end;
    let slots = seconds.start / SLOT_SECONDS..seconds.end / SLOT_SECONDS;
    let file = past::fill(&path, &shapes, seconds.clone())?;
    let queries = past::queries(&path, days, end)?;
    let of_metrics = past::metric_queries(&path, days, end)?;
    if value("--keep").is_some() {
        for schema in SCHEMAS {
            let path = dir.join(format!("schema-{schema}.remote-write"));
            remote_write::write(&path, schema, &shapes, seconds.clone())?;
        }
    }
    let exact = QUANTILES.into_iter().zip(shapes.exact(slots.clone(), &QUANTILES));
    let exact: Vec<Value> =
        exact.map(|(quantile, ns)| json!({ "quantile": quantile, "ns": ns })).collect();
    let figures = json!({
        "days": days, "from_seconds": seconds.start, "to_seconds": seconds.end,
        "samples": (slots.end - slots.start) * SAMPLES, "operation": past::OPERATION,
        "schemas": SCHEMAS, "file": file, "queries": queries, "exact": exact,
        "metric_queries": of_metrics, "metric_growth": growth::of_metrics()?,
        "growth": growth::all()?, "compare": runs::compared(&shapes)?,
    });
    println!("{}", serde_json::to_string_pretty(&figures)?);
    Ok(())
}
