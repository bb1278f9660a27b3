//! Histories in directories of their own: written, killed, full, asked, and against an oracle.

use plimsoll_schemas::hardware::{Reading, SensorState};
use plimsoll_schemas::histogram::Histogram;
use std::collections::BTreeMap;

use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Operation, Seq, Series};
use plimsoll_schemas::subject::SnapshotKind;
use plimsoll_schemas::wire::history::{HistoryOf, HistoryRequest, HistoryResponse};
use plimsoll_schemas::wire::{
    Body, Bus, Hardware, Header, Interval, Latency, Snapshot, Totals, encode,
};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::limits::{HISTORY_READ_SEGMENTS_MAX, HISTORY_SEGMENT_BYTES};

const SECOND: u64 = 1_000_000_000;
const BEGIN: u64 = 1_700_000_000;
const BOUNDS: HistoryBounds =
    HistoryBounds { age_max: Duration::from_secs(3_600), bytes_max: 4 * HISTORY_SEGMENT_BYTES };

fn identity() -> Identity {
    let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n1").unwrap());
    Identity { mesh, node, labels: Labels::default() }
}

fn store(dir: &TempDir) -> Store {
    let clock = Clock::start();
    let mut store = Store::new(dir.path(), identity(), BOUNDS, clock, SharedStats::default());
    store.open().unwrap();
    store
}

/// The message of a second: `samples` of 12 ms, and readings whose set is sent every 60 seconds.
fn record(second: u64, samples: u64, padding: usize) -> Record {
    let mut histogram = Histogram::default();
    histogram.record_n(12_000_000, samples);
    let operation = Operation::new("epoch_hook").unwrap();
    let series = Series { operation, labels: Labels::new([("rank", "3")]).unwrap() };
    let gauges = (0..padding).map(|n| {
        let operation = Operation::new(format!("gauge_{n:04}")).unwrap();
        (Series { operation, labels: Labels::default() }, 1.0)
    });
    // Two ranks, of which one sets its gauge in each second to that second.
    let of_gauge = [("3", second as f64), ("4", 0.5)];
    let of_gauge = of_gauge.map(|(rank, value)| (series_of("memory", rank), value));
    let latency = Latency {
        histograms: vec![(series, histogram)],
        counters: vec![(series_of("epoch_hook.tokens", "3"), 100.0)],
        gauges: gauges.chain(of_gauge).collect(),
    };
    let reading = Reading {
        sensor: "cpu_usage_ratio".to_owned(),
        labels: Labels::default(),
        state: SensorState::Ok,
        value: Some(0.5),
        reason: None,
    };
    let set = 1 + second / 60;
    let hardware = match second % 60 {
        0 => Hardware { readings: vec![reading], set, changed: Vec::new() },
        n => Hardware { readings: Vec::new(), set, changed: vec![(0, n as f64 / 100.0)] },
    };
    let (latency, hardware, bus) = (Some(latency), Some(hardware), Some(Bus::default()));
    let snapshot = Snapshot {
        header: Header {
            node: identity().node,
            incarnation: Incarnation(7),
            seq: Seq(second + 1),
            start: Wall((BEGIN + second) * SECOND),
            length_ns: SECOND,
            totals: Totals { recorded: 1 << 40, ..Totals::default() },
            last: false,
            successor: None,
            labels: Labels::default(),
        },
        body: Body::Interval(Interval { latency, hardware, bus, event: None }),
    };
    let end = Wall((BEGIN + second + 1) * SECOND);
    let message = Bytes::from(encode(&snapshot));
    Record { end, length_ns: SECOND, kind: SnapshotKind::Interval, message }
}

fn series_of(name: &str, rank: &str) -> Series {
    let labels = Labels::new([("rank", rank)]).unwrap();
    Series { operation: Operation::new(name).unwrap(), labels }
}

fn latency() -> HistoryOf {
    let operation = Operation::new("epoch_hook").unwrap();
    HistoryOf::Latency { operation, labels: Labels::new([("rank", "3")]).unwrap() }
}

/// The answers to a range of seconds since [`BEGIN`], widened to whole slots, asked for until all
/// of it is covered or the rest is refused.
fn try_ask(
    store: &mut Store,
    of: &HistoryOf,
    range: (u64, u64),
    step: u64,
) -> Result<Vec<HistoryResponse>, String> {
    // Requests are of whole slots.
    let (from, to) = ((BEGIN + range.0) / step, (BEGIN + range.1).div_ceil(step));
    let at = |slot: u64| Wall(slot * step * SECOND);
    let mut request = HistoryRequest {
        number: 1,
        asker: "a1".to_owned(),
        of: of.clone(),
        range: at(from)..at(to),
        step_ns: step * SECOND,
    };
    let mut responses = Vec::new();
    while request.range.start < request.range.end {
        let answer = store.answer(&request.encode(), usize::MAX).unwrap();
        assert_eq!(answer.asker, "a1");
        let response = HistoryResponse::decode(&request, &answer.payload).unwrap();
        if !response.refused.is_empty() {
            return Err(response.refused);
        }
        request.range.end = response.from;
        responses.push(response);
    }
    Ok(responses)
}

fn ask(store: &mut Store, of: &HistoryOf, range: (u64, u64), step: u64) -> Vec<HistoryResponse> {
    try_ask(store, of, range, step).unwrap()
}

fn samples(responses: &[HistoryResponse]) -> u64 {
    let slots = responses.iter().flat_map(|response| &response.slots);
    slots.filter_map(|slot| slot.samples.as_ref()).map(|samples| samples.exact().count).sum()
}

fn segments(dir: &TempDir) -> Vec<String> {
    let files = std::fs::read_dir(dir.path().join("n1")).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".segment"));
    names.sort();
    names
}

#[test]
fn every_second_is_found_again_over_segments_and_restarts() {
    let dir = TempDir::new().unwrap();
    let mut written = store(&dir);
    let padding = 200;
    for second in 0..600 {
        written.write(&record(second, second % 7, padding), Wall((BEGIN + second) * SECOND));
    }
    drop(written);
    assert!(segments(&dir).len() > 2, "{:?}", segments(&dir));
    let mut store = store(&dir);
    // An interval belongs to the second in which it ended.
    let expected = |range: std::ops::Range<u64>| range.map(|second| second % 7).sum::<u64>();
    for (from, to, step) in [(0, 601, 1), (100, 200, 10), (120, 121, 1), (0, 6_000, 50)] {
        let responses = ask(&mut store, &latency(), (from, to), step);
        let last = to.min(601);
        assert_eq!(samples(&responses), expected(from.max(1) - 1..last - 1), "{from} to {to}");
        let covered: u64 =
            responses.iter().flat_map(|r| &r.slots).map(|slot| slot.covered_ns).sum();
        assert_eq!(covered, (last - from.max(1)) * SECOND);
    }
    let other = HistoryOf::Latency {
        operation: Operation::new("epoch_hook").unwrap(),
        labels: Labels::new([("rank", "4")]).unwrap(),
    };
    assert_eq!(samples(&ask(&mut store, &other, (0, 601), 1)), 0);
}

#[test]
fn a_node_that_starts_again_and_again_answers_all_of_it() {
    let dir = TempDir::new().unwrap();
    let restarts = 3 * HISTORY_READ_SEGMENTS_MAX as u64;
    for second in 0..restarts {
        let mut store = store(&dir);
        store.write(&record(second, 1, 0), Wall((BEGIN + second) * SECOND));
        // A kill leaves the segment open, and the next process closes it.
    }
    assert!(segments(&dir).len() > HISTORY_READ_SEGMENTS_MAX, "{:?}", segments(&dir));
    let responses = ask(&mut store(&dir), &latency(), (0, 3_600), 1);
    assert_eq!(samples(&responses), restarts);
}

#[test]
fn readings_of_changes_alone_are_those_of_their_set() {
    let dir = TempDir::new().unwrap();
    let mut store = store(&dir);
    for second in 0..300 {
        store.write(&record(second, 1, 600), Wall((BEGIN + second) * SECOND));
    }
    assert!(segments(&dir).len() > 1, "the set may be in the segment before");
    for from in [1, 59, 90, 130, 170, 200, 299] {
        let hardware = HistoryOf::Hardware { sensor: Some("cpu_usage_ratio".to_owned()) };
        let responses = ask(&mut store, &hardware, (from, from + 1), 1);
        let reading = &responses[0].slots[0].readings[0];
        let expected = match (from - 1) % 60 {
            0 => 0.5,
            n => n as f64 / 100.0,
        };
        assert_eq!((reading.min, reading.mean, reading.count), (expected, expected, 1), "{from}");
    }
}

#[test]
fn what_a_kill_tears_is_cut_off_and_what_was_written_before_is_kept() {
    for torn in [1, 5, 60, 400] {
        let dir = TempDir::new().unwrap();
        let mut killed = store(&dir);
        (0..10).for_each(|second| killed.write(&record(second, 1, 0), Wall(BEGIN * SECOND)));
        drop(killed);
        let open = dir.path().join("n1").join("open.segment");
        let bytes = std::fs::metadata(&open).unwrap().len();
        let file = std::fs::OpenOptions::new().write(true).open(&open).unwrap();
        file.set_len(bytes - torn).unwrap();
        let mut store = store(&dir);
        let before = samples(&ask(&mut store, &latency(), (0, 60), 1));
        assert_eq!(before, if torn < 400 { 9 } else { before.min(9) }, "{torn} bytes");
        store.write(&record(20, 1, 0), Wall(BEGIN * SECOND));
        assert_eq!(samples(&ask(&mut store, &latency(), (0, 60), 1)), before + 1);
    }
}

#[test]
fn bytes_are_bounded_and_the_oldest_intervals_go_first() {
    let dir = TempDir::new().unwrap();
    let mut store = store(&dir);
    for second in 0..1_500 {
        store.write(&record(second, 1, 600), Wall((BEGIN + second) * SECOND));
    }
    let stats = store.stats_for_tests();
    assert!(stats.bytes <= BOUNDS.bytes_max + HISTORY_SEGMENT_BYTES, "{stats:?}");
    assert!(stats.earliest > Some(Wall((BEGIN + 100) * SECOND)), "{stats:?}");
    let responses = ask(&mut store, &latency(), (0, 1_510), 10);
    let kept = responses[0].kept_from.unwrap();
    let kept = 1_500 - (kept.0 / SECOND - BEGIN) + 1;
    assert_eq!(samples(&responses), kept);
}

#[test]
fn a_directory_that_cannot_be_used_costs_history_alone_and_is_counted() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("n1"), "a file").unwrap();
    let mut store = store(&dir);
    store.write(&record(1, 1, 0), Wall(BEGIN * SECOND));
    let stats = store.stats_for_tests();
    assert_eq!((stats.written, stats.dropped.values().sum::<u64>()), (0, 1), "{stats:?}");
    let request = HistoryRequest {
        number: 4,
        asker: "a1".to_owned(),
        of: latency(),
        range: Wall(0)..Wall(SECOND),
        step_ns: SECOND,
    };
    let answer = store.answer(&request.encode(), usize::MAX).unwrap();
    let response = HistoryResponse::decode(&request, &answer.payload).unwrap();
    assert!(response.refused.contains("disk"), "{response:?}");
    assert_eq!(store.answer(b"no request", usize::MAX), None);
}

#[test]
fn metrics_are_answered_by_slot_with_the_time_of_their_operation() {
    let dir = TempDir::new().unwrap();
    let mut store = store(&dir);
    (0..30).for_each(|second| store.write(&record(second, 2, 0), Wall(BEGIN * SECOND)));

    let names = ["epoch_hook.tokens", "memory"].map(|name| Operation::new(name).unwrap());
    let (labels, operation) = (Labels::default(), Operation::new("epoch_hook").ok());
    let of = HistoryOf::Metric { names: names.into(), operation, labels };
    let answered = ask(&mut store, &of, (0, 40), 10);
    let mut slots: Vec<_> = answered.iter().flat_map(|of| &of.slots).collect();
    slots.sort_by_key(|slot| slot.begin_ns);
    // An interval belongs to the slot in which it ended, so the first one has nine.
    let first = slots[0];
    let [counter, gauge] = [&first.counters[0], &first.gauges[0]];
    assert_eq!((counter.count, counter.sum), (9, 900.0));
    assert_eq!((gauge.count, gauge.min, gauge.max), (18, 0.0, 8.0));
    assert_eq!((gauge.sum, gauge.last), (40.5, 4.25), "the mean of 8 and 0.5");
    let time = &first.operations[0];
    assert_eq!((time.count, time.sum_ns, time.max_ns), (18, 18 * 12_000_000, 12_000_000));
    let all: f64 = slots.iter().map(|slot| slot.counters[0].sum).sum();
    assert_eq!(all, 3_000.0);

    let (names, labels) = (vec![Operation::new("memory").unwrap()], [("rank", "3")]);
    let labels = Labels::new(labels).unwrap();
    let of = HistoryOf::Metric { names, operation: None, labels };
    let of_rank = ask(&mut store, &of, (10, 20), 10);
    let gauge = &of_rank[0].slots[0].gauges[0];
    assert_eq!((gauge.count, gauge.min, gauge.max, gauge.last), (10, 9.0, 18.0, 18.0));
    assert!(of_rank[0].slots[0].operations.is_empty());
}

#[test]
fn times_of_operations_are_answered_by_class_without_the_nodes_own() {
    let dir = TempDir::new().unwrap();
    let mut store = store(&dir);
    (0..30).for_each(|second| store.write(&record(second, 2, 0), Wall(BEGIN * SECOND)));
    let answered = ask(&mut store, &HistoryOf::Operations, (0, 40), 60);
    let times = answered.iter().flat_map(|of| &of.slots).flat_map(|of| &of.operations);
    let times = times.map(|of| (of.operation.as_str(), of.class.as_deref(), of.count, of.sum_ns));
    assert_eq!(times.collect::<Vec<_>>(), [("epoch_hook", None, 60, 60 * 12_000_000)]);
}

#[test]
fn a_request_of_a_later_version_is_refused_with_the_reason() {
    let dir = TempDir::new().unwrap();
    let mut store = store(&dir);
    let request = serde_json::json!({"schema": 1, "number": 5, "asker": "a1",
        "of": {"stacks": {"thread": 1}}, "from_ns": 0, "to_ns": 10, "step_ns": 10});
    let answer = store.answer(&rmp_serde::to_vec_named(&request).unwrap(), usize::MAX).unwrap();
    assert_eq!(answer.asker, "a1");
    let text = String::from_utf8_lossy(&answer.payload);
    assert!(text.contains("upgrade plimsoll-node"), "{text}");
    assert_eq!(store.stats_for_tests().requests.get("undecodable"), Some(&1));
}

#[test]
fn one_directory_serves_one_process() {
    let dir = TempDir::new().unwrap();
    let _first = store(&dir);
    let clock = Clock::start();
    let stats = SharedStats::default();
    let mut second = Store::new(dir.path(), identity(), BOUNDS, clock, stats);
    assert!(matches!(second.open(), Err(HistoryError::InUse { .. })));
}

#[tokio::test]
async fn what_is_handed_over_is_written_and_answered_by_the_thread() {
    let dir = TempDir::new().unwrap();
    let (identity, clock) = (identity(), Clock::start());
    let mut history = History::start(dir.path(), &identity, BOUNDS, clock).unwrap();
    (0..20).for_each(|second| history.write(record(second, 2, 0), Wall(BEGIN * SECOND)));
    let at = |second| Wall((BEGIN + second) * SECOND);
    let request = HistoryRequest {
        number: 9,
        asker: "a1".to_owned(),
        of: latency(),
        range: at(0)..at(30),
        step_ns: 10 * SECOND,
    };
    history.request(Bytes::from(request.encode()), usize::MAX);
    let answer = history.answer().await;
    let response = HistoryResponse::decode(&request, &answer.payload).unwrap();
    assert_eq!((samples(std::slice::from_ref(&response)), response.slots.len()), (40, 3));
    // What the broker takes has room for the newest slot alone.
    history.request(Bytes::from(request.encode()), 200);
    let answer = history.answer().await;
    let response = HistoryResponse::decode(&request, &answer.payload).unwrap();
    assert_eq!((response.slots.len(), response.from), (1, at(20)));
    assert_eq!(history.stats().requests.get("answered"), Some(&2));
    history.end(Duration::from_secs(10)).await;
}

/// What happens to a history.
#[derive(Clone, Debug)]
enum Act {
    /// Samples of a rank, this many seconds after the interval before; negative when the clock is
    /// set back.
    Write { after: i64, rank: u8, samples: u64 },
    /// The process ends and starts again.
    Restart,
    /// It is killed while it writes: the last record is torn by this many bytes.
    Kill { torn: u64 },
    /// A range is asked for.
    Ask { from: u64, length: u64, step: u64, rank: Option<u8> },
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (prop_oneof![9 => 1_i64..4, 1 => -300_i64..600], 0_u8..3, 0_u64..9)
            .prop_map(|(after, rank, samples)| Act::Write { after, rank, samples }),
        1 => Just(Act::Restart),
        1 => (1_u64..900).prop_map(|torn| Act::Kill { torn }),
        4 => (0_u64..1_500, 1_u64..800, 1_u64..30, prop::option::of(0_u8..3))
            .prop_map(|(from, length, step, rank)| Act::Ask { from, length, step, rank }),
    ]
}

/// A naive history: all records in a list.
#[derive(Default)]
struct Oracle(Vec<(u64, u8, u64)>);

impl Oracle {
    /// Samples by the begin of their slot.
    fn slots(&self, range: std::ops::Range<u64>, step: u64, rank: Option<u8>) -> Vec<(u64, u64)> {
        let mut slots = BTreeMap::new();
        for (end, of, samples) in &self.0 {
            if range.contains(end) && rank.is_none_or(|rank| rank == *of) && *samples > 0 {
                *slots.entry(end / step * step).or_default() += samples;
            }
        }
        slots.into_iter().collect()
    }
}

fn of_rank(second: u64, rank: u8, samples: u64, seq: u64) -> Record {
    let mut histogram = Histogram::default();
    histogram.record_n(12_000_000, samples);
    let operation = Operation::new("epoch_hook").unwrap();
    let labels = Labels::new([("rank", rank.to_string())]).unwrap();
    let histograms = vec![(Series { operation, labels }, histogram)];
    let latency = Latency { histograms, counters: Vec::new(), gauges: Vec::new() };
    let header = Header {
        node: identity().node,
        incarnation: Incarnation(7),
        seq: Seq(seq),
        start: Wall((BEGIN + second - 1) * SECOND),
        length_ns: SECOND,
        totals: Totals { recorded: 1 << 40, ..Totals::default() },
        last: false,
        successor: None,
        labels: Labels::default(),
    };
    let message = encode(&Snapshot { header, body: Body::Latency(latency) });
    Record {
        end: Wall((BEGIN + second) * SECOND),
        length_ns: SECOND,
        kind: SnapshotKind::Latency,
        message: Bytes::from(message),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Through restarts, kills in the middle of a write, clocks that are set and segments of a few
    /// records, whatever is asked for.
    #[test]
    fn answers_equal_a_naive_oracle(acts in prop::collection::vec(acts(), 1..120)) {
        let dir = TempDir::new().unwrap();
        let open = || store(&dir).with_segments_of(2_000);
        let (mut store, mut oracle, mut second) = (Some(open()), Oracle::default(), 400_u64);
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Write { after, rank, samples } => {
                    second = second.saturating_add_signed(after).max(1);
                    let record = of_rank(second, rank, samples, number as u64 + 1);
                    store.as_mut().unwrap().write(&record, Wall(BEGIN * SECOND));
                    oracle.0.push((second, rank, samples));
                }
                Act::Restart => {
                    store = None;
                    store.replace(open());
                }
                Act::Kill { torn } => {
                    store = None;
                    let path = dir.path().join("n1").join("open.segment");
                    if let Ok(metadata) = std::fs::metadata(&path) {
                        let record = of_rank(second, 0, 1, 1).message.len() as u64;
                        let bytes = metadata.len().saturating_sub(torn.min(record));
                        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                        file.set_len(bytes).unwrap();
                        if bytes < metadata.len() && metadata.len() > 8 {
                            oracle.0.pop();
                        }
                    }
                    store.replace(open());
                }
                Act::Ask { from, length, step, rank } => {
                    let labels = rank.map(|rank| ("rank", rank.to_string()));
                    let of = HistoryOf::Latency {
                        operation: Operation::new("epoch_hook").unwrap(),
                        labels: Labels::new(labels).unwrap(),
                    };
                    let range = (from, from + length);
                    let answers = try_ask(store.as_mut().unwrap(), &of, range, step);
                    let Ok(answers) = answers else {
                        // Only a clock that leaps to and fro makes that many of one slot.
                        prop_assert!(segments(&dir).len() > HISTORY_READ_SEGMENTS_MAX);
                        continue;
                    };
                    let mut found: Vec<(u64, u64)> = answers
                        .iter()
                        .flat_map(|answer| &answer.slots)
                        .filter_map(|slot| {
                            let count = slot.samples.as_ref()?.exact().count;
                            Some((slot.begin_ns / SECOND, count))
                        })
                        .collect();
                    found.sort_unstable();
                    let absolute = Oracle(
                        oracle.0.iter().map(|(end, of, n)| (end + BEGIN, *of, *n)).collect(),
                    );
                    let (from, to) = (BEGIN + from, BEGIN + from + length);
                    let range = from / step * step..to.div_ceil(step) * step;
                    prop_assert_eq!(found, absolute.slots(range, step, rank));
                }
            }
        }
    }
}
