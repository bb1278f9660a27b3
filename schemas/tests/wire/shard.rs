//! A shard's report as its reader meets it.

use std::collections::BTreeMap;

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Operation, Seq, Series};
use plimsoll_schemas::limits::wire::SHARD_SLOTS_MAX;
use plimsoll_schemas::subject::{Lane, SnapshotKind, SnapshotSubject};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{
    Body, Header, Latency, ReadPosition, ShardReport, ShardSlot, Snapshot, Totals, WireError,
    decode, encode,
};
use proptest::prelude::*;

fn subject() -> SnapshotSubject {
    SnapshotSubject {
        mesh: MeshName::new("m-all").unwrap(),
        lane: Lane::Normal,
        node: NodeName::new("shard-2").unwrap(),
        kind: SnapshotKind::Shard,
    }
}

fn slot(second: u64, rack: &str, values: std::ops::Range<u64>) -> ShardSlot {
    let mut samples = Histogram::default();
    values.for_each(|value| samples.record(value * 1_000));
    let series = Series::plain(Operation::new("epoch_hook").unwrap());
    ShardSlot {
        taken: Wall(second * 1_000_000_000 + 500_000_000),
        labels: Labels::new([("rack", rack)]).unwrap(),
        latency: Latency { histograms: vec![(series, samples)], ..Latency::default() },
    }
}

fn position(lane: Lane, stream_id: &str) -> ReadPosition {
    ReadPosition { lane, stream_id: stream_id.to_owned(), seq: 77 }
}

fn report() -> ShardReport {
    ShardReport {
        read: vec![
            position(Lane::Emergency, "2026-11-26T00:00:00Z"),
            position(Lane::Normal, "2026-11-26T00:00:01.5Z"),
        ],
        slots: vec![slot(1_700_000_000, "r1", 1..40), slot(1_700_000_001, "r2", 9..90)],
    }
}

fn snapshot(report: ShardReport) -> Snapshot {
    let header = Header {
        node: NodeName::new("shard-2").unwrap(),
        incarnation: Incarnation(7),
        seq: Seq(3),
        start: Wall(1_700_000_001_000_000_000),
        length_ns: 1_000_000_000,
        totals: Totals { recorded: 1_000, lost: BTreeMap::new() },
        last: false,
        successor: None,
        labels: Labels::default(),
    };
    Snapshot { header, body: Body::Shard(report) }
}

#[test]
fn a_shards_report_comes_back_as_it_was() {
    let sent = snapshot(report());
    let read = decode(&subject(), &encode(&sent)).unwrap();
    assert_eq!(read, sent);
    assert_eq!(read.body.samples(), 39 + 81);
    let other = SnapshotSubject { kind: SnapshotKind::Interval, ..subject() };
    assert!(matches!(decode(&other, &encode(&sent)), Err(WireError::Kind { .. })));
}

#[test]
fn positions_and_slots_beyond_their_bounds_are_refused() {
    let refused = |report: ShardReport| match decode(&subject(), &encode(&snapshot(report))) {
        Err(WireError::Bounds { field }) => field,
        other => panic!("{other:?}"),
    };
    let twice = vec![position(Lane::Normal, "a"), position(Lane::Normal, "b")];
    assert_eq!(refused(ShardReport { read: twice, ..report() }), "read");
    for name in ["x".repeat(65), "with a blank".to_owned()] {
        let read = vec![position(Lane::Normal, &name)];
        assert_eq!(refused(ShardReport { read, ..report() }), "read");
    }
    let late = ShardSlot { taken: Wall(u64::MAX - 1), ..slot(1, "r", 1..2) };
    assert_eq!(refused(ShardReport { slots: vec![late], ..report() }), "slots");
    let empty = |second| ShardSlot { latency: Latency::default(), ..slot(second, "r", 1..2) };
    let slots = (0..=SHARD_SLOTS_MAX as u64).map(empty).collect();
    assert_eq!(refused(ShardReport { slots, ..report() }), "slots");
    // More samples than its totals have.
    let mut few = snapshot(report());
    few.header.totals.recorded = 119;
    let read = decode(&subject(), &encode(&few));
    assert_eq!(read, Err(WireError::Bounds { field: "recorded" }));
}

proptest! {
    #[test]
    fn a_damaged_report_never_panics(at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let mut bytes = encode(&snapshot(report()));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _: Result<_, _> = decode(&subject(), &bytes);
        let cut = cut.index(bytes.len());
        prop_assert!(decode(&subject(), &bytes[..cut]).is_err());
    }
}
