//! The node's side of the ledger: no sample and no message is ever without a place.

use plimsoll_schemas::own_operations::OWN_LOST;
use plimsoll_schemas::transport::HEADERS_BYTES_MAX;
use plimsoll_schemas::wire::confirmation::{Confirmation, ConfirmedIncarnation};

use super::*;

/// Merged or not, in one lane or two: an aggregator that has merged the first k messages holds
/// exactly what message k reports as recorded and not lost. Each message comes with the number
/// of samples that the broker had refused when it was first sent.
fn assert_totals(messages: &BTreeMap<Seq, (Snapshot, u64)>) -> Result<(), TestCaseError> {
    let (mut carried, mut newest) = (0, 0);
    for (seq, (snapshot, refused_samples)) in messages {
        prop_assert_eq!(seq.0, newest + 1, "a hole");
        newest = seq.0;
        carried += snapshot.body.samples();
        let totals = &snapshot.header.totals;
        prop_assert_eq!(
            carried - refused_samples,
            totals.recorded - totals.lost_sum(),
            "after {}",
            seq
        );
    }
    Ok(())
}

#[test]
fn thousands_of_intervals_without_a_broker_stay_bounded_and_keep_every_count() {
    let mut core = core(Bounds::default());
    let mut now = start();
    let intervals = 5_000_u64;
    for interval in 0..intervals {
        for series in 0..4 {
            let value = 1 + (interval * 7 + series * 131) % 40;
            core.on_datagram(
                start(),
                format!("op{series}:{value}:{}.5|ms\nc:1|c", value + 1).as_bytes(),
            );
        }
        now = now.after(SECOND);
        core.on_deadline(now);
        let bus = core.status().bus;
        assert!(bus.outbox_messages <= limits::COALESCE_MESSAGES as u64, "{bus:?}");
        assert!(bus.outbox_bytes <= limits::OUTBOX_BYTES_MAX as u64, "{bus:?}");
    }
    let bus = core.status().bus;
    assert_eq!(
        (core.status().totals.lost_sum(), bus.outbox_depth),
        (0, bus.attempted - bus.dropped)
    );
    assert!(bus.dropped > 0 && bus.dropping && bus.rerouting, "old bus reports are dropped");
    core.on_bus_event(now, &connected());
    let snapshots = deliver(&mut core, now);
    // Four series of two samples and a counter each.
    assert_eq!(samples(&snapshots), 8 * intervals);
    let counted: f64 = snapshots
        .iter()
        .filter_map(|snapshot| snapshot.body.latency())
        .map(|latency| latency.counters[0].1)
        .sum();
    assert_eq!(counted, 4.0 * intervals as f64);
    let widest = snapshots.iter().map(|snapshot| snapshot.header.length_ns).max().unwrap();
    assert!(widest <= 128_000_000_000, "{widest} ns in one of {} messages", snapshots.len());
}

proptest! {
    /// Invariant 1 at this hop: recorded = acknowledged + held + lost, at every point in time.
    #[test]
    fn every_sample_is_acknowledged_held_or_lost(
        steps in prop::collection::vec((0..6_u8, 1..50_u64), 1..120),
        coalesce_messages in 2..20_usize,
    ) {
        let outbox = OutboxBounds {
            thresholds: Thresholds { drop: 12, reroute: 8, recover: 3, ..thresholds() },
            coalesce_messages,
            ..OutboxBounds::default()
        };
        let mut core = core(Bounds { outbox, ..Bounds::default() });
        let (mut now, mut acknowledged, mut refused_samples) = (start(), 0, 0);
        let mut messages = BTreeMap::new();
        let mut sent: Vec<(Ticket, u64)> = Vec::new();
        for (step, n) in steps {
            match step {
                0 => (0..n).for_each(|_| core.on_datagram(start(), b"a:1|ms")),
                1 => { now = now.after(SECOND); core.on_deadline(now); }
                2 => core.on_bus_event(now, &connected()),
                3 => core.on_bus_event(now, &BusEvent::Disconnected),
                4 => while let Some(publish) = core.next_publish(now) {
                    let subject = publish.subject.parse().unwrap();
                    let snapshot = wire::decode(&subject, &publish.payload).unwrap();
                    sent.push((publish.ticket, snapshot.body.samples()));
                    let new = || (snapshot.clone(), refused_samples);
                    let first = messages.entry(snapshot.header.seq).or_insert_with(new);
                    prop_assert_eq!(&first.0, &snapshot, "what was sent is immutable");
                },
                _ => if let Some((seq, samples)) = sent.pop() {
                    if n % 7 == 0 {
                        let before = core.status().totals.lost_sum();
                        core.on_bus_event(now, &refused(seq, Refusal::TooLarge));
                        store_letters(&mut core, now);
                        refused_samples += core.status().totals.lost_sum() - before;
                    } else {
                        let before = core.status().bus.published;
                        core.on_bus_event(now, &super::acknowledged(seq));
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
        assert_totals(&messages)?;
    }
}

#[test]
fn a_dropped_message_names_the_samples_of_jobs_and_the_nodes_own_apart() {
    let thresholds = Thresholds { bytes_max: 9_000, ..thresholds() };
    let outbox = OutboxBounds { thresholds, ..OutboxBounds::default() };
    let mut core = core(Bounds { outbox, ..Bounds::default() });
    core.on_bus_event(start(), &connected());
    core.on_datagram(start(), b"a:1|ms\n_e{1,1}:a|b");
    let mut now = start().after(SECOND);
    core.on_deadline(now);
    // Its acknowledgement is a sample of the node's own.
    assert_eq!(deliver(&mut core, now).len(), 1);
    core.on_bus_event(now, &BusEvent::Disconnected);
    for n in 0..10 {
        let tags = ["a", "b", "c", "d", "e", "f"].map(|key| format!("{key}:{n:x>120}")).join(",");
        core.on_datagram(start(), format!("{n:a>120}:1|ms|#{tags}").as_bytes());
    }
    now = now.after(SECOND);
    core.on_deadline(now);
    let status = core.status();
    let lost: Vec<_> = status.totals.lost.iter().map(|(of, n)| (of.as_str(), *n)).collect();
    assert_eq!(lost, [(loss::OUTBOX_FULL, 10), (OWN_LOST, 1)]);
    assert_eq!((status.totals.recorded, status.never_sent_samples), (12, 11));
    assert_eq!((status.bus.recorded, status.bus.recorded_own), (12, 1));
}

#[test]
fn with_a_ttl_an_unsent_message_is_dropped_by_name_and_a_sent_one_is_not() {
    let outbox = OutboxBounds { ttl: Some(5 * SECOND), ..OutboxBounds::default() };
    let mut core = core(Bounds { outbox, ..Bounds::default() });
    core.on_bus_event(start(), &connected());
    core.on_datagram(start(), b"a:1:2|ms");
    core.on_deadline(start().after(SECOND));
    assert_eq!(core.next_publish(start().after(SECOND)).map(|sent| sent.ticket), Some(Ticket(1)));
    core.on_bus_event(start().after(SECOND), &BusEvent::Disconnected);
    core.on_datagram(start(), b"a:1:2:3|ms");
    core.on_deadline(start().after(2 * SECOND));
    assert_eq!((core.status().held_samples, core.status().bus.outbox_messages), (5, 3));
    core.on_deadline(start().after(7 * SECOND));
    let expired = LossReason::new(loss::EXPIRED).unwrap();
    assert_eq!(core.status().totals.lost, BTreeMap::from([(expired, 3)]));
    assert_eq!(core.status().held_samples, 2);
    let now = start().after(8 * SECOND);
    core.on_bus_event(now, &connected());
    let snapshots = deliver(&mut core, now);
    assert_eq!(samples(&snapshots), 2);
    let newest = &snapshots.last().unwrap().header.totals;
    assert_eq!((newest.recorded, newest.lost_sum()), (5, 3));
}

#[test]
fn without_a_ttl_nothing_expires_and_with_one_of_fifteen_minutes_it_does_then() {
    let quarter = 900 * SECOND;
    for (ttl, left) in [(None, 5), (Some(quarter), 0)] {
        let outbox = OutboxBounds { ttl, ..OutboxBounds::default() };
        let mut core = core(Bounds { outbox, ..Bounds::default() });
        core.on_datagram(start(), b"a:1:2:3:4:5|ms");
        let closed = start().after(SECOND);
        core.on_deadline(closed);
        core.on_deadline(closed.after(quarter - SECOND));
        assert_eq!(core.status().held_samples, 5, "{ttl:?}");
        core.on_deadline(closed.after(quarter));
        assert_eq!(core.status().held_samples, left, "{ttl:?}");
        assert_eq!(core.status().totals.lost_sum(), 5 - left, "{ttl:?}");
    }
    assert_eq!(OutboxBounds::default().ttl, None);
}

#[test]
fn a_message_that_the_broker_refuses_for_good_is_lost_by_name_once_its_letter_is_stored() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    core.on_datagram(start(), b"a:1:2:3|ms");
    let now = start().after(SECOND);
    core.on_deadline(now);
    let sent = core.next_publish(now).unwrap();
    core.on_bus_event(now, &refused(sent.ticket, Refusal::Malformed));
    assert_eq!((core.status().held_samples, core.status().totals.lost_sum()), (3, 0));
    let letter = core.next_dead_letter(now).unwrap();
    assert_eq!(letter.subject, "plimsoll.v1.m.dead.n");
    assert_eq!((&letter.payload, letter.message_id), (&sent.payload, sent.message_id + "-dead"));
    let incarnation = start().wall.0.to_string();
    let bytes = sent.payload.len().to_string();
    let headers = [
        ("Plimsoll-Reason", "malformed"),
        ("Plimsoll-Node", "n"),
        ("Plimsoll-Incarnation", &incarnation),
        ("Plimsoll-Seq", "1"),
        ("Plimsoll-Samples", "3"),
        ("Plimsoll-Bytes", &bytes),
        ("Plimsoll-Subject", &sent.subject),
    ];
    assert_eq!(letter.headers, headers.map(|(name, value)| (name, value.to_owned())));
    core.on_bus_event(now, &acknowledged(letter.ticket));
    let refused = LossReason::new(loss::REFUSED).unwrap();
    assert_eq!(core.status().totals.lost, BTreeMap::from([(refused, 3)]));
    assert_eq!((core.status().held_samples, core.next_dead_letter(now)), (0, None));
}

/// Sends what is due over a connection whose client refuses what is longer than `max_payload`.
/// Returns the samples that were taken and the number of messages.
fn deliver_within(core: &mut Core, now: Now, max_payload: usize) -> (u64, u64) {
    let (mut taken, mut messages) = (0, 0);
    while let Some(publish) = core.next_publish(now) {
        if publish.payload.len() + HEADERS_BYTES_MAX > max_payload {
            core.on_bus_event(now, &refused(publish.ticket, Refusal::TooLarge));
            store_letters(core, now);
            continue;
        }
        let subject = publish.subject.parse().unwrap();
        taken += wire::decode(&subject, &publish.payload).unwrap().body.samples();
        messages += 1;
        core.on_bus_event(now, &acknowledged(publish.ticket));
    }
    (taken, messages)
}

#[test]
fn messages_are_divided_to_the_brokers_max_payload_and_no_sample_is_lost() {
    for (max_payload, least) in [(0, 1), (1 << 20, 1), (65_536, 4), (16_384, 16)] {
        let mut core = core(Bounds::default());
        core.on_bus_event(start(), &connected_with(max_payload));
        for n in 0..1_000 {
            let line = format!("f:{n}|ms|#item:some-rather-long-label-value-{n:05},outcome:hit");
            core.on_datagram(start(), line.as_bytes());
        }
        let now = start().after(SECOND);
        core.on_deadline(now);
        let limit = if max_payload == 0 { usize::MAX } else { max_payload };
        let (taken, messages) = deliver_within(&mut core, now, limit);
        let status = core.status();
        assert_eq!((taken, status.totals.lost_sum()), (1_000, 0), "{max_payload}");
        assert!(messages >= least, "{max_payload}: {messages}");
        // A limit that is raised holds from the next connection on.
        core.on_bus_event(now, &connected_with(1 << 20));
        assert!(core.body_bytes_max() > 1_000_000);
    }
}

#[test]
fn a_series_longer_than_max_payload_is_lost_by_that_name_and_the_others_are_not() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected_with(8_192));
    for n in 0..6_000 {
        let line = format!("wide:{}|ms", 1.0027_f64.powi(n) * 0.01);
        core.on_datagram(start(), line.as_bytes());
    }
    core.on_datagram(start(), b"small:1:2:3|ms");
    let now = start().after(SECOND);
    core.on_deadline(now);
    let (taken, _) = deliver_within(&mut core, now, 8_192);
    assert_eq!(taken, 3);
    let status = core.status();
    let lost = status.totals.lost.iter().map(|(reason, n)| (reason.as_str(), *n));
    assert_eq!(lost.collect::<Vec<_>>(), [(loss::MAX_PAYLOAD, 6_000)]);
    let letters = &status.dead_letters.stored;
    assert_eq!(letters.get(&DeadLetterReason::MaxPayload), Some(&1));
}

#[test]
fn a_denied_dead_letter_keeps_its_message() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    core.on_datagram(start(), b"a:1|ms");
    let mut now = start().after(SECOND);
    core.on_deadline(now);
    let deny = |core: &mut Core, now, subject: &str| {
        let (publish, text) = (Some(subject.to_owned()), String::new());
        core.on_bus_event(now, &BusEvent::Denied { publish, text });
    };
    let letter = (0..900).find_map(|_| {
        while let Some(sent) = core.next_publish(now) {
            deny(&mut core, now, &sent.subject);
        }
        now = now.after(SECOND);
        core.on_deadline(now);
        core.next_dead_letter(now)
    });
    deny(&mut core, now, &letter.unwrap().subject);
    let status = core.status();
    assert_eq!((status.dead_letters.refused, status.totals.lost_sum()), (1, 0));
    assert!(status.held_samples > 0 && status.denials > 5);
}

#[test]
fn forged_and_garbled_confirmations_are_counted_by_reason_and_change_nothing() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    let now = start().after(SECOND);
    core.on_deadline(now);
    deliver(&mut core, now);
    let incarnation = Incarnation(start().wall.0);
    let confirm = |last| {
        let incarnations =
            vec![ConfirmedIncarnation { incarnation, spans: vec![(Seq(1), Seq(last))] }];
        let node = NodeName::new("n").unwrap();
        confirmation::encode(&Confirmation {
            incarnations,
            mesh_nodes: u32::try_from(last).unwrap(),
            ..Confirmation::of(node)
        })
    };
    assert_eq!(core.on_confirmation(now, &confirm(2)), Err("forged"));
    assert_eq!(core.on_confirmation(now, b"nonsense"), Err("shape"));
    assert_eq!((core.status().bus.unconfirmed, core.mesh_nodes()), (1, 0));
    assert_eq!(core.on_confirmation(now, &confirm(1)), Ok(()));
    assert_eq!(core.mesh_nodes(), 1);
    let status = core.status();
    assert_eq!((status.bus.unconfirmed, status.bus.confirmed), (0, 1));
    assert_eq!(status.confirmations.accepted, 1);
    assert_eq!(status.confirmations.rejected, BTreeMap::from([("forged", 1), ("shape", 1)]));
}

/// The broker acknowledged the first message and lost it: the confirmation of the final one shows
/// that.
#[test]
fn a_leaving_node_waits_until_what_it_sent_again_is_confirmed() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    let incarnation = Incarnation(start().wall.0);
    let confirm = |spans: &[(u64, u64)]| {
        let spans = spans.iter().map(|(first, last)| (Seq(*first), Seq(*last))).collect();
        let incarnations = vec![ConfirmedIncarnation { incarnation, spans }];
        confirmation::encode(&Confirmation {
            incarnations,
            ..Confirmation::of(NodeName::new("n").unwrap())
        })
    };
    core.on_datagram(start(), b"epoch_hook:1|ms");
    core.on_deadline(start().after(SECOND));
    assert_eq!(deliver(&mut core, start().after(SECOND)).len(), 1);
    let now = start().after(2 * SECOND);
    core.on_deadline(now);
    assert_eq!(deliver(&mut core, now).len(), 1);
    core.on_confirmation(now, &confirm(&[(2, 2)])).unwrap();
    core.on_leave(now);
    let newest = deliver(&mut core, now).last().unwrap().header.seq.0;
    core.on_deadline(now);
    let late = now.after(limits::LEAVE_CONFIRM_WAIT - Duration::from_millis(1));
    core.on_confirmation(late, &confirm(&[(2, newest)])).unwrap();
    let again = deliver(&mut core, late);
    assert_eq!(again.iter().map(|message| message.header.seq).collect::<Vec<_>>(), [Seq(1)]);
    let later = now.after(limits::LEAVE_CONFIRM_WAIT + SECOND);
    core.on_deadline(later);
    assert!(!core.is_drained(later), "it left before the lost message was confirmed");
    core.on_confirmation(later, &confirm(&[(1, newest)])).unwrap();
    assert!(core.is_drained(later));
}

#[test]
fn a_leaving_node_waits_for_confirmations_where_there_are_any_and_not_for_long() {
    for (confirmed_before, waits) in [(false, false), (true, true)] {
        let mut core = core(Bounds::default());
        core.on_bus_event(start(), &connected());
        let now = start().after(SECOND);
        core.on_deadline(now);
        deliver(&mut core, now);
        if confirmed_before {
            let node = NodeName::new("n").unwrap();
            let nothing = Confirmation { behind: true, ..Confirmation::of(node) };
            core.on_confirmation(now, &confirmation::encode(&nothing)).unwrap();
        }
        core.on_leave(now);
        deliver(&mut core, now);
        core.on_deadline(now);
        assert_eq!(core.is_drained(now), !waits);
        let later = now.after(limits::LEAVE_CONFIRM_WAIT);
        assert!(core.next_deadline() <= later.mono || !waits);
        core.on_deadline(later);
        assert!(core.is_drained(later));
    }
}
