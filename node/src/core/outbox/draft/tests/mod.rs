//! Merged drafts: no sample is lost, and the encoded message stays within the byte estimate.

use plimsoll_schemas::ids::{Incarnation, NodeName, Operation, Seq};
use plimsoll_schemas::wire::{Header, Snapshot, Totals, encode};
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
    Draft::new(Body::Latency(latency), Wall(start), length_ns, Mono(start))
}

fn latency(draft: &Draft) -> &Latency {
    let Body::Latency(latency) = &draft.body else { panic!("{draft:?}") };
    latency
}

#[test]
fn counters_add_up_the_newer_gauge_holds_and_the_span_covers_both() {
    let mut older = draft(100, 50, &[(1, 5)], 2.0);
    older.try_join(draft(200, 70, &[(1, 9), (2, 7)], 3.0)).unwrap();
    let body = latency(&older);
    assert_eq!((body.counters[0].1, body.gauges[0].1), (5.0, 3.0));
    assert_eq!((older.start, older.length_ns, older.enqueued), (Wall(100), 170, Mono(100)));
    assert_eq!((older.samples(), body.histograms.len()), (3, 2));
    assert_eq!(body.histograms[0].1.max_ns(), 9);
}

#[test]
fn samples_under_other_labels_are_not_mixed() {
    let named = |role| draft(1, 1, &[(1, 5)], 2.0).labelled(Labels::new([role]).unwrap());
    let mut older = named(("role", "trainer"));
    let back = older.try_join(named(("role", "server"))).unwrap_err();
    assert_eq!((older.samples(), back.samples(), back.labels.get("role")), (1, 1, Some("server")));
    older.try_join(named(("role", "trainer"))).unwrap();
    assert_eq!((older.samples(), older.labels.get("role")), (2, Some("trainer")));
}

#[test]
fn a_clock_set_back_yields_the_earliest_start_and_the_latest_end() {
    let mut older = draft(1_000, 50, &[], 0.0);
    older.try_join(draft(200, 70, &[], 0.0)).unwrap();
    assert_eq!((older.start, older.length_ns), (Wall(200), 850));
}

#[test]
fn what_no_message_can_hold_is_returned_whole() {
    let mut older = draft(1, 50, &[(1, 5)], 2.0);
    let back = older.try_join(draft(INTERVAL_NS_MAX, 70, &[(1, 6)], 3.0)).unwrap_err();
    assert_eq!((older.samples(), older.length_ns, back.samples()), (1, 50, 1));
    let wide = |step: u64| {
        let values: Vec<_> = (0..50_000_u64).map(|n| ((n % 20) as u8, n * step)).collect();
        draft(1, 50, &values, 0.0)
    };
    let mut older = wide(1_000);
    let before = older.clone();
    let back = older.try_join(wide(1_000_000)).unwrap_err();
    assert_eq!(latency(&older), latency(&before));
    assert_eq!(latency(&back), latency(&wide(1_000_000)));
    older.try_join(before).expect("what is in the same buckets takes no more room");
    assert_eq!(older.samples(), 100_000);
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
    let draft = Draft::new(Body::Latency(latency), Wall(1), 1, Mono(1));
    let bound = size::HEADER_BYTES + draft.size.wire_bytes;
    let (_, bytes) = encoded(draft);
    assert!(bytes <= bound, "{bytes} of {bound} bytes");
}

/// The bound on a draft's bytes, and what it takes.
fn encoded(draft: Draft) -> (usize, usize) {
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
    (bound, encode(&Snapshot { header, body: draft.body }).len())
}

proptest! {
    #[test]
    fn merging_equals_recording_together_and_the_bound_on_bytes_holds(
        one in prop::collection::vec((0..4_u8, 0..40_000_000_u64), 0..60),
        two in prop::collection::vec((0..4_u8, 0..40_000_000_u64), 0..60),
    ) {
        let named = Labels::new([("role", "trainer".repeat(16)), ("rack", "r7".into())]);
        let named = named.unwrap();
        let mut joined = draft(1, 1, &one, 1.0).labelled(named.clone());
        joined.try_join(draft(2, 1, &two, 1.0).labelled(named)).unwrap();
        let both = draft(1, 2, &[one, two].concat(), 2.0);
        prop_assert_eq!(&latency(&joined).histograms, &latency(&both).histograms);
        prop_assert_eq!(joined.samples(), both.samples());
        let (bound, bytes) = encoded(joined);
        prop_assert!(bytes <= bound, "{bytes} of {bound} bytes");
    }
}
