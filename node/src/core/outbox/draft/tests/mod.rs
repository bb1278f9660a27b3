//! Merged drafts: no sample is lost, and the encoded message stays within the byte estimate.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::{Incarnation, NodeName, Operation, Seq, Series};
use plimsoll_schemas::wire::{Hardware, Header, Latency, Snapshot, Totals, encode};
use proptest::prelude::*;

use super::*;
use plimsoll_schemas::histogram::Histogram;

pub(crate) mod events;

fn series(name: &str) -> Series {
    Series::plain(Operation::new(name).unwrap())
}

fn watching() -> Histogram {
    let mut histogram = Histogram::default();
    histogram.watch(&[1, 2, 3, 4].map(|n| 20_000_000 * n));
    histogram
}

fn draft(start: u64, length_ns: u64, values: &[(u8, u64)], number: f64) -> Draft {
    let mut histograms: BTreeMap<Series, Histogram> = BTreeMap::new();
    for (name, value) in values {
        histograms.entry(series(&format!("h{name}"))).or_insert_with(watching).record(*value);
    }
    let latency = Latency {
        histograms: histograms.into_iter().collect(),
        counters: vec![(series("c"), number)],
        gauges: vec![(series("g"), number)],
    };
    Draft::new(&Body::Latency(latency), Wall(start), length_ns, Mono(start))
}

fn latency(draft: &Draft) -> Latency {
    draft.decode().unwrap().into_parts().latency.unwrap()
}

/// Two drafts as one message.
fn joined(older: &Draft, newer: &Draft) -> Draft {
    let mut joined = Draft::join(&[older, newer]).expect("one message holds both");
    assert_eq!(joined.len(), 1);
    joined.remove(0)
}

#[test]
fn counters_add_up_the_newer_gauge_holds_and_the_span_covers_both() {
    let older = joined(&draft(100, 50, &[(1, 5)], 2.0), &draft(200, 70, &[(1, 9), (2, 7)], 3.0));
    let body = latency(&older);
    assert_eq!((body.counters[0].1, body.gauges[0].1), (5.0, 3.0));
    assert_eq!((older.start, older.length_ns, older.enqueued), (Wall(100), 170, Mono(100)));
    assert_eq!((older.samples(), body.histograms.len()), (3, 2));
    assert_eq!(body.histograms[0].1.max_ns(), 9);
}

#[test]
fn samples_under_other_labels_are_not_mixed() {
    let named = |role| draft(1, 1, &[(1, 5)], 2.0).labelled(Labels::new([role]).unwrap());
    let older = named(("role", "trainer"));
    assert!(Draft::join(&[&older, &named(("role", "server"))]).is_none());
    let both = joined(&older, &named(("role", "trainer")));
    assert_eq!((both.samples(), both.labels.get("role")), (2, Some("trainer")));
}

#[test]
fn a_clock_set_back_yields_the_earliest_start_and_the_latest_end() {
    let older = joined(&draft(1_000, 50, &[], 0.0), &draft(200, 70, &[], 0.0));
    assert_eq!((older.start, older.length_ns), (Wall(200), 850));
}

#[test]
fn what_is_too_long_or_gains_nothing_is_not_merged() {
    let older = draft(1, 50, &[(1, 5)], 2.0);
    assert!(Draft::join(&[&older, &draft(INTERVAL_NS_MAX, 70, &[(1, 6)], 3.0)]).is_none());
    let wide = |first: u8| {
        let values: Vec<_> =
            (0..50_000_u64).map(|n| (first + (n % 20) as u8, n * 1_000_000)).collect();
        draft(1, 50, &values, 0.0)
    };
    let (one, other) = (wide(0), wide(20));
    assert!(Draft::join(&[&one, &other]).is_none(), "no series is in both");
    let both = joined(&one, &one.clone());
    assert_eq!(both.samples(), 100_000, "what is in the same buckets takes no more room");
}

#[test]
fn a_wide_interval_in_parts_is_regrouped_by_series_with_the_next() {
    let name = |n: usize| series(&format!("{n:0>100}"));
    let part = |start: u64, numbers: std::ops::Range<usize>| {
        let histograms = numbers.map(|n| {
            let mut histogram = watching();
            histogram.record(start * n as u64);
            (name(n), histogram)
        });
        let latency = Latency { histograms: histograms.collect(), ..Latency::default() };
        Draft::new(&Body::Latency(latency), Wall(start), 1, Mono(start))
    };
    let parts = [part(1, 0..900), part(1, 900..1_800), part(2, 0..900), part(2, 900..1_800)];
    let joined = Draft::join(&parts.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!((joined.len(), joined.iter().map(Draft::samples).sum::<u64>()), (2, 3_600));
    let bytes = |drafts: &[Draft]| drafts.iter().map(Draft::bytes).sum::<usize>();
    assert!(bytes(&joined) < bytes(&parts) * 6 / 10, "{} {}", bytes(&joined), bytes(&parts));
    assert_eq!(joined.iter().map(|draft| draft.produced).sum::<u64>(), 4);
    assert!(joined.iter().all(|draft| (draft.start, draft.length_ns) == (Wall(1), 2)));
}

#[test]
fn a_message_is_split_for_a_slow_link_and_its_last_part_stands_for_all_of_it() {
    let values: Vec<_> = (0..200).map(|n| (n, 1_000)).collect();
    let whole = draft(1, 50, &values, 2.0).standing_for(7).prioritized(Priority::Critical);
    let parts = whole.clone().split_at(4_096);
    assert!(parts.len() > 10, "{}", parts.len());
    assert!(parts.iter().all(|part| part.body.len() <= 4_096 && part.is_critical()));
    let produced: Vec<u64> = parts.iter().map(|part| part.produced).collect();
    assert_eq!((produced.iter().sum::<u64>(), produced.last()), (7, Some(&7)));
    let all = Draft::join(&parts.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!((all.len(), latency(&all[0])), (1, latency(&whole)));
    assert_eq!(whole.clone().split_at(usize::MAX).len(), 1);
}

#[test]
fn the_bound_on_bytes_holds_for_the_longest_numbers_beside_the_buckets() {
    let limits = [1, 2, 3, 4].map(|n| n * 5_000_000_000);
    let mut histogram = Histogram::default();
    let fill = |histogram: &mut Histogram| {
        limits.iter().for_each(|limit| histogram.record_n(limit + 1, 1 << 33));
    };
    histogram.record(1);
    fill(&mut histogram);
    histogram.watch(&limits);
    fill(&mut histogram);
    let open = [1_000, 1_000_000_000, 1_000_000_000_000];
    open.iter().for_each(|over| histogram.record_within(*over, over + 1_000_000, 1 << 33));
    let histograms = (0..999).map(|n| (series(&format!("h{n}")), histogram.clone())).collect();
    let latency = Latency { histograms, ..Latency::default() };
    let parts = split(latency, 65_536);
    assert!(parts.len() > 1);
    for part in parts {
        let draft = Draft::new(&Body::Latency(part), Wall(1), 1, Mono(1));
        assert!(draft.body.len() <= 65_536, "{} bytes", draft.body.len());
        let (bound, bytes) = encoded(&draft);
        assert!(bytes <= bound, "{bytes} of {bound} bytes");
    }
}

/// The bound on a draft's bytes, and what it takes.
fn encoded(draft: &Draft) -> (usize, usize) {
    let header = Header {
        node: NodeName::new("n").unwrap(),
        incarnation: Incarnation(1),
        seq: Seq(1),
        start: draft.start,
        length_ns: draft.length_ns,
        totals: Totals::default(),
        last: false,
        successor: None,
        labels: draft.labels.clone(),
    };
    let bound = draft.bytes();
    (bound, encode(&Snapshot { header, body: draft.decode().unwrap() }).len())
}

proptest! {
    #[test]
    fn merging_equals_recording_together_and_the_bound_on_bytes_holds(
        one in prop::collection::vec((0..4_u8, 0..40_000_000_u64), 0..60),
        two in prop::collection::vec((0..4_u8, 0..40_000_000_u64), 0..60),
    ) {
        let named = Labels::new([("role", "trainer".repeat(16)), ("rack", "r7".into())]);
        let named = named.unwrap();
        let older = draft(1, 1, &one, 1.0).labelled(named.clone());
        let joined = joined(&older, &draft(2, 1, &two, 1.0).labelled(named));
        let both = draft(1, 2, &[one, two].concat(), 2.0);
        prop_assert_eq!(&latency(&joined).histograms, &latency(&both).histograms);
        prop_assert_eq!(joined.samples(), both.samples());
        let (bound, bytes) = encoded(&joined);
        prop_assert!(bytes <= bound, "{bytes} of {bound} bytes");
    }
}

#[test]
fn changes_that_supersede_their_set_become_it() {
    use plimsoll_schemas::hardware::{LOAD1, LOAD5, Reading};
    let all = |values: [f64; 2]| {
        let both = [&LOAD1, &LOAD5].into_iter().zip(values);
        let readings = both.map(|(sensor, value)| Reading::ok(sensor, Labels::default(), value));
        Hardware { readings: readings.collect(), set: 2, changed: Vec::new() }
    };
    let changes = |set, changed: &[(u32, f64)]| Hardware {
        readings: Vec::new(),
        set,
        changed: changed.to_vec(),
    };
    let draft = |hardware| Draft::new(&Body::Hardware(hardware), Wall(1), 1, Mono(1));
    let after = |older, newer| {
        let mut draft_of_newer = draft(newer);
        draft_of_newer.supersede(&draft(older));
        draft_of_newer.decode().unwrap().into_parts().hardware.unwrap()
    };
    assert_eq!(after(all([1.0, 5.0]), changes(2, &[(1, 6.0)])), all([1.0, 6.0]));
    let newest = changes(2, &[(0, 3.0), (1, 6.0)]);
    assert_eq!(after(changes(2, &[(1, 6.0)]), newest.clone()), newest);
    let of_later_set = changes(3, &[(0, 9.0)]);
    assert_eq!(after(all([1.0, 5.0]), of_later_set.clone()), of_later_set);
    assert_eq!(after(changes(1, &[]), all([1.0, 5.0])), all([1.0, 5.0]));
}
