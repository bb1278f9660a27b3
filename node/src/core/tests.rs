//! The core as its driver uses it: datagrams in, messages out, the ledger always exact.

use plimsoll_schemas::ids::LossReason;
use plimsoll_schemas::subject::SnapshotSubject;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{self, Body, Snapshot};
use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn start() -> Now {
    Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) }
}

fn core(bounds: Bounds) -> Core {
    let identity =
        Identity { mesh: MeshName::new("m").unwrap(), node: NodeName::new("n").unwrap() };
    Core::new(identity, bounds, start())
}

/// Takes everything that may be sent and acknowledges it at once.
fn deliver(core: &mut Core, now: Now) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    while let Some(publish) = core.next_publish(now) {
        let subject: SnapshotSubject = publish.subject.parse().unwrap();
        snapshots.push(wire::decode(&subject, &publish.payload).unwrap());
        core.on_signal(now, Signal::Acknowledged(publish.seq));
    }
    snapshots
}

fn samples(snapshots: &[Snapshot]) -> u64 {
    snapshots.iter().map(|snapshot| snapshot.body.samples()).sum()
}

#[test]
fn an_interval_becomes_a_latency_and_a_bus_message() {
    let mut core = core(Bounds::default());
    core.on_signal(start(), Signal::Connected);
    core.on_datagram(b"epoch_hook:1.5|ms\nepoch_hook:2:3|ms|#a:b\nepochs:1|c\n");
    let now = start().after(SECOND);
    core.on_deadline(now);
    let snapshots = deliver(&mut core, now);
    let [latency, bus] = &snapshots[..] else { panic!("{snapshots:?}") };
    let Body::Latency(body) = &latency.body else { panic!("{latency:?}") };
    assert_eq!(body.histograms.len(), 2);
    assert_eq!(body.counters[0].1, 1.0);
    assert_eq!((latency.header.seq, bus.header.seq), (Seq(1), Seq(2)));
    assert_eq!(latency.header.totals.recorded, 3);
    assert_eq!(latency.header.length_ns, 1_000_000_000);
    assert_eq!(latency.header.start, start().wall);
    assert!(matches!(bus.body, Body::Bus(_)));
}

#[test]
fn the_way_to_the_broker_is_recorded_as_publish() {
    let mut core = core(Bounds::default());
    core.on_deadline(start().after(SECOND));
    core.on_signal(start(), Signal::Connected);
    let late = start().after(SECOND + Duration::from_millis(30));
    assert_eq!(deliver(&mut core, late).len(), 1);
    let next = start().after(2 * SECOND);
    core.on_deadline(next);
    let snapshots = deliver(&mut core, next);
    let Body::Latency(body) = &snapshots[0].body else { panic!("{snapshots:?}") };
    assert_eq!(body.histograms[0].0.operation.as_str(), "publish");
    assert_eq!(body.histograms[0].1.max_ns(), 30_000_000);
}

#[test]
fn a_bad_line_costs_itself_alone_and_is_counted_by_reason() {
    let mut core = core(Bounds::default());
    core.on_datagram(b"a:1|ms\nnonsense\nb:x|ms\nc:-1|ms\nd:1|ms\n\n");
    let status = core.status();
    assert_eq!(status.intake.samples, 2);
    let expected = BTreeMap::from([(Reject::Shape, 1), (Reject::Number, 1), (Reject::Negative, 1)]);
    assert_eq!(status.intake.rejected, expected);
}

#[test]
fn a_hundred_thousand_names_stay_bounded_and_counted() {
    let mut core = core(Bounds::default());
    for name in 0..100_000 {
        core.on_datagram(format!("op{name}:1|ms").as_bytes());
    }
    assert_eq!(core.status().series, limits::SERIES_MAX + 1);
    assert_eq!(core.status().intake.overflowed, 100_000 - limits::SERIES_MAX as u64);
    core.on_signal(start(), Signal::Connected);
    let now = start().after(SECOND);
    core.on_deadline(now);
    assert_eq!(samples(&deliver(&mut core, now)), 100_000);
}

#[test]
fn a_large_interval_is_split_into_messages_that_a_reader_accepts() {
    let mut core = core(Bounds::default());
    for operation in 0..40 {
        for step in 0..3_000 {
            core.on_datagram(format!("op{operation}:{}|ms", 1 + step * 7).as_bytes());
        }
    }
    core.on_signal(start(), Signal::Connected);
    let now = start().after(SECOND);
    core.on_deadline(now);
    let snapshots = deliver(&mut core, now);
    assert!(snapshots.len() > 3, "{} messages", snapshots.len());
    assert_eq!(samples(&snapshots), 120_000);
    let last = &snapshots[snapshots.len() - 1].header;
    assert_eq!((last.totals.recorded, last.seq.0), (120_000, snapshots.len() as u64));
}

#[test]
fn what_a_full_outbox_cannot_take_is_lost_by_name_and_leaves_no_hole() {
    let mut core = core(Bounds { outbox_messages_max: 2, ..Bounds::default() });
    for second in 1..=3_u32 {
        core.on_datagram(b"a:1|ms");
        core.on_deadline(start().after(second * SECOND));
    }
    let full = LossReason::new(seal::OUTBOX_FULL).unwrap();
    assert_eq!(core.status().totals.lost, BTreeMap::from([(full, 2)]));
    let now = start().after(4 * SECOND);
    core.on_signal(now, Signal::Connected);
    let held = deliver(&mut core, now);
    core.on_deadline(now);
    let after = deliver(&mut core, now);
    assert_eq!(after[0].header.seq.0, held[held.len() - 1].header.seq.0 + 1);
    assert_eq!(after[0].header.totals.lost_sum(), 2);
}

#[test]
fn a_leaving_node_says_so_in_its_last_message_and_records_no_more() {
    let mut core = core(Bounds::default());
    core.on_signal(start(), Signal::Connected);
    core.on_datagram(b"a:1|ms");
    core.on_leave(start().after(SECOND / 2));
    let snapshots = deliver(&mut core, start().after(SECOND));
    let last: Vec<bool> = snapshots.iter().map(|snapshot| snapshot.header.last).collect();
    assert_eq!(last, [false, true]);
    assert!(core.is_drained());
    core.on_deadline(start().after(9 * SECOND));
    assert_eq!(deliver(&mut core, start().after(9 * SECOND)), []);
    assert_eq!(core.next_deadline(), Mono(u64::MAX));
}

proptest! {
    /// Invariant 1 at this hop: recorded = acknowledged + held + lost, at every moment.
    #[test]
    fn every_sample_is_acknowledged_held_or_lost(
        steps in prop::collection::vec((0..6_u8, 1..50_u64), 1..120),
    ) {
        let mut core = core(Bounds { outbox_messages_max: 6, ..Bounds::default() });
        let (mut now, mut acknowledged) = (start(), 0);
        let mut sent: Vec<(Seq, u64)> = Vec::new();
        for (step, n) in steps {
            match step {
                0 => (0..n).for_each(|_| core.on_datagram(b"a:1|ms")),
                1 => { now = now.after(SECOND); core.on_deadline(now); }
                2 => core.on_signal(now, Signal::Connected),
                3 => core.on_signal(now, Signal::Disconnected),
                4 => while let Some(publish) = core.next_publish(now) {
                    let subject = publish.subject.parse().unwrap();
                    let snapshot = wire::decode(&subject, &publish.payload).unwrap();
                    sent.push((publish.seq, snapshot.body.samples()));
                },
                _ => if let Some((seq, samples)) = sent.pop() {
                    if n % 7 == 0 {
                        core.on_signal(now, Signal::Refused(seq));
                    } else {
                        let before = core.status().bus.published;
                        core.on_signal(now, Signal::Acknowledged(seq));
                        acknowledged += (core.status().bus.published - before) * samples;
                    }
                }
            }
            let status = core.status();
            prop_assert_eq!(
                status.totals.recorded,
                acknowledged + status.held_samples + status.totals.lost_sum()
            );
        }
    }
}
