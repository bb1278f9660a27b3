//! Drafts of events: merged in order, cut to what one message holds.

use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Seq};
use plimsoll_schemas::limits::wire::{EVENT_TEXT_BYTES_MAX, EVENT_TITLE_BYTES_MAX, LABELS_MAX};
use plimsoll_schemas::subject::{Lane, SnapshotKind, SnapshotSubject};
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::{
    AlertType, EventSource, Events, Header, Snapshot, Totals, decode, encode,
};
use proptest::prelude::*;

use super::super::*;
use crate::core::outbox::draft::events::event_bytes as bytes;
use plimsoll_schemas::limits::wire::EVENTS_MAX;
use plimsoll_schemas::wire::Event;

/// An event whose number is in its title.
pub(crate) fn event(n: u64) -> Event {
    Event {
        source: EventSource::Event,
        title: format!("e{n}"),
        text: String::new(),
        alert_type: AlertType::Info,
        low_priority: false,
        at: Wall(n),
        host: String::new(),
        aggregation_key: String::new(),
        labels: Labels::default(),
    }
}

/// A draft of the events with these numbers.
pub(crate) fn draft(numbers: std::ops::Range<u64>) -> Draft {
    let start = numbers.start;
    let events = numbers.map(event).collect();
    Draft::new(&Body::Event(Events { events }), Wall(1_000 + start), 10, Mono(start))
}

/// The numbers of a draft's events.
pub(crate) fn numbers(draft: &Draft) -> Vec<u64> {
    numbers_in(&draft.decode().unwrap())
}

/// The numbers of a body's events.
pub(crate) fn numbers_in(body: &Body) -> Vec<u64> {
    let Some(events) = body.event() else { panic!("{body:?}") };
    events.events.iter().map(|event| event.at.0).collect()
}

/// As large as an event may be.
fn largest(n: u64) -> Event {
    let name = "n".repeat(EVENT_TITLE_BYTES_MAX);
    let label = |n: usize| (format!("{n:0>64}"), "v".repeat(128));
    Event {
        source: EventSource::ServiceCheck,
        title: name.clone(),
        text: "t".repeat(EVENT_TEXT_BYTES_MAX),
        alert_type: AlertType::Warning,
        low_priority: true,
        at: Wall(u64::MAX / 2 - 1 - n),
        host: name.clone(),
        aggregation_key: name,
        labels: Labels::new((0..LABELS_MAX).map(label)).unwrap(),
    }
}

fn sent(draft: &Draft) -> Vec<u8> {
    let header = Header {
        node: NodeName::new("n").unwrap(),
        incarnation: Incarnation(1),
        seq: Seq(1),
        start: draft.start,
        length_ns: draft.length_ns,
        totals: Totals::default(),
        last: false,
        successor: None,
        labels: Labels::default(),
    };
    encode(&Snapshot { header, body: draft.decode().unwrap() })
}

fn is_readable(bytes: &[u8]) -> bool {
    let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n").unwrap());
    decode(&SnapshotSubject { mesh, lane: Lane::Normal, node, kind: SnapshotKind::Event }, bytes)
        .is_ok()
}

#[test]
fn joined_events_stand_in_their_order_and_the_span_covers_both() {
    let mut newer = draft(5..7);
    assert_eq!(newer.prepend_events(&draft(1..4)), 0);
    assert_eq!(numbers(&newer), [1, 2, 3, 5, 6]);
    assert_eq!((newer.start, newer.length_ns), (Wall(1_001), 14));
    assert_eq!((newer.enqueued, newer.latest, newer.events()), (Mono(1), Mono(5), 5));
}

#[test]
fn of_too_many_events_the_newest_are_kept_and_the_others_counted() {
    let max = EVENTS_MAX as u64;
    let mut newer = draft(100..100 + max);
    assert_eq!(newer.prepend_events(&draft(0..100)), 100);
    assert_eq!(numbers(&newer), (100..100 + max).collect::<Vec<_>>());
    assert_eq!(draft(200..201).prepend_events(&draft(0..max - 1)), 0);
}

#[test]
fn events_more_than_a_day_apart_still_make_a_message_that_is_read() {
    let mut newer = draft(5..6);
    newer.start = Wall(3 * INTERVAL_NS_MAX);
    assert_eq!(newer.prepend_events(&draft(1..2)), 0);
    assert_eq!((newer.start, newer.length_ns), (Wall(2 * INTERVAL_NS_MAX + 10), INTERVAL_NS_MAX));
    assert!(is_readable(&sent(&newer)));
}

proptest! {
    #[test]
    fn queued_content_fits_one_message_and_its_stated_size(
        sizes in prop::collection::vec(any::<bool>(), 0..400),
    ) {
        let of_size = |(n, is_large)| if is_large { largest(n) } else { event(n) };
        let events: Vec<Event> = (0..).zip(sizes).map(of_size).collect();
        let (kept, dropped) = newest(events.clone());
        let dropped = usize::try_from(dropped).unwrap();
        prop_assert_eq!(&kept[..], &events[dropped..]);
        let all = events[dropped.saturating_sub(1)..].iter().map(bytes).sum::<usize>();
        let more_fits = events.len() - dropped < EVENTS_MAX && all <= COALESCED_BYTES_MAX;
        prop_assert!(dropped == 0 || !more_fits, "{} dropped", dropped);
        let draft = Draft::new(&Body::Event(Events { events: kept }), Wall(1), 1, Mono(1));
        let bound = draft.bytes();
        let bytes = sent(&draft);
        prop_assert!(bytes.len() <= bound, "{} of {bound} bytes", bytes.len());
        prop_assert!(is_readable(&bytes));
    }
}

#[test]
fn events_are_divided_in_order_to_what_one_message_may_take() {
    let whole = draft(0..50).standing_for(3);
    let parts = whole.clone().split_at(1_000);
    assert!(parts.len() > 5 && parts.iter().all(|part| part.body.len() <= 1_000));
    let all: Vec<u64> = parts.iter().flat_map(numbers).collect();
    assert_eq!(all, (0..50).collect::<Vec<_>>());
    assert_eq!(parts.iter().map(Draft::events).sum::<u64>(), 50);
    assert_eq!(parts.iter().map(|part| part.produced).sum::<u64>(), 3);
    assert_eq!(whole.clone().split_at(1).len(), 50, "each is sent all the same");
}
