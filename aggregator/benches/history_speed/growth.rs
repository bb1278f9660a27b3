//! By how much a history grows in a day: of one operation, for fleets of several sizes, with and
//! without groups of a roll-up.

use anyhow::Result;
use plimsoll_aggregator::core::fleet::{Group, Pool};
use plimsoll_aggregator::core::history::{MetricKey, Resolution};
use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::summary::MetricKind;
use serde_json::{Value, json};

use crate::past::{DAY, OPERATION, SLOT_SECONDS, Writer, disk_bytes, pool};
use crate::samples::{chosen, packed};

/// Nodes, and groups of the roll-up `rank`: each node is in one of them.
const CASES: [(u64, u64); 5] = [(1, 0), (100, 0), (10_000, 0), (100, 16), (10_000, 16)];
/// What a node records of an operation, as in `drill-fleet`.
const SAMPLES_A_SECOND: u64 = 50;
/// Samples that are drawn for a case, in at least [`SHAPES_MIN`] slots; further slots repeat them.
/// With this many samples hardly a bucket is empty in an hour.
const DRAWN: u64 = 40_000_000;
const SHAPES_MIN: u64 = 16;
/// Slots of 10 s in one checkpoint. It changes what is written, and not what is kept.
const SLOTS_A_CHECKPOINT: u64 = 6;

pub(crate) fn all() -> Result<Value> {
    CASES.into_iter().map(|(nodes, groups)| a_day(nodes, groups)).collect()
}

fn a_day(nodes: u64, groups: u64) -> Result<Value> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("history.redb");
    let slots = DAY / SLOT_SECONDS;
    let parts = groups.max(1);
    let samples = nodes * SAMPLES_A_SECOND * SLOT_SECONDS;
    let shapes = (DRAWN / samples).clamp(SHAPES_MIN, slots);

    let nodes_of = |part: u64| part * nodes / parts..(part + 1) * nodes / parts;
    let of_part = |part| packed(shapes, samples / parts, &nodes_of(part));
    let shapes: Vec<Vec<Packed>> = (0..parts).map(of_part).collect();
    let pools: Vec<Pool> = (0..groups).map(group).collect();

    let mut writer = Writer::new(&path, DAY)?;
    for number in slots..2 * slots {
        let drawn: Vec<&Packed> = shapes
            .iter()
            .zip(number * parts..)
            .map(|(of_part, seed)| &of_part[chosen(seed, of_part.len())])
            .collect();
        writer.add(&pool(), number, &drawn);
        for (pool, samples) in pools.iter().zip(&drawn) {
            writer.add(pool, number, std::slice::from_ref(samples));
        }
        writer.cover(number, nodes);
        if number % SLOTS_A_CHECKPOINT == SLOTS_A_CHECKPOINT - 1 {
            writer.write((number + 1) * SLOT_SECONDS)?;
        }
    }

    let tiers = Resolution::ALL.into_iter().zip(writer.bytes()?);
    let row = |(tier, bytes): (Resolution, u64)| {
        let bound = tier.default_bound();
        let (age_days, bytes_max) = (bound.age.as_secs() / DAY, bound.bytes_max);
        let slot = tier.as_str();
        json!({ "slot": slot, "bytes": bytes, "age_days": age_days, "bytes_max": bytes_max })
    };
    let tiers: Vec<Value> = tiers.map(row).collect();

    let written = writer.written;
    drop(writer);
    Ok(json!({
        "nodes": nodes, "groups": groups, "series": groups + 1, "samples_a_slot": samples,
        "tiers": tiers, "written_bytes": written, "disk_bytes": disk_bytes(&path)?,
    }))
}

/// Metrics of a job, of which each node of the fleet sends a value a second.
const METRICS: u64 = 20;
const METRIC_NODES: u64 = 16;

/// By how much a history grows in a day with the metrics of one job alone.
pub(crate) fn of_metrics() -> Result<Value> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("history.redb");
    let slots = DAY / SLOT_SECONDS;
    let name = |metric| Operation::new(format!("job.{metric}")).expect("plain letters");
    let key = |metric| MetricKey { kind: MetricKind::Counter, pool: Pool::Fleet(name(metric)) };
    let keys: Vec<MetricKey> = (0..METRICS).map(key).collect();

    let mut writer = Writer::new(&path, DAY)?;
    for number in slots..2 * slots {
        keys.iter().for_each(|key| writer.count(key, number, METRIC_NODES));
        if number % SLOTS_A_CHECKPOINT == SLOTS_A_CHECKPOINT - 1 {
            writer.write((number + 1) * SLOT_SECONDS)?;
        }
    }
    let bytes: u64 = writer.bytes()?.iter().sum();
    let written = writer.written;
    drop(writer);
    Ok(json!({
        "metrics": METRICS, "bytes": bytes, "written_bytes": written,
        "disk_bytes": disk_bytes(&path)?,
    }))
}

fn group(rank: u64) -> Pool {
    let operation = Operation::new(OPERATION).expect("a constant name of plain letters");
    let values = vec![rank.to_string().into_boxed_str()];
    Pool::Group("rank".to_owned(), Group { operation, values })
}
