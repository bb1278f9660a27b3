//! The golden interval log, which readers of other languages read too
//! (`tests/python/test_hlog.py`).

use std::path::PathBuf;

use plimsoll_cli::interval_log::{read, write};
use plimsoll_compare::{BucketLayout, Measured, Side, Slot};
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{NodeName, Operation};
use serde::Deserialize;

#[derive(Deserialize)]
struct Line {
    operation: Operation,
    node: Option<NodeName>,
    start_ms: u64,
    length_ms: u64,
    values_ns: Vec<u64>,
}

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hlog").join(name)
}

fn stated() -> Side {
    let text = std::fs::read_to_string(data("latencies.json")).unwrap();
    let lines: Vec<Line> = serde_json::from_str(&text).unwrap();
    let mut side = Side::default();
    for line in lines {
        let mut samples = Histogram::default();
        line.values_ns.iter().for_each(|value| samples.record(*value));
        let new = || Measured::new(BucketLayout::MESH);
        side.operations.entry(line.operation).or_insert_with(new).slots.push(Slot {
            node: line.node,
            start_ns: line.start_ms * 1_000_000,
            length_ns: line.length_ms * 1_000_000,
            samples: Packed::from(&samples),
        });
    }
    side
}

/// Operation, node, start, length and counts of a slot: what a log keeps.
type Row = (String, Option<NodeName>, u64, u64, Vec<(usize, u64)>);

fn rows(side: &Side) -> Vec<Row> {
    let of = |(name, measured): (&Operation, &Measured)| {
        let slots = measured.slots.iter();
        let row = |slot: &Slot| {
            let buckets = slot.samples.buckets().collect();
            (name.to_string(), slot.node.clone(), slot.start_ns, slot.length_ns, buckets)
        };
        slots.map(row).collect::<Vec<_>>()
    };
    side.operations.iter().flat_map(of).collect()
}

/// Lines up to their histograms, whose compressed bytes depend on the compressor.
fn heads(log: &str) -> Vec<&str> {
    log.lines().map(|line| line.split("HISTF").next().unwrap()).collect()
}

#[test]
fn the_golden_log_has_the_samples_that_are_stated_beside_it() {
    let mut written = Vec::new();
    write(&stated(), &mut written).unwrap();
    let path = data("latencies.hlog");
    if std::env::var_os("PLIMSOLL_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap();
    assert_eq!(rows(&read(golden.as_bytes(), None).unwrap().side), rows(&stated()));
    assert_eq!(heads(std::str::from_utf8(&written).unwrap()), heads(&golden));
}
