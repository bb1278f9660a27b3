//! The wire as a reader meets it: what was written comes back, and nothing hostile gets in.

use std::collections::BTreeMap;

use plimsoll_schemas::hardware::{self, MissingReading, Reading, SensorState};
use plimsoll_schemas::histogram::{Histogram, Over};
use plimsoll_schemas::ids::{
    Incarnation, Labels, LossReason, MeshName, NodeName, Operation, Seq, Series,
};
use plimsoll_schemas::limits::wire::{MESSAGE_BYTES_MAX, SERIES_MAX, VERSION_BYTES_MAX};
use plimsoll_schemas::subject::{Lane, SnapshotKind, SnapshotSubject};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{
    Body, Bus, Events, Hardware, Header, Interval, Latency, Snapshot, Totals, WireError, decode,
    decode_packed, encode,
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

fn subject(kind: SnapshotKind) -> SnapshotSubject {
    SnapshotSubject {
        mesh: MeshName::new("m").unwrap(),
        lane: Lane::Normal,
        node: NodeName::new("n1").unwrap(),
        kind,
    }
}

fn header() -> Header {
    Header {
        node: NodeName::new("n1").unwrap(),
        incarnation: Incarnation(7),
        seq: Seq(3),
        start: Wall(1_700_000_000_000_000_000),
        length_ns: 1_000_000_000,
        totals: Totals {
            recorded: 1_000,
            lost: BTreeMap::from([(LossReason::new("outbox_full").unwrap(), 5)]),
        },
        last: false,
        successor: None,
        labels: Labels::default(),
    }
}

fn series(name: &str) -> Series {
    Series {
        operation: Operation::new(name).unwrap(),
        labels: Labels::new([("outcome", "hit")]).unwrap(),
    }
}

fn latency() -> Snapshot {
    let mut histogram = Histogram::default();
    (1..=400_u64).for_each(|ms| histogram.record(ms * 100_000));
    let body = Body::Latency(Latency {
        histograms: vec![(series("epoch_hook"), histogram)],
        counters: vec![(series("epochs"), 20.0)],
        gauges: vec![(series("loss"), 0.25)],
    });
    Snapshot { header: header(), body }
}

fn bytes_of(snapshot: &Snapshot) -> Vec<u8> {
    encode(snapshot)
}

/// A message as the open map that a foreign or hostile writer could have made.
type Map = BTreeMap<String, Value>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Value {
    Bool(bool),
    Unsigned(u64),
    Float(f64),
    Text(String),
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    List(Vec<Value>),
    Map(Map),
    Nothing,
}

fn changed(snapshot: &Snapshot, path: &[&str], value: Value) -> Vec<u8> {
    let mut map: Map = rmp_serde::from_slice(&bytes_of(snapshot)).unwrap();
    set(&mut map, path, value);
    rmp_serde::to_vec_named(&map).unwrap()
}

fn set(map: &mut Map, path: &[&str], value: Value) {
    let (first, rest) = path.split_first().unwrap();
    if rest.is_empty() {
        map.insert((*first).to_owned(), value);
        return;
    }
    match map.get_mut(*first) {
        Some(Value::Map(inner)) => set(inner, rest, value),
        Some(Value::List(list)) => match list.first_mut() {
            Some(Value::Map(inner)) => set(inner, rest, value),
            other => panic!("{first} holds {other:?}"),
        },
        other => panic!("{first} is {other:?}"),
    }
}

#[test]
fn every_kind_comes_back_as_it_was() {
    let hardware = Body::Hardware(Hardware {
        readings: vec![
            Reading::ok(&hardware::LOAD1, Labels::default(), 0.5),
            Reading::absent(
                &hardware::GPU_POWER_WATTS,
                Labels::new([("gpu", "0")]).unwrap(),
                MissingReading::unsupported("driver"),
            ),
        ],
        set: 3,
        changed: Vec::new(),
    });
    let changed = Hardware { set: 3, changed: vec![(0, 0.75)], ..Hardware::default() };
    let bus = Body::Bus(Bus { attempted: 9, round_trip_ns: Some(70_000), ..Bus::default() });
    let parts = Interval {
        latency: latency().body.latency().cloned(),
        hardware: Some(changed.clone()),
        bus: bus.bus().cloned(),
        event: Some(Events::default()),
    };
    let quiet = Interval { latency: None, event: None, ..parts.clone() };
    let intervals = [parts, quiet, Interval::default()].map(Body::Interval);
    let kinds = [latency().body, hardware, Body::Hardware(changed), bus];
    for body in kinds.into_iter().chain(intervals) {
        let snapshot = Snapshot { header: header(), body };
        assert_eq!(decode(&subject(snapshot.body.kind()), &bytes_of(&snapshot)), Ok(snapshot));
    }
}

#[test]
fn a_sum_beyond_64_bits_comes_back_exact() {
    let mut histogram = Histogram::default();
    histogram.record_n(3_600_000_000_000, 1 << 40);
    let body = Body::Latency(Latency {
        histograms: vec![(series("slow"), histogram)],
        ..Latency::default()
    });
    let totals = Totals { recorded: 1 << 40, lost: BTreeMap::new() };
    let snapshot = Snapshot { header: Header { totals, ..header() }, body };
    assert_eq!(decode(&subject(SnapshotKind::Latency), &bytes_of(&snapshot)), Ok(snapshot));
}

#[test]
fn fields_of_a_later_version_are_skipped() {
    let bytes = changed(&latency(), &["mood"], Value::Text("new".into()));
    assert_eq!(decode(&subject(SnapshotKind::Latency), &bytes), Ok(latency()));
}

#[test]
fn identity_and_version_are_checked() {
    let read = |bytes: &[u8]| decode(&subject(SnapshotKind::Latency), bytes);
    assert_eq!(
        read(&changed(&latency(), &["schema"], Value::Unsigned(2))),
        Err(WireError::Schema(2))
    );
    assert_eq!(
        read(&rmp_serde::to_vec_named(&BTreeMap::from([("schema", 9)])).unwrap()),
        Err(WireError::Schema(9))
    );
    assert!(matches!(
        read(&changed(&latency(), &["node"], Value::Text("n2".into()))),
        Err(WireError::Node { .. })
    ));
    assert!(matches!(
        read(&changed(&latency(), &["kind"], Value::Text("bus".into()))),
        Err(WireError::Kind { .. })
    ));
}

#[test]
fn trailing_bytes_and_oversize_are_refused() {
    let mut bytes = bytes_of(&latency());
    bytes.push(0xc0);
    assert_eq!(decode(&subject(SnapshotKind::Latency), &bytes), Err(WireError::Trailing(1)));
    let huge = vec![0_u8; MESSAGE_BYTES_MAX + 1];
    assert!(matches!(
        decode(&subject(SnapshotKind::Latency), &huge),
        Err(WireError::TooLarge { .. })
    ));
}

fn over(entries: &[(u64, u64, u64)]) -> Value {
    let entry = |(limit, over, uncertain): &(u64, u64, u64)| {
        Value::List([*limit, *over, *uncertain].map(Value::Unsigned).to_vec())
    };
    Value::List(entries.iter().map(entry).collect())
}

#[test]
fn samples_over_limits_come_back_as_they_were_counted() {
    let mut histogram = Histogram::default();
    [1, 18_000_001].into_iter().for_each(|ns| histogram.record(ns));
    histogram.watch(&[18_000_000]);
    (0..9).for_each(|more| histogram.record(17_999_998 + more));
    let sent = Over { over: 6, uncertain: 1 };
    assert_eq!(histogram.over(18_000_000), sent);
    let body = Body::Latency(Latency {
        histograms: vec![(series("epoch_hook"), histogram)],
        ..Latency::default()
    });
    let snapshot = Snapshot { header: header(), body };
    let bytes = bytes_of(&snapshot);
    assert_eq!(decode(&subject(SnapshotKind::Latency), &bytes), Ok(snapshot.clone()));
    let packed = decode_packed(&subject(SnapshotKind::Latency), &bytes).unwrap();
    let Body::Latency(latency) = packed.body else { panic!("{packed:?}") };
    assert_eq!(latency.histograms[0].1.over(18_000_000), sent);
    let without = decode_packed(
        &subject(SnapshotKind::Latency),
        &changed(&snapshot, &["body", "histograms", "over"], over(&[])),
    );
    let Body::Latency(latency) = without.unwrap().body else { panic!("it was a latency") };
    assert_eq!(latency.histograms[0].1.over(18_000_000), Over { over: 0, uncertain: 10 });
}

#[test]
fn every_field_out_of_bounds_is_refused() {
    let first = |field: &'static str| vec!["body", "histograms", field];
    let zero = Value::Unsigned(0);
    let nan = Value::Float(f64::NAN);
    let table: Vec<(Vec<&str>, Value, &str)> = vec![
        (vec!["incarnation"], zero.clone(), "bounds"),
        (vec!["seq"], zero.clone(), "bounds"),
        (vec!["seq"], Value::Unsigned((1 << 53) + 1), "bounds"),
        (vec!["recorded"], Value::Unsigned((1 << 53) + 1), "bounds"),
        (vec!["start_ns"], Value::Unsigned(u64::MAX), "bounds"),
        (vec!["length_ns"], zero.clone(), "bounds"),
        (vec!["length_ns"], Value::Unsigned(u64::MAX), "bounds"),
        (vec!["recorded"], Value::Unsigned(399), "bounds"),
        (vec!["recorded"], Value::Unsigned(4), "bounds"),
        (vec!["lost", "outbox_full"], Value::Unsigned(1_001), "bounds"),
        (vec!["lost", "a reason"], Value::Unsigned(1), "name"),
        (first("operation"), Value::Text("a b".into()), "name"),
        (first("unit"), Value::Text("ms".into()), "bounds"),
        (first("count"), Value::Unsigned(399), "contradiction"),
        (first("min_ns"), zero.clone(), "contradiction"),
        (first("max_ns"), Value::Unsigned(u64::MAX), "contradiction"),
        (first("sum_ns"), zero, "contradiction"),
        (first("hdr"), Value::Bytes(vec![1, 2, 3]), "histogram"),
        (vec!["body", "counters", "value"], nan.clone(), "not_finite"),
        (vec!["body", "gauges", "value"], nan, "not_finite"),
        (vec!["body"], Value::Nothing, "shape"),
        (first("over"), over(&[(18_000_000, 401, 0)]), "contradiction"),
        (first("over"), over(&[(18_000_000, 0, 0)]), "contradiction"),
        (first("over"), over(&[(18_000_000, 220, 2)]), "contradiction"),
        (first("over"), over(&[(18_000_000, u64::MAX, u64::MAX)]), "contradiction"),
        (first("over"), over(&[(0, 400, 0)]), "bounds"),
        (first("over"), over(&[(u64::MAX, 0, 0)]), "bounds"),
        (first("over"), over(&[(18_000_000, 220, 0), (18_000_000, 220, 0)]), "bounds"),
        (first("over"), over(&[1, 2, 3, 4, 5].map(|limit| (limit, 400, 0))), "bounds"),
        (first("over"), Value::Unsigned(1), "shape"),
        (first("over"), Value::List(vec![Value::List(vec![Value::Unsigned(1)])]), "shape"),
        (first("uncertainty"), Value::Unsigned(1), "shape"),
        (first("uncertainty"), Value::Map(Map::new()), "shape"),
        (first("uncertainty"), uncertainty(&[7], &[7]), "contradiction"),
        (first("uncertainty"), uncertainty(&[0x80], &[]), "histogram"),
    ];
    for (path, value, reason) in table {
        let error =
            decode(&subject(SnapshotKind::Latency), &changed(&latency(), &path, value.clone()))
                .expect_err(&format!("{path:?} = {value:?} was accepted"));
        assert_eq!(error.reason(), reason, "{path:?} = {value:?}: {error}");
    }
}

fn uncertainty(low: &[u8], high: &[u8]) -> Value {
    let rows = [("low", low), ("high", high)];
    let rows = rows.map(|(name, row)| (name.to_owned(), Value::Bytes(row.to_vec())));
    let sum = ("sum_ns".to_owned(), Value::Unsigned(1));
    Value::Map(rows.into_iter().chain([sum]).collect())
}

#[test]
fn what_wide_buckets_leave_open_comes_back() {
    let mut histogram = Histogram::default();
    histogram.watch(&[18_000_000]);
    histogram.record(7_000_000);
    histogram.record_within(10_000_000, 25_000_000, 90);
    histogram.record_within(25_000_000, 50_000_000, 10);
    histogram.state_sum(100 * 12_000_000);
    let latency = Latency {
        histograms: vec![(series("epoch_hook"), histogram.clone())],
        ..Latency::default()
    };
    let bytes = bytes_of(&Snapshot { header: header(), body: Body::Latency(latency) });
    let Body::Latency(read) = decode(&subject(SnapshotKind::Latency), &bytes).unwrap().body else {
        panic!("it is another body");
    };
    assert_eq!(read.histograms, [(series("epoch_hook"), histogram.clone())]);
    assert_eq!(histogram.over(18_000_000), Over { over: 10, uncertain: 90 });
    assert_eq!(histogram.sum_ns(), 1_200_000_000);
}

#[test]
fn a_version_is_plain_text_of_a_bounded_length() {
    let read = |version: String| {
        let body = Body::Bus(Bus { version: version.into(), ..Bus::default() });
        let bytes = bytes_of(&Snapshot { header: header(), body });
        let read = decode(&subject(SnapshotKind::Bus), &bytes)?;
        let Body::Bus(bus) = read.body else { panic!("it is another body") };
        Ok(bus.version.into_string())
    };
    for version in ["", "0.1.0", "2.0.0-rc.1+g1234abc", &"9".repeat(VERSION_BYTES_MAX)] {
        assert_eq!(read(version.to_owned()), Ok(version.to_owned()));
    }
    for version in ["0.1\n", "0 1", "ß", &"9".repeat(VERSION_BYTES_MAX + 1)] {
        let refused = Err(WireError::Bounds { field: "version" });
        assert_eq!(read(version.to_owned()), refused, "{version:?}");
    }
}

#[test]
fn a_successor_sends_final_messages_only() {
    let read = |last, successor| {
        let header = Header { last, successor, ..header() };
        let bytes = bytes_of(&Snapshot { header, ..latency() });
        decode(&subject(SnapshotKind::Latency), &bytes).map(|read| read.header.successor)
    };
    let refused = Err(WireError::Bounds { field: "successor" });

    assert_eq!(read(true, Some(Incarnation(8))), Ok(Some(Incarnation(8))));
    assert_eq!(read(false, Some(Incarnation(8))), refused);
    assert_eq!(read(true, Some(Incarnation(7))), refused, "its own");
    assert_eq!(read(true, Some(Incarnation(0))), refused);
}

#[test]
fn readings_that_contradict_their_state_are_refused() {
    let mut reading = Reading::ok(&hardware::LOAD1, Labels::default(), 0.5);
    reading.state = SensorState::Stale;
    let body = Body::Hardware(Hardware::all(vec![reading]));
    let bytes = bytes_of(&Snapshot { header: header(), body });
    assert_eq!(
        decode(&subject(SnapshotKind::Hardware), &bytes),
        Err(WireError::Bounds { field: "reading" })
    );
}

#[test]
fn an_unknown_field_may_not_nest_without_end() {
    let nested = |levels: usize| {
        let value = (0..levels).fold(Value::Nothing, |inner, _| Value::List(vec![inner]));
        decode(&subject(SnapshotKind::Latency), &changed(&latency(), &["mood"], value))
    };
    assert_eq!(nested(20), Ok(latency()));
    assert!(matches!(nested(500), Err(WireError::Shape(_))));
}

#[test]
fn a_series_may_stand_only_once() {
    let twice = Latency {
        counters: vec![(series("epochs"), 1.0), (series("epochs"), 2.0)],
        ..Latency::default()
    };
    let bytes = bytes_of(&Snapshot { header: header(), body: Body::Latency(twice) });
    assert!(matches!(
        decode(&subject(SnapshotKind::Latency), &bytes),
        Err(WireError::DuplicateSeries(_))
    ));
}

#[test]
fn more_series_than_the_bound_are_refused() {
    let counters = (0..=SERIES_MAX).map(|i| (series(&format!("c{i}")), 1.0)).collect();
    let body = Body::Latency(Latency { counters, ..Latency::default() });
    let bytes = bytes_of(&Snapshot { header: header(), body });
    assert_eq!(
        decode(&subject(SnapshotKind::Latency), &bytes),
        Err(WireError::Bounds { field: "series" })
    );
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for kind in SnapshotKind::ALL {
            prop_assert!(decode(&subject(kind), &bytes).is_err());
        }
    }

    #[test]
    fn a_damaged_message_never_panics(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = bytes_of(&latency());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _: Result<_, _> = decode(&subject(SnapshotKind::Latency), &bytes);
        let cut = cut.index(bytes.len());
        prop_assert!(decode(&subject(SnapshotKind::Latency), &bytes[..cut]).is_err());
    }
}
