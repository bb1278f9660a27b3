//! Baselines as files, good and bad, beside a history file with the samples of half an hour.

use plimsoll_compare::{Measured, MeasuredRate, RateSlot, Slot};
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::rule::RuleText;
use plimsoll_schemas::rule::file::load as load_rules;
use plimsoll_schemas::summary::MetricKind;
use tempfile::TempDir;

use super::*;
use crate::core::history::{
    BatchId, HistoryBatch, MetricKey, MetricTotals, Resolution, SlotSamples, default_bounds,
};
use crate::io::history::HistoryStore;

const NOW: Wall = Wall(1_700_000_000_000_000_000);
const MS: f64 = 1e6;
/// Slots of 10 s in half an hour.
const SLOTS: u64 = 180;
/// Rows of a slot.
const ROWS: f64 = 4_096.0;

fn fetch() -> Operation {
    Operation::new("fetch").unwrap()
}

fn rows() -> Operation {
    Operation::new("fetch.rows").unwrap()
}

fn seconds_of(samples: &Histogram) -> f64 {
    samples.exact().sum_ns as f64 / 1e9
}

/// A slot of fifty independent samples between 10 and 20 ms, multiplied by a factor.
fn slot(seed: u64, factor: f64) -> Histogram {
    let mut samples = Histogram::default();
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..50 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let share = (state >> 11) as f64 / (1_u64 << 53) as f64;
        samples.record(plimsoll_schemas::time::nanos(Duration::from_secs_f64(
            (10.0 + 10.0 * share) * MS * factor / 1e9,
        )));
    }
    samples
}

fn baseline_with(layout: BucketLayout) -> String {
    let mut measured = Measured::new(layout);
    measured.slots.extend((0..SLOTS).map(|number| Slot {
        node: None,
        start_ns: number * 10_000_000_000,
        length_ns: 10_000_000_000,
        samples: Packed::from(&slot(number, 1.0)),
    }));
    let slot = |number| RateSlot { amount: ROWS, seconds: seconds_of(&slot(number, 1.0)) };
    let slots = (0..SLOTS).map(slot).collect();
    let rate = MeasuredRate { operation: Some("fetch".to_owned()), slots };
    let side = Side { operations: [(fetch(), measured)].into(), rates: [(rows(), rate)].into() };
    baseline::write(&side).unwrap()
}

/// A rule about a regression of `fetch` against a good baseline.
pub(crate) fn good_rule(dir: &TempDir) -> Threshold {
    rule(dir, "fetch", &baseline_with(BucketLayout::MESH))
}

/// A rule about a regression against a file with this text.
fn rule(dir: &TempDir, operation: &str, text: &str) -> Threshold {
    let path = dir.path().join("v1.json");
    std::fs::write(&path, text).unwrap();
    let rule = format!(
        "[[rule]]\nname = 'slower'\nmetric = 'regression:{operation}'\ngreater = 0.05\n\
         baseline = {:?}\n",
        path.display().to_string()
    );
    let text = RuleText::new("a.toml", rule.into_bytes()).unwrap();
    let rules = load_rules(&[], vec![text], 1, &mut |_| Err(String::new())).unwrap();
    rules.thresholds.last().unwrap().clone()
}

fn history(dir: &TempDir, slots: u64, factor: f64) -> HistoryStore {
    history_until(dir, NOW, slots, factor)
}

/// A history of the last slots, each with samples that are this many times as long.
pub(crate) fn history_until(dir: &TempDir, now: Wall, slots: u64, factor: f64) -> HistoryStore {
    let (path, mesh) = (dir.path().join("history.redb"), MeshName::new("default").unwrap());
    let mut store = HistoryStore::open(&path, &mesh, default_bounds(), Some(0), now).unwrap().store;
    let last = Resolution::TenSeconds.number(now);
    let samples = (0..slots).map(|back| (last - 1 - back, slot(1_000 + back, factor))).collect();
    let of_rows = MetricKey { kind: MetricKind::Counter, pool: Pool::Fleet(rows()) };
    let of_slots = (0..slots).map(|back| (last - 1 - back, MetricTotals::of(ROWS))).collect();
    let batch = HistoryBatch {
        id: BatchId { generation: 1, attempt: 0 },
        at: now,
        positions: BTreeMap::new(),
        samples: SlotSamples {
            pools: [(Pool::Fleet(fetch()), samples)].into(),
            metrics: [(of_rows, of_slots)].into(),
            coverage: BTreeMap::new(),
        },
    };
    store.write(&batch).unwrap();
    store
}

fn found(slots: u64, factor: f64) -> Regression {
    let dir = tempfile::tempdir().unwrap();
    let rule = good_rule(&dir);
    let store = history(&dir, slots, factor);
    judge(std::slice::from_ref(&rule), &store.reader(), NOW).remove(&rule.name).unwrap()
}

#[test]
fn a_slower_fleet_is_found_with_its_interval_and_its_samples() {
    let found = found(SLOTS, 1.2).unwrap();
    assert!((0.15..0.25).contains(&found.value), "{found:?}");
    let number = |label: &str| found.labels.get(label).unwrap().parse::<f64>().unwrap();
    assert!(number("low") < found.value && found.value < number("high"), "{found:?}");
    assert!((0.0..1.0).contains(&number("quantile")), "{found:?}");
    assert_eq!((number("samples"), number("baseline_samples")), (9_000.0, 9_000.0));
}

#[test]
fn a_fleet_that_is_as_fast_or_faster_has_not_regressed() {
    for factor in [1.0, 0.8] {
        let found = found(SLOTS, factor).unwrap();
        assert_eq!((found.value, found.labels.get("quantile")), (0.0, None), "{factor}");
    }
}

#[test]
fn a_rate_that_is_lower_has_regressed_by_its_share() {
    let found = |factor| {
        let dir = tempfile::tempdir().unwrap();
        let rule = rule(&dir, "fetch.rows", &baseline_with(BucketLayout::MESH));
        let store = history(&dir, SLOTS, factor);
        judge(std::slice::from_ref(&rule), &store.reader(), NOW).remove(&rule.name).unwrap()
    };
    let slower = found(1.2).unwrap();
    assert!((slower.value - (1.0 - 1.0 / 1.2)).abs() < 0.01, "{slower:?}");
    let number = |label: &str| slower.labels.get(label).unwrap().parse::<f64>().unwrap();
    assert!(number("low") < slower.value && slower.value < number("high"), "{slower:?}");
    for factor in [1.0, 0.8] {
        assert_eq!(found(factor).unwrap().value, 0.0, "{factor}");
    }
}

#[test]
fn a_name_of_a_latency_and_a_counter_is_that_of_the_latency() {
    let dir = tempfile::tempdir().unwrap();
    let mut side = baseline::read(&baseline_with(BucketLayout::MESH)).unwrap();
    let rate = side.rates.remove("fetch.rows").unwrap();
    side.rates.insert(fetch(), rate);
    let rule = rule(&dir, "fetch", &baseline::write(&side).unwrap());
    assert_eq!(check(&rule), Ok(()));
    let store = history(&dir, SLOTS, 1.2);
    let found = judge(std::slice::from_ref(&rule), &store.reader(), NOW).remove(&rule.name);
    let found = found.unwrap().unwrap();
    // A rate would be lower by 0.17, and has no quantile.
    assert!((0.18..0.25).contains(&found.value), "{found:?}");
    assert!(found.labels.get("quantile").is_some(), "{found:?}");
}

#[test]
fn too_few_samples_are_no_verdict() {
    let few = found(10, 2.0).unwrap_err();
    assert!(few.starts_with("not enough data: B has 10 intervals, fewer than 20"), "{few}");
    assert_eq!(found(0, 2.0).unwrap_err(), "not comparable: only A has it");
}

#[test]
fn a_baseline_that_cannot_be_used_is_named_with_the_fix() {
    let dir = tempfile::tempdir().unwrap();
    let good = baseline_with(BucketLayout::MESH);
    let micros = baseline_with(BucketLayout { unit_ns: 1_000, ..BucketLayout::MESH });
    for (operation, text, words) in [
        ("fetch", "", "EOF"),
        ("fetch", "{\"fleet\":{}}", "it is not a baseline"),
        ("fetch", &good.replace("\"version\":1", "\"version\":2"), "version 2 is not 1"),
        ("load", &good, "no operation load; it has fetch, fetch.rows"),
        ("fetch", &micros, "in units of 1000 ns, the mesh's are"),
    ] {
        let rule = rule(&dir, operation, text);
        let error = check(&rule).unwrap_err();
        assert!(error.starts_with("rule \"slower\": baseline: /"), "{error}");
        assert!(error.contains(words), "{error}");
        // What has become unusable since the start is no verdict, and ends no process.
        let found = judge(std::slice::from_ref(&rule), &history(&dir, 0, 1.0).reader(), NOW);
        assert!(found[&rule.name].as_ref().unwrap_err().contains(words), "{found:?}");
        std::fs::remove_file(dir.path().join("history.redb")).unwrap();
    }
    let rule = rule(&dir, "fetch", &good);
    assert_eq!(check(&rule), Ok(()));
    std::fs::remove_file(dir.path().join("v1.json")).unwrap();
    let error = check(&rule).unwrap_err();
    assert!(error.contains("No such file") && error.contains("--baseline save"), "{error}");
}
