//! The core as its driver uses it: datagrams in, messages out, the ledger always exact.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::{Labels, LossReason, Seq};
use plimsoll_schemas::subject::SnapshotSubject;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{self, Body, Snapshot};
use proptest::prelude::*;

use super::*;
use crate::core::outbox::OutboxBounds;
use crate::core::outbox::Thresholds;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::transport::Delivery;
use plimsoll_schemas::wire::Totals;

const SECOND: Duration = Duration::from_secs(1);

fn start() -> Now {
    Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) }
}

fn core(bounds: Bounds) -> Core {
    let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n").unwrap());
    let labels = Labels::new([("rack", "r7")]).unwrap();
    Core::new(Identity { mesh, node, labels }, bounds, start())
}

fn thresholds() -> Thresholds {
    OutboxBounds::default().thresholds
}

/// Bounds under which there is room for a bus message and a few series with long names.
fn tight() -> Bounds {
    let thresholds = Thresholds { bytes_max: 3_500, ..thresholds() };
    Bounds { outbox: OutboxBounds { thresholds, ..OutboxBounds::default() }, ..Bounds::default() }
}

/// Records one sample of a series with a long name of its own.
fn record_long(core: &mut Core, n: u32) {
    core.on_datagram(start(), format!("{n:a>120}:1|ms").as_bytes());
}

fn connected() -> BusEvent {
    connected_with(0)
}

/// The broker states this `max_payload`.
fn connected_with(payload_bytes_max: usize) -> BusEvent {
    let (delivery, server_version) = (Delivery::JetStream, String::new());
    BusEvent::Connected { delivery, server_version, payload_bytes_max }
}

fn acknowledged(ticket: Ticket) -> BusEvent {
    BusEvent::Acknowledged { ticket, duplicate: false }
}

/// The broker stores every dead letter.
fn store_letters(core: &mut Core, now: Now) {
    while let Some(letter) = core.next_dead_letter(now) {
        core.on_bus_event(now, &acknowledged(letter.ticket));
    }
}

fn refused(ticket: Ticket, reason: Refusal) -> BusEvent {
    BusEvent::Refused { ticket, reason }
}

/// Takes everything that may be sent and acknowledges it at once.
fn deliver(core: &mut Core, now: Now) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    while let Some(publish) = core.next_publish(now) {
        let subject: SnapshotSubject = publish.subject.parse().unwrap();
        snapshots.push(wire::decode(&subject, &publish.payload).unwrap());
        core.on_bus_event(now, &acknowledged(publish.ticket));
    }
    snapshots
}

fn samples(snapshots: &[Snapshot]) -> u64 {
    snapshots.iter().map(|snapshot| snapshot.body.samples()).sum()
}

#[test]
fn an_interval_becomes_one_message() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    core.on_datagram(start(), b"epoch_hook:1.5|ms\nepoch_hook:2:3|ms|#a:b\nepochs:1|c\n");
    let now = start().after(SECOND);
    core.on_deadline(now);
    let snapshots = deliver(&mut core, now);
    let [Snapshot { header, body: Body::Interval(parts) }] = &snapshots[..] else {
        panic!("{snapshots:?}")
    };
    let (Some(latency), Some(bus)) = (&parts.latency, &parts.bus) else { panic!("{parts:?}") };
    assert_eq!((latency.histograms.len(), latency.counters[0].1), (2, 1.0));
    assert_eq!((header.seq, header.totals.recorded), (Seq(1), 3));
    assert_eq!((header.start, header.length_ns), (start().wall, 1_000_000_000));
    assert_eq!(header.labels.get("rack"), Some("r7"));
    assert_eq!((bus.recorded, bus.attempted), (3, 1));
    let bus = core.status().bus;
    assert_eq!((bus.attempted, bus.published, bus.combined), (2, 1, 1));
}

#[test]
fn readings_are_sent_once_then_what_changes_and_all_of_them_to_an_aggregator_that_asks() {
    use plimsoll_schemas::hardware::{LOAD1, LOAD5};
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    let sent = |core: &mut Core, second: u32| {
        let now = start().after(SECOND * second);
        let load = |sensor, value| Reading::ok(sensor, Labels::default(), value);
        core.on_hardware(vec![load(&LOAD1, f64::from(second)), load(&LOAD5, 1.0)]);
        core.on_deadline(now);
        let sent = deliver(core, now);
        let hardware = sent[0].body.hardware().unwrap();
        (hardware.set, hardware.readings.len(), hardware.changed.clone())
    };
    assert_eq!(sent(&mut core, 1), (1, 2, vec![]));
    assert_eq!(sent(&mut core, 2), (1, 0, vec![(0, 2.0)]));
    let asks = confirmation::encode(&Confirmation {
        readings_missing: true,
        ..Confirmation::of(NodeName::new("n").unwrap())
    });
    core.on_confirmation(start().after(SECOND * 2), &asks).unwrap();
    assert_eq!(sent(&mut core, 3), (2, 2, vec![]));
    assert_eq!(sent(&mut core, 4), (2, 0, vec![(0, 4.0)]));
}

#[test]
fn the_way_to_the_broker_is_recorded_as_publish() {
    let mut core = core(Bounds::default());
    core.on_deadline(start().after(SECOND));
    core.on_bus_event(start(), &connected());
    let late = start().after(SECOND + Duration::from_millis(30));
    assert_eq!(deliver(&mut core, late).len(), 1);
    let next = start().after(2 * SECOND);
    core.on_deadline(next);
    let snapshots = deliver(&mut core, next);
    let Some(body) = snapshots[0].body.latency() else { panic!("{snapshots:?}") };
    assert_eq!(body.histograms[0].0.operation.as_str(), "publish");
    assert_eq!(body.histograms[0].1.max_ns(), 30_000_000);
}

#[test]
fn what_waited_while_a_broker_restarted_is_no_slow_publishing() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    core.on_bus_event(start().after(SECOND), &BusEvent::Disconnected);
    (2..=20).for_each(|second| core.on_deadline(start().after(SECOND * second)));
    let back = start().after(SECOND * 20 + Duration::from_millis(500));
    core.on_bus_event(back, &connected());
    deliver(&mut core, back);
    let now = start().after(21 * SECOND);
    core.on_deadline(now);
    let snapshots = deliver(&mut core, now);
    core.on_deadline(now.after(SECOND));
    let after = deliver(&mut core, now.after(SECOND));
    let operations = |snapshots: &[Snapshot]| -> Vec<String> {
        let latencies = snapshots.iter().filter_map(|snapshot| snapshot.body.latency());
        latencies
            .flat_map(|latency| &latency.histograms)
            .map(|(series, _)| series.operation.to_string())
            .collect()
    };
    assert_eq!(operations(&snapshots), [""; 0]);
    assert_eq!(operations(&after), ["publish"]);
}

#[test]
fn a_bad_line_costs_itself_alone_and_is_counted_by_reason() {
    let mut core = core(Bounds::default());
    core.on_datagram(start(), b"a:1|ms\nnonsense\nb:x|ms\nc:-1|ms\nd:1|ms\n\n");
    let status = core.status();
    assert_eq!(status.intake.samples, 2);
    let expected = BTreeMap::from([(Reject::Shape, 1), (Reject::Number, 1), (Reject::Negative, 1)]);
    assert_eq!(status.intake.rejected, expected);
}

#[test]
fn a_hundred_thousand_names_stay_bounded_and_counted() {
    let mut core = core(Bounds::default());
    for name in 0..100_000 {
        core.on_datagram(start(), format!("op{name}:1|ms").as_bytes());
    }
    assert_eq!(core.status().series, limits::SERIES_MAX + 1);
    assert_eq!(core.status().intake.overflowed, 100_000 - limits::SERIES_MAX as u64);
    core.on_bus_event(start(), &connected());
    let now = start().after(SECOND);
    core.on_deadline(now);
    assert_eq!(samples(&deliver(&mut core, now)), 100_000);
}

#[test]
fn a_large_interval_is_split_into_messages_that_a_reader_accepts() {
    let mut core = core(Bounds::default());
    for operation in 0..40 {
        for step in 0..3_000 {
            core.on_datagram(start(), format!("op{operation}:{}|ms", 1 + step * 7).as_bytes());
        }
    }
    core.on_bus_event(start(), &connected());
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
    let mut core = core(tight());
    for second in 1..=9_u32 {
        record_long(&mut core, second);
        core.on_deadline(start().after(second * SECOND));
    }
    let full = LossReason::new(loss::OUTBOX_FULL).unwrap();
    let lost = core.status().totals.lost_sum();
    assert_eq!(core.status().totals.lost, BTreeMap::from([(full, lost)]));
    assert!((1..=6).contains(&lost) && core.status().bus.dropping, "{lost} samples");
    let now = start().after(70 * SECOND);
    core.on_deadline(now);
    core.on_bus_event(now, &connected());
    let held = deliver(&mut core, now);
    let now = now.after(70 * SECOND);
    core.on_deadline(now.after(SECOND));
    let after = deliver(&mut core, now.after(SECOND));
    let newest = held[held.len() - 1].header.seq;
    let next = after.iter().find(|snapshot| snapshot.header.seq > newest).unwrap();
    assert_eq!(next.header.seq.0, newest.0 + 1);
    assert_eq!(next.header.totals.lost_sum(), lost);
}

#[test]
fn a_leaving_node_sends_a_final_message_and_records_no_more() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    core.on_datagram(start(), b"a:1|ms");
    core.on_leave(start().after(SECOND / 2));
    let snapshots = deliver(&mut core, start().after(SECOND));
    let last: Vec<bool> = snapshots.iter().map(|snapshot| snapshot.header.last).collect();
    assert_eq!(last, [false, true]);
    assert!(core.is_drained(start().after(SECOND)));
    core.on_deadline(start().after(9 * SECOND));
    assert_eq!(deliver(&mut core, start().after(9 * SECOND)), []);
}

#[test]
fn a_full_outbox_still_takes_the_final_message_with_all_losses() {
    let mut core = core(tight());
    for second in 1..=9_u32 {
        record_long(&mut core, second);
        core.on_deadline(start().after(second * SECOND));
    }
    record_long(&mut core, 10);
    let now = start().after(10 * SECOND);
    core.on_leave(now);
    core.on_bus_event(now, &connected());
    let snapshots = deliver(&mut core, now);
    let final_message = &snapshots[snapshots.len() - 1].header;
    assert!(final_message.last && core.is_drained(now));
    assert_eq!((final_message.totals.recorded, final_message.totals.lost_sum() > 1), (10, true));
    assert_eq!(samples(&snapshots) + final_message.totals.lost_sum(), 10);
    assert_eq!(final_message.totals, core.status().totals);
    let bus = core.status().bus;
    assert_eq!(bus.attempted, bus.published + bus.dropped + bus.coalesced + bus.combined);
}

#[test]
fn a_datagram_that_was_cut_is_refused_whole() {
    let mut core = core(Bounds::default());
    let mut long = b"a:1|ms\n".repeat(limits::DATAGRAM_BYTES_MAX / 7 + 1);
    long.truncate(limits::DATAGRAM_BYTES_MAX + 1);
    core.on_datagram(start(), &long);
    assert_eq!(core.status().intake.rejected, BTreeMap::from([(Reject::Truncated, 1)]));
    assert_eq!((core.status().intake.samples, core.status().series), (0, 0));
    core.on_datagram(start(), &long[..limits::DATAGRAM_BYTES_MAX - 6]);
    assert_eq!(core.status().intake.samples, 9_361);
}

#[test]
fn what_the_kernel_dropped_travels_with_the_next_interval() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    for datagrams in [3, 0, 4] {
        core.on_socket_event(start(), SocketEvent::Dropped(datagrams));
    }
    let now = start().after(SECOND);
    core.on_deadline(now);
    let snapshots = deliver(&mut core, now);
    let Some(bus) = snapshots[0].body.bus() else { panic!("{snapshots:?}") };
    assert_eq!((bus.kernel_dropped, core.status().intake.kernel_dropped), (7, 7));
}

#[test]
fn only_a_stall_is_ended_by_a_round_trip() {
    use BusEvent::{Disconnected, RoundTrip, Stalled};
    for (signals, is_connected) in [
        (&[connected(), Stalled][..], false),
        (&[connected(), Stalled, RoundTrip(SECOND)], true),
        (&[connected(), Disconnected, RoundTrip(SECOND)], false),
        (&[connected(), Stalled, Disconnected, RoundTrip(SECOND)], false),
        (&[connected(), Disconnected, Stalled, RoundTrip(SECOND)], false),
        (&[connected(), Disconnected, RoundTrip(SECOND), connected()], true),
        (&[RoundTrip(SECOND)], false),
    ] {
        let mut core = core(Bounds::default());
        signals.iter().for_each(|signal| core.on_bus_event(start(), signal));
        assert_eq!(core.is_connected(), is_connected, "{signals:?}");
        let round_trip = core.status().bus.round_trip_ns;
        let received = is_connected && signals[signals.len() - 1] == RoundTrip(SECOND);
        assert_eq!(round_trip.is_some(), received, "{signals:?}");
    }
}

#[test]
fn only_a_message_that_was_sent_before_counts_as_sent_again() {
    let mut core = core(Bounds::default());
    let mut now = start().after(SECOND);
    core.on_bus_event(now, &connected());
    core.on_deadline(now);
    let mut retried = Vec::new();
    for was_sent in [false, false, true, false, true] {
        let publish = core.next_publish(now).unwrap();
        if was_sent {
            core.on_bus_event(now, &refused(publish.ticket, Refusal::HandOver));
        } else {
            core.on_handover_failed(now, publish.ticket);
        }
        retried.push(core.status().bus.retried);
        now = now.after(limits::RETRY_PAUSE);
    }
    assert_eq!(retried, [0, 0, 0, 0, 1]);
}

#[test]
fn an_ended_pause_wakes_no_task_while_enough_is_in_flight() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    for second in 1..=100_u32 {
        core.on_deadline(start().after(second * SECOND));
    }
    let mut now = start().after(100 * SECOND);
    let first = core.next_publish(now).unwrap();
    core.on_bus_event(now, &refused(first.ticket, Refusal::HandOver));
    now = now.after(SECOND * 3 / 2);
    core.on_deadline(now);
    let sent = std::iter::from_fn(|| core.next_publish(now)).count();
    assert!(sent > 20 && core.status().in_flight == sent, "{sent}");
    assert_eq!(core.next_deadline(), start().after(102 * SECOND).mono);
}

#[test]
fn an_interval_that_ends_late_is_sealed_once() {
    let mut core = core(Bounds::default());
    let late = start().after(5 * SECOND);
    core.on_deadline(late);
    core.on_deadline(late);
    assert_eq!(core.status().bus.attempted, 1);
    assert_eq!(core.next_deadline(), late.after(SECOND).mono);
}

/// Lines as a careless or hostile job might write them.
fn lines() -> impl Strategy<Value = String> {
    let name =
        prop_oneof!["[a-c]", "[a-z._-]{1,140}", Just("publish".into()), Just("other".into())];
    let number = prop_oneof![
        Just("1".into()),
        Just("-1e308".into()),
        Just("1.7e308".into()),
        Just("3600000".into()),
        "[0-9]{1,7}(\\.[0-9]{1,7})?",
    ];
    let values = (number, prop_oneof![Just(1), Just(30), Just(3_900_usize)]);
    let rate = prop_oneof![Just(""), Just("|@0.000001"), Just("|@0.0000011"), Just("|@0.3")];
    let tags = prop_oneof![Just(String::new()), "\\|#[a-c:,=é]{0,300}"];
    let kind = prop_oneof![3 => Just("ms"), 1 => Just("c"), 1 => Just("g")];
    (name, values, kind, rate, tags).prop_map(|(name, (value, n), kind, rate, tags)| {
        format!("{name}:{}|{kind}{rate}{tags}", vec![value; n].join(":"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Invariant 6 turned round: no input makes a node send what its readers refuse.
    #[test]
    fn whatever_lines_come_every_message_can_be_read(
        lines in prop::collection::vec((lines(), prop_oneof![1..9_u32, Just(300)]), 1..6),
        intervals in 1..4_u32,
    ) {
        let mut core = core(Bounds::default());
        core.on_bus_event(start(), &connected());
        for second in 1..=intervals {
            for (line, repetitions) in &lines {
                (0..*repetitions).for_each(|_| core.on_datagram(start(), line.as_bytes()));
            }
            let now = start().after(second * SECOND);
            core.on_deadline(now);
            let samples = samples(&deliver(&mut core, now));
            prop_assert!(samples <= core.status().totals.recorded);
        }
    }
}

proptest! {
    /// A deadline that stays in the past would keep the driver spinning.
    #[test]
    fn the_next_deadline_always_lies_ahead(
        steps in prop::collection::vec((0..8_u8, 0..3_000_u64), 1..200),
    ) {
        let mut core = core(Bounds { interval: SECOND / 10, ..Bounds::default() });
        let (mut now, mut sent) = (start(), Vec::new());
        core.on_bus_event(now, &connected());
        for (step, n) in steps {
            let some = sent.get(usize::try_from(n).unwrap() % sent.len().max(1)).copied();
            match (step, some) {
                (0, _) => core.on_bus_event(now, &connected()),
                (1, _) => core.on_bus_event(now, &BusEvent::Disconnected),
                (2, Some(seq)) => core.on_bus_event(now, &acknowledged(seq)),
                (3, Some(seq)) => core.on_bus_event(now, &refused(seq, Refusal::HandOver)),
                (4, Some(seq)) => core.on_handover_failed(now, seq),
                _ => now = now.after(Duration::from_millis(n)),
            }
            core.on_deadline(now);
            while let Some(publish) = core.next_publish(now) {
                sent.push(publish.ticket);
            }
            prop_assert!(core.next_deadline() > now.mono, "after {step} {n} at {now:?}");
        }
    }
}

mod confirmers;
mod declared;
mod intake;
mod ledger;
mod over;
mod points;
mod spool;
