//! What a job recorded arrives, all of it and once, whichever way threads and process end.

use std::time::Duration;

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::histogram::layout::MAX_NS;

use crate::node::{Manner, Node};
use crate::parts::{SPAN, latency};
use crate::process::Place;

fn histogram(values: impl Iterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::default();
    values.for_each(|value| histogram.record(value));
    histogram
}

#[test]
fn all_that_a_job_records_arrives_exactly() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start("everything").ends_well();
    let seen = node.leave();
    assert_eq!(seen.histograms["epoch_hook"], histogram((0..40_000).map(latency)));
    let fetches = (0..4).flat_map(|_| (0..10_000).map(|us| us * 1_000));
    assert_eq!(seen.histograms["kernel_fetch{outcome=hit}"], histogram(fetches));
    let counters = [("cache{outcome=hit}", 2.0), ("cache{outcome=miss}", 1.0), ("tokens", 12.0)];
    assert_eq!(seen.counters, counters.map(|(name, n)| (name.to_owned(), n)).into());
    assert_eq!(seen.gauges, [("loss".to_owned(), 0.25)].into());
    assert_eq!((seen.last.len(), seen.connections), (1, 1));
}

#[test]
fn waiting_and_the_work_of_others_are_idle_and_own_work_is_not() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start("idle").ends_well();
    let seen = node.leave();
    let one = |series: &str| {
        let histogram = &seen.histograms[series];
        assert_eq!(histogram.count(), 1, "{series}");
        Duration::from_nanos(histogram.max_ns())
    };
    let (waited, idle) = (one("waited{phase=train}"), one("waited.idle{phase=train}"));
    assert!(waited >= SPAN && idle >= SPAN / 2 && idle <= waited, "{waited:?} {idle:?}");
    let (worked, idle) = (one("worked"), one("worked.idle"));
    assert!(idle + SPAN <= worked + worked / 100, "{worked:?} {idle:?}");
    let (helped, idle) = (one("helped"), one("helped.idle"));
    assert!(helped >= SPAN && idle >= SPAN / 2, "{helped:?} {idle:?}");
    let (_longest, _other) = (one(&"x".repeat(128)), one("other"));
    assert_eq!(seen.samples(), 8);
}

#[test]
fn a_process_that_exits_loses_nothing() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start_with("exit", &[("PLIMSOLL_FLUSH_MS", "60000")]).ends_well();
    assert_eq!(node.leave().histograms["epoch_hook"], histogram(0..2_000));
}

#[test]
fn threads_that_end_lose_nothing() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start("churn").ends_well();
    let expected = histogram((0..2_000).flat_map(|_| (0..50).map(latency)));
    assert_eq!(node.leave().histograms["epoch_hook"], expected);
}

#[test]
fn threads_that_record_without_a_pause_beside_the_flush_lose_nothing() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start_with("stress", &[("PLIMSOLL_FLUSH_MS", "10")]).ends_well();
    let seen = node.leave();
    let expected = histogram((0..4).flat_map(|_| (0..500_000).map(latency)));
    assert_eq!(seen.histograms["epoch_hook"], expected);
    assert_eq!(seen.histograms["kernel_fetch"], histogram((0..500_000).map(latency)));
}

#[test]
fn a_record_after_the_threads_own_variables_are_gone_arrives() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start("afterthought").ends_well();
    let expected = histogram([1_000, 5_000, 1_000, 5_000].into_iter());
    assert_eq!(node.leave().histograms["epoch_hook"], expected);
}

#[test]
fn what_does_not_fit_one_frame_arrives_in_several() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start_with("many_series", &[("PLIMSOLL_FLUSH_MS", "60000")]).ends_well();
    let seen = node.leave();
    assert_eq!((seen.histograms.len(), seen.samples()), (600, 600 * 400));
    assert!(seen.frames > 1, "{} frame", seen.frames);
}

#[test]
fn extremes_are_clamped_or_folded_and_counted() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start("extremes").ends_well();
    let seen = node.leave();
    let hook = &seen.histograms["epoch_hook"];
    assert_eq!((hook.count(), hook.min_ns(), hook.max_ns()), (100_001, 0, MAX_NS));
    assert_eq!(hook.sum_ns(), 100_000 * u128::from(MAX_NS));
    assert_eq!(seen.clamped, 100_000);
    assert_eq!(seen.histograms["other"], histogram(std::iter::once(1)));
    let omitted = [45_000_000, 35_000_000, 25_000_000, 15_000_000];
    assert_eq!(seen.histograms["paced"], histogram(omitted.into_iter()));
}

#[test]
fn a_disabled_library_neither_connects_nor_starts_a_thread() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start_with("disabled", &[("PLIMSOLL_ENABLE", "0")]).ends_well();
    assert_eq!((node.leave().connections, place.warnings()), (0, Vec::new()));
}

#[test]
fn values_without_any_switch_are_warned_of_once_with_the_fix() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    let none = ["", "_TIMERS", "_SHARDS"].map(|end| format!("PLIMSOLL_ENABLE{end}"));
    place.start_with("disabled", &none.each_ref().map(|name| (name.as_str(), ""))).ends_well();
    assert_eq!(node.leave().connections, 0);
    let [warning] = &place.warnings()[..] else { panic!("{:?}", place.warnings()) };
    assert!(warning.starts_with("plimsoll: no switch is set, so nothing is recorded: set PLIM"));
    assert!(warning.ends_with("PLIMSOLL_ENABLE=0 keeps it off without this line"), "{warning}");
}

#[test]
fn a_profiler_that_is_off_records_nothing_and_is_warned_of_once_with_the_fix() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    let off = [("PLIMSOLL_ENABLE_TIMERS", "yes"), ("PLIMSOLL_ENABLE_SHARDS", "")];
    place.start_with("profilers", &off).ends_well();
    assert_eq!(node.leave().samples(), 2);
    let fix = |noun: &str, name: &str, setter: &str| {
        format!(
            "plimsoll: {noun} are used and record nothing: set {name}=1, or call \
             plimsoll_client::configure(Config::new().enable(true).{setter}(true))"
        )
    };
    assert_eq!(
        place.warnings(),
        [
            "plimsoll: PLIMSOLL_ENABLE_TIMERS is \"yes\" and has no effect: use 1 or 0".to_owned(),
            fix("timers", "PLIMSOLL_ENABLE_TIMERS", "timers"),
            fix("shard reads", "PLIMSOLL_ENABLE_SHARDS", "shards"),
        ]
    );
}

#[test]
fn a_profiler_that_is_off_on_purpose_is_not_warned_of() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    let off = [("PLIMSOLL_ENABLE_TIMERS", "0"), ("PLIMSOLL_ENABLE_SHARDS", "0")];
    place.start_with("profilers", &off).ends_well();
    assert_eq!((node.leave().samples(), place.warnings()), (2, Vec::new()));
}

#[test]
fn scopes_shards_and_lookups_count_errors_sizes_and_outcomes_with_the_default_labels() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    place.start_with("scopes", &[("PLIMSOLL_LABELS", "run=r7,zone=default")]).ends_well();
    let seen = node.leave();
    assert_eq!(seen.histograms["epoch_hook{run=r7,zone=x}"].count(), 4);
    assert_eq!(seen.histograms["shard_read{run=r7,zone=default}"].count(), 13);
    let sizes = &seen.histograms["profiler_shard_file_size:bytes{run=r7,zone=default}"];
    let rows = &seen.histograms["profiler_shard_rows_processed:count{run=r7,zone=default}"];
    assert_eq!((sizes.count(), sizes.sum_ns(), rows.sum_ns()), (12, 1_101, 111_000));
    let counters: Vec<_> = seen.counters.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(
        counters,
        [
            ("cache{level=1,outcome=hit,run=r7,zone=default}", 2.0),
            ("cache{level=1,outcome=miss,run=r7,zone=default}", 1.0),
            ("epoch_hook.errors{run=r7,zone=x}", 3.0),
            ("shard_read.bytes{run=r7,zone=default}", 1_101.0),
            ("shard_read.errors{run=r7,zone=default}", 1.0),
            ("shard_read.rows{run=r7,zone=default}", 111.0),
            ("shard_read.slow{run=r7,zone=default}", 1.0),
        ]
    );
    assert_eq!(place.warnings(), Vec::<String>::new());
}

#[test]
fn a_program_overrides_its_environment_and_enabling_it_enables_its_profilers() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    let off = [("PLIMSOLL_ENABLE", "0"), ("PLIMSOLL_ENABLE_TIMERS", "")];
    place.start_with("in_code", &off).ends_well();
    let seen = node.leave();
    assert_eq!((seen.samples(), seen.histograms["epoch_hook{run=r8}"].count()), (1, 1));
}

#[test]
fn a_flush_without_a_node_returns_what_it_holds() {
    Place::new().start("unreachable").ends_well();
}
