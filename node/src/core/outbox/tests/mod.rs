//! The outbox rule by rule.

use std::time::Duration;

use crate::limits::{ATTEMPTS_IN_A_ROW_MAX, BREAKER_OPEN, RETRY_PAUSE};
use bytes::Bytes;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{NodeName, Operation, Series};
use plimsoll_schemas::limits::delivery::ACK_WAIT;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::confirmation::{Confirmation, ConfirmedIncarnation};
use plimsoll_schemas::wire::{Body, Hardware, Latency};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Nothing is merged below 50 messages; rerouting begins at 20, dropping at 30, both end at 5.
fn bounds() -> OutboxBounds {
    OutboxBounds {
        thresholds: Thresholds { drop: 30, reroute: 20, recover: 5, conservative_max: 60 * SECOND },
        coalesce_messages: 50,
        ..OutboxBounds::default()
    }
}

fn latency(samples: u64) -> Draft {
    let mut histogram = Histogram::default();
    histogram.record_n(1_000_000, samples);
    let series = Series::plain(Operation::new("a").unwrap());
    let body = Latency { histograms: vec![(series, histogram)], ..Latency::default() };
    Draft::new(Body::Latency(body), Wall(1), 1, Mono(7))
}

fn state(hardware: bool) -> Draft {
    let body =
        if hardware { Body::Hardware(Hardware::default()) } else { Body::Bus(Bus::default()) };
    Draft::new(body, Wall(1), 1, Mono(7))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of the outbox's argument")]
fn seal(seq: Seq, lane: Lane, draft: Draft) -> SealedMessage {
    SealedMessage {
        incarnation: Incarnation(1),
        seq,
        lane,
        subject: format!("{}-{}", lane.as_str(), draft.last),
        payload: Bytes::from(draft.samples().to_string()),
        samples: draft.samples(),
        last: draft.last,
        sealed_at: Wall(1),
    }
}

fn filled(bounds: OutboxBounds, messages: u64) -> Outbox {
    let mut outbox = Outbox::new(Incarnation(1), bounds);
    for _ in 0..messages {
        outbox.try_push(Mono(0), latency(5)).unwrap();
    }
    outbox
}

fn send(outbox: &mut Outbox, now: Mono) -> Option<Publish> {
    outbox.next_publish(now, seal)
}

fn send_all(outbox: &mut Outbox, now: Mono) -> Vec<Publish> {
    std::iter::from_fn(|| send(outbox, now)).collect()
}

fn subjects(messages: &[Publish]) -> Vec<&str> {
    messages.iter().map(|publish| publish.subject.as_str()).collect()
}

fn confirm(first: u64, last: u64) -> Confirmation {
    let runs = vec![ConfirmedIncarnation {
        incarnation: Incarnation(1),
        spans: vec![(Seq(first), Seq(last))],
    }];
    Confirmation {
        node: NodeName::new("n").unwrap(),
        behind: false,
        age: Duration::ZERO,
        runs,
        limits: Vec::new(),
    }
}

fn at(seconds: u64) -> Mono {
    Mono(0).plus(Duration::from_secs(seconds))
}

#[test]
fn nothing_is_sent_without_a_connection() {
    let mut outbox = filled(bounds(), 1);
    assert_eq!(send(&mut outbox, Mono(9)), None);
    outbox.on_connected();
    assert_eq!(send(&mut outbox, Mono(9)).map(|publish| publish.ticket), Some(Ticket(1)));
    assert_eq!(send(&mut outbox, Mono(9)), None);
}

#[test]
fn a_message_stays_until_acknowledged_with_its_time() {
    let mut outbox = filled(bounds(), 2);
    outbox.on_connected();
    send(&mut outbox, Mono(9));
    assert_eq!(outbox.on_acknowledged(Mono(9), Ticket(1)), Some(Mono(7)));
    assert_eq!(outbox.on_acknowledged(Mono(9), Ticket(1)), None);
    assert_eq!((outbox.samples(), outbox.stats().published), (5, 1));
}

#[test]
fn an_overdue_message_is_sent_again_with_the_same_bytes_before_newer_ones() {
    let mut outbox = filled(bounds(), 2);
    outbox.on_connected();
    let first = send(&mut outbox, Mono(0));
    assert_eq!(outbox.next_deadline(), Some(Mono(0).plus(ACK_WAIT)));
    outbox.on_deadline(Mono(0).plus(ACK_WAIT));
    assert_eq!(send(&mut outbox, at(6)), first);
    assert_eq!(outbox.stats().retried, 1);
}

#[test]
fn a_deep_outbox_drops_what_is_new_until_it_is_shallow_and_pushes_nothing_out() {
    let mut outbox = filled(bounds(), 30);
    assert_eq!(outbox.try_push(Mono(0), latency(9)).unwrap_err().samples(), 9);
    assert_eq!((outbox.depth(), outbox.stats().dropped), (30, 1));
    outbox.on_connected();
    outbox.on_deadline(at(60));
    for publish in send_all(&mut outbox, at(60)).iter().take(24) {
        outbox.on_acknowledged(at(60), publish.ticket);
    }
    assert_eq!(outbox.depth(), 6);
    assert!(outbox.try_push(at(60), latency(9)).is_err(), "still above the mark");
    outbox.on_acknowledged(at(60), Ticket(25));
    assert!(outbox.try_push(at(60), latency(9)).is_ok());
}

#[test]
fn without_room_in_bytes_a_draft_is_merged_if_it_can_and_dropped_if_not() {
    let bytes = latency(5).bytes();
    let mut outbox = Outbox::new(Incarnation(1), OutboxBounds { bytes_max: bytes * 2, ..bounds() });
    (0..3).for_each(|_| outbox.try_push(Mono(0), latency(5)).unwrap());
    let account = outbox.stats();
    assert_eq!((account.outbox_messages, account.coalesced, outbox.samples()), (2, 1, 15));
    assert!(outbox.try_push(Mono(0), state(true)).is_err());
    assert_eq!((outbox.stats().dropped, outbox.samples()), (1, 15));
}

#[test]
fn from_the_reroute_mark_on_new_messages_go_by_the_emergency_lane_and_first() {
    let mut outbox = filled(bounds(), 22);
    outbox.on_connected();
    outbox.on_deadline(at(60));
    let sent = send_all(&mut outbox, at(60));
    assert_eq!(subjects(&sent[..3]), ["emergency-false", "emergency-false", "normal-false"]);
    assert_eq!(outbox.stats().rerouted, 2);
    assert_eq!(sent.iter().map(|sent| sent.ticket.0).collect::<Vec<_>>(), Vec::from_iter(1..=22));
}

#[test]
fn conservative_mode_sends_the_emergency_lane_alone_and_ends() {
    let mut outbox = filled(bounds(), 22);
    outbox.on_connected();
    let sent = send_all(&mut outbox, at(1));
    assert_eq!(subjects(&sent), ["emergency-false"; 2]);
    for publish in sent {
        outbox.on_acknowledged(at(1), publish.ticket);
    }
    let end = at(60);
    assert_eq!(outbox.pressure().next_deadline(), Some(end));
    assert!(outbox.stats().conservative);
    outbox.on_deadline(end);
    assert!(!outbox.stats().conservative);
    assert_eq!(subjects(&send_all(&mut outbox, end)), ["normal-false"; 20]);
}

#[test]
fn a_rerouted_message_without_a_token_waits_and_is_counted_once() {
    let tight = OutboxBounds { emergency_burst: 2, emergency_reserved: 1, ..bounds() };
    let mut outbox = filled(tight, 23);
    outbox.on_connected();
    assert_eq!([0; 2].map(|_| send_all(&mut outbox, Mono(0)).len()), [1, 0]);
    assert_eq!((outbox.stats().rate_limited, outbox.depth()), (1, 23));
    assert_eq!(outbox.next_deadline(), Some(Mono(0).plus(SECOND / 2)));
    assert_eq!(send_all(&mut outbox, Mono(0).plus(SECOND / 2)).len(), 1);
}

#[test]
fn the_final_message_goes_last_and_may_take_a_reserved_token() {
    let tight = OutboxBounds { emergency_burst: 3, emergency_reserved: 1, ..bounds() };
    let mut outbox = filled(tight, 25);
    outbox.on_connected();
    assert_eq!(send_all(&mut outbox, Mono(0)).len(), 2);
    outbox.try_push(Mono(0), state(false).into_final()).unwrap();
    outbox.on_leave(at(0));
    let sent = send_all(&mut outbox, Mono(0));
    assert_eq!(subjects(&sent)[..23], ["normal-false"; 23]);
    assert_eq!(subjects(&sent)[23..], ["emergency-true"]);
    assert_eq!(sent[23].ticket, Ticket(26));
}

#[test]
fn above_the_coalesce_mark_drafts_are_merged_and_sent_messages_are_not() {
    let mut outbox = Outbox::new(Incarnation(1), OutboxBounds { coalesce_messages: 3, ..bounds() });
    outbox.on_connected();
    (0..3).for_each(|_| outbox.try_push(Mono(0), latency(5)).unwrap());
    let first = send(&mut outbox, Mono(0));
    outbox.try_push(Mono(0), latency(5)).unwrap();
    let account = outbox.stats();
    assert_eq!((account.outbox_messages, account.coalesced, outbox.samples()), (3, 1, 20));
    outbox.on_deferred(Mono(0), Ticket(1));
    assert_eq!(send(&mut outbox, at(1)), first, "what was sent is what is sent again");
    let payloads = send_all(&mut outbox, at(1));
    assert_eq!(payloads.iter().map(|p| &p.payload[..]).collect::<Vec<_>>(), [&b"10"[..], b"5"]);
}

#[test]
fn a_message_without_a_readable_answer_is_sent_again_after_a_pause_and_rests_after_five_attempts() {
    let mut outbox = filled(OutboxBounds { breaker_failures: 99, ..bounds() }, 2);
    outbox.on_connected();
    let mut now = Mono(0);
    for _ in 0..ATTEMPTS_IN_A_ROW_MAX {
        assert_eq!(send(&mut outbox, now).map(|publish| publish.ticket), Some(Ticket(1)));
        outbox.on_unreadable(now, Ticket(1));
        assert_eq!(send(&mut outbox, now), None, "a pause runs");
        now = now.plus(RETRY_PAUSE);
        outbox.on_deadline(now);
    }
    assert_eq!(send(&mut outbox, now).map(|publish| publish.ticket), Some(Ticket(2)));
    outbox.on_acknowledged(now, Ticket(2));
    assert_eq!(send(&mut outbox, now), None);
    now = now.plus(BREAKER_OPEN);
    outbox.on_deadline(now);
    assert_eq!(send(&mut outbox, now).map(|publish| publish.ticket), Some(Ticket(1)));
}

#[test]
fn only_failures_of_the_broker_open_the_breaker() {
    let mut outbox = filled(bounds(), 6);
    outbox.on_connected();
    for now in 1..9 {
        let seq = send(&mut outbox, at(now)).unwrap().ticket;
        outbox.on_handover_failed(at(now), seq);
        outbox.on_deadline(at(now + 1));
    }
    assert!(outbox.try_push(at(9), latency(1)).is_ok());
    send_all(&mut outbox, at(10));
    outbox.on_disconnected();
    outbox.on_deadline(at(16));
    assert_eq!(outbox.breaker(), BreakerState::Closed, "none of these was the broker's fault");
    outbox.on_connected();
    send_all(&mut outbox, at(17));
    outbox.on_deadline(at(22));
    assert_eq!((outbox.breaker(), send(&mut outbox, at(51))), (BreakerState::Open, None));
    outbox.on_deadline(at(52));
    let probe = send_all(&mut outbox, at(52));
    assert_eq!(probe.len(), 1, "exactly one probe");
    outbox.on_acknowledged(at(52), probe[0].ticket);
    assert_eq!(send_all(&mut outbox, at(52)).len(), 6);
}

#[test]
fn a_confirmation_takes_the_place_of_an_acknowledgement_that_was_lost() {
    let mut outbox = filled(bounds(), 3);
    outbox.on_connected();
    send_all(&mut outbox, Mono(9));
    outbox.on_acknowledged(Mono(9), Ticket(1));
    assert_eq!(outbox.on_confirmation(Mono(9), &confirm(1, 2)), Ok(()));
    let account = outbox.stats();
    assert_eq!((account.published, account.confirmed, account.unconfirmed), (2, 2, 0));
    assert_eq!((outbox.depth(), outbox.on_acknowledged(Mono(9), Ticket(2))), (1, None));
}

#[test]
fn a_confirmation_of_an_unsent_message_is_rejected() {
    let mut outbox = filled(bounds(), 3);
    outbox.on_connected();
    send(&mut outbox, Mono(9));
    outbox.on_acknowledged(Mono(9), Ticket(1));
    assert_eq!(outbox.on_confirmation(Mono(9), &confirm(1, 2)), Err(ForgedConfirmation));
    assert_eq!(outbox.unconfirmed.messages(), 1);
    assert_eq!(outbox.on_confirmation(Mono(9), &confirm(1, 1)), Ok(()));
    assert_eq!(outbox.unconfirmed.messages(), 0);
}

#[test]
fn past_the_bound_of_copies_new_messages_wait_and_then_the_oldest_copies_go() {
    let unconfirmed = UnconfirmedBounds { messages: 3, bytes: 1 << 20 };
    let mut outbox = filled(OutboxBounds { unconfirmed, ..bounds() }, 5);
    outbox.on_connected();
    let sent = send_all(&mut outbox, at(0));
    assert_eq!(sent.len(), 3);
    for publish in &sent {
        outbox.on_acknowledged(at(0), publish.ticket);
    }
    assert_eq!((send(&mut outbox, at(1)), outbox.depth()), (None, 2));
    assert_eq!(outbox.next_deadline(), Some(at(10)));
    outbox.on_deadline(at(10));
    assert_eq!(send_all(&mut outbox, at(10)).len(), 2);
    let account = outbox.stats();
    assert_eq!((account.released, account.unconfirmed, account.published), (2, 1, 3));
}

#[test]
fn with_a_spool_a_message_sets_out_only_once_it_is_in_there() {
    let mut outbox = filled(bounds(), 2);
    outbox.set_spooled(true);
    outbox.on_connected();
    assert_eq!((send(&mut outbox, at(0)), outbox.in_flight.messages()), (None, 2));
    outbox.on_spooling();
    outbox.try_push(at(0), latency(5)).unwrap();
    assert_eq!(send(&mut outbox, at(0)), None);
    outbox.on_spooled();
    assert_eq!(send_all(&mut outbox, at(0)).len(), 2, "the third came after the batch");
    outbox.on_spool_failed();
    assert_eq!(send_all(&mut outbox, at(0)).len(), 1, "there is nothing to wait for any more");
}

#[test]
fn a_probe_that_is_confirmed_before_it_is_acknowledged_lets_another_go() {
    let mut outbox = filled(OutboxBounds { breaker_failures: 1, ..bounds() }, 2);
    outbox.on_connected();
    for publish in send_all(&mut outbox, at(0)) {
        outbox.on_acknowledged(at(0), publish.ticket);
    }
    // The broker lost the second. It is sent again and stored, but its acknowledgement is lost.
    outbox.on_confirmation(at(5), &confirm(1, 1)).unwrap();
    assert_eq!(send_all(&mut outbox, at(5)).len(), 1);
    outbox.on_deadline(at(10));
    assert_eq!(outbox.breaker(), BreakerState::Open);
    outbox.on_confirmation(at(16), &confirm(1, 1)).unwrap();
    outbox.on_deadline(at(40));
    let probe = send_all(&mut outbox, at(40));
    assert_eq!((probe.len(), outbox.breaker()), (1, BreakerState::HalfOpen));
    outbox.on_confirmation(at(41), &confirm(1, 2)).unwrap();
    assert_eq!(outbox.on_acknowledged(at(41), probe[0].ticket), None);
    outbox.try_push(at(42), latency(5)).unwrap();
    let next = send_all(&mut outbox, at(42));
    assert_eq!(next.len(), 1);
    outbox.on_acknowledged(at(42), next[0].ticket);
    assert_eq!(outbox.breaker(), BreakerState::Closed);
}

#[test]
fn the_final_message_finds_its_reserve_whatever_waits_in_its_lane() {
    let thresholds =
        Thresholds { drop: 200, reroute: 20, recover: 5, conservative_max: 60 * SECOND };
    let mut outbox =
        filled(OutboxBounds { thresholds, coalesce_messages: 500, ..OutboxBounds::default() }, 120);
    outbox.on_connected();
    for quarter in 0..16 {
        let now = Mono(quarter * 250_000_000);
        outbox.on_deadline(now);
        send_all(&mut outbox, now);
    }
    // All of them wait to go again, and for tokens.
    outbox.on_connected();
    outbox.try_push(at(4), state(false).into_final()).unwrap();
    outbox.on_leave(at(4));
    let mut after = None;
    for quarter in 16..200 {
        let now = Mono(quarter * 250_000_000);
        outbox.on_deadline(now);
        for publish in send_all(&mut outbox, now) {
            if publish.subject.ends_with("true") {
                after.get_or_insert(quarter / 4 - 4);
            }
            outbox.on_acknowledged(now, publish.ticket);
        }
    }
    assert!(after.is_some_and(|seconds| seconds < 2), "{after:?} s");
}

#[test]
fn a_copy_that_is_older_than_any_aggregator_remembers_is_evict_oldest() {
    let mut outbox = filled(bounds(), 1);
    outbox.on_connected();
    let sent = send_all(&mut outbox, at(0));
    outbox.on_acknowledged(at(0), sent[0].ticket);
    let day = at(24 * 3_600);
    outbox.on_deadline(Mono(day.0 - 1));
    assert_eq!(outbox.unconfirmed.messages(), 1);
    outbox.on_deadline(day);
    assert_eq!((outbox.unconfirmed.messages(), outbox.stats().released), (0, 1));
}

mod events;
mod properties;
mod refusals;
