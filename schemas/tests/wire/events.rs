//! Event bodies as a reader meets them: what was written comes back, every bound holds, and
//! nothing hostile gets in.

use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Seq};
use plimsoll_schemas::limits::wire::{
    EVENT_TEXT_BYTES_MAX, EVENT_TITLE_BYTES_MAX, EVENTS_MAX, LABELS_MAX,
};
use plimsoll_schemas::subject::{Lane, SnapshotKind, SnapshotSubject};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{
    AlertType, Body, Event, EventSource, Events, Header, Snapshot, Totals, WireError, decode,
    encode,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn subject() -> SnapshotSubject {
    SnapshotSubject {
        mesh: MeshName::new("m").unwrap(),
        lane: Lane::Normal,
        node: NodeName::new("n1").unwrap(),
        kind: SnapshotKind::Event,
    }
}

fn snapshot(events: Vec<Event>) -> Snapshot {
    let header = Header {
        node: NodeName::new("n1").unwrap(),
        incarnation: Incarnation(7),
        seq: Seq(3),
        start: Wall(1_700_000_000_000_000_000),
        length_ns: 1_000_000_000,
        totals: Totals::default(),
        last: false,
        successor: None,
        labels: Labels::default(),
    };
    Snapshot { header, body: Body::Event(Events { events }) }
}

fn event() -> Event {
    Event {
        source: EventSource::Event,
        title: "checkpoint".to_owned(),
        text: "saved to\n\"disk\" \u{1f6a2}".to_owned(),
        alert_type: AlertType::Success,
        low_priority: true,
        at: Wall(1_700_000_000_500_000_000),
        host: "rack7".to_owned(),
        aggregation_key: "run-9".to_owned(),
        labels: Labels::new([("job", "train")]).unwrap(),
    }
}

/// A check with nothing but what must be there.
fn check() -> Event {
    Event {
        source: EventSource::ServiceCheck,
        title: "db".to_owned(),
        text: String::new(),
        alert_type: AlertType::Info,
        low_priority: false,
        at: Wall(1),
        host: String::new(),
        aggregation_key: String::new(),
        labels: Labels::default(),
    }
}

fn read(events: Vec<Event>) -> Result<Snapshot, WireError> {
    decode(&subject(), &encode(&snapshot(events)))
}

/// A message whose one event has another value in `field`, as a foreign writer could make it.
fn with(field: &str, value: Value) -> Vec<u8> {
    let mut message: Value = rmp_serde::from_slice(&encode(&snapshot(vec![event()]))).unwrap();
    message["body"]["events"][0][field] = value;
    rmp_serde::to_vec_named(&message).unwrap()
}

#[test]
fn events_and_checks_come_back_as_they_were_in_their_order() {
    let events = vec![event(), check(), event()];
    assert_eq!(read(events.clone()), Ok(snapshot(events)));
    assert_eq!(read(Vec::new()), Ok(snapshot(Vec::new())));
}

#[test]
fn what_is_empty_takes_no_bytes() {
    let message: Value = rmp_serde::from_slice(&encode(&snapshot(vec![check()]))).unwrap();
    let stated = json!({"source": "service_check", "title": "db", "alert_type": "info", "at": 1});
    assert_eq!(message["body"]["events"][0], stated);
}

#[test]
fn an_event_as_large_as_one_may_be_is_read() {
    let name = "n".repeat(EVENT_TITLE_BYTES_MAX);
    let labels = (0..LABELS_MAX).map(|n| (format!("l{n}"), "v".repeat(128)));
    let largest = Event {
        title: name.clone(),
        text: "t".repeat(EVENT_TEXT_BYTES_MAX),
        host: name.clone(),
        aggregation_key: name,
        at: Wall(u64::MAX / 2 - 1),
        labels: Labels::new(labels).unwrap(),
        ..event()
    };
    assert_eq!(read(vec![largest.clone()]), Ok(snapshot(vec![largest])));
    let many = vec![check(); EVENTS_MAX];
    assert_eq!(read(many.clone()), Ok(snapshot(many)));
}

#[test]
fn every_bound_is_refused_with_its_reason() {
    let long = |bytes: usize| json!("x".repeat(bytes + 1));
    let table = [
        ("title", json!(""), "bounds"),
        ("title", long(EVENT_TITLE_BYTES_MAX), "bounds"),
        ("text", long(EVENT_TEXT_BYTES_MAX), "bounds"),
        ("host", long(EVENT_TITLE_BYTES_MAX), "bounds"),
        ("aggregation_key", long(EVENT_TITLE_BYTES_MAX), "bounds"),
        ("at", json!(u64::MAX / 2), "bounds"),
        ("at", json!(-1), "shape"),
        ("title", Value::Null, "shape"),
        ("source", json!("rumour"), "shape"),
        ("alert_type", json!("fatal"), "shape"),
        ("labels", json!({"a key": "v"}), "shape"),
        ("labels", json!({"k": "v\u{7}"}), "shape"),
        ("low_priority", json!(1), "shape"),
    ];
    for (field, value, reason) in table {
        let error = decode(&subject(), &with(field, value.clone()))
            .expect_err(&format!("{field} = {value} was accepted"));
        assert_eq!(error.reason(), reason, "{field} = {value}: {error}");
    }
    let too_many = read(vec![check(); EVENTS_MAX + 1]);
    assert_eq!(too_many, Err(WireError::Bounds { field: "events" }));
}

#[test]
fn fields_of_a_later_version_are_skipped_and_another_kind_is_refused() {
    let later = with("mood", json!({"deep": [1, 2.5, null]}));
    assert_eq!(decode(&subject(), &later), Ok(snapshot(vec![event()])));
    let bus = SnapshotSubject { kind: SnapshotKind::Bus, ..subject() };
    let read = decode(&bus, &encode(&snapshot(vec![event()])));
    assert!(matches!(read, Err(WireError::Kind { .. } | WireError::Shape(_))), "{read:?}");
}

#[test]
fn a_list_that_claims_to_be_longer_than_the_message_is_refused() {
    let bytes = encode(&snapshot(Vec::new()));
    let (empty, list) = ([0x90], [0xdd, 0xff, 0xff, 0xff, 0xff]);
    let before = bytes.strip_suffix(&empty).expect("the body's list stands last");
    let read = decode(&subject(), &[before, &list].concat());
    assert!(matches!(read, Err(WireError::Shape(_))), "{read:?}");
}

proptest! {
    #[test]
    fn any_event_within_the_bounds_comes_back(
        title in "\\PC{1,60}", text in "[\\PC\n]{0,200}", host in "\\PC{0,60}",
        at in 0..u64::MAX / 2, is_check in any::<bool>(), how_bad in 0..AlertType::ALL.len(),
    ) {
        let source = if is_check { EventSource::ServiceCheck } else { EventSource::Event };
        let alert_type = AlertType::ALL[how_bad];
        let got = Event { source, title, text, host, at: Wall(at), alert_type, ..event() };
        prop_assert_eq!(read(vec![got.clone()]), Ok(snapshot(vec![got])));
    }

    #[test]
    fn a_damaged_event_never_panics(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encode(&snapshot(vec![event(), check()]));
        let cut = cut.index(bytes.len());
        prop_assert!(decode(&subject(), &bytes[..cut]).is_err());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = decode(&subject(), &bytes) {
            prop_assert_eq!(decode(&subject(), &encode(&read)), Ok(read));
        }
    }
}
