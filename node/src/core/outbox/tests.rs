//! The outbox rule by rule, and under random schedules of everything that can happen to it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{NodeName, Operation, Series};
use plimsoll_schemas::limits::node::{
    ACK_WAIT, ATTEMPTS_IN_A_ROW_MAX, BREAKER_OPEN, IN_FLIGHT_MAX, RETRY_PAUSE,
};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::confirmation::{Confirmation, Confirmed};
use plimsoll_schemas::wire::{Body, Hardware, Latency};
use proptest::prelude::*;

use super::super::entrusted::EntrustedBounds;
use super::super::pressure::Marks;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Nothing is merged below 50 messages; rerouting begins at 20, dropping at 30, both end at 5.
fn bounds() -> OutboxBounds {
    OutboxBounds {
        marks: Marks { drop: 30, reroute: 20, leave: 5, conservative_max: 60 * SECOND },
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
fn seal(seq: Seq, lane: Lane, draft: Draft) -> Sealed {
    Sealed {
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
    let runs =
        vec![Confirmed { incarnation: Incarnation(1), spans: vec![(Seq(first), Seq(last))] }];
    Confirmation { node: NodeName::new("n").unwrap(), behind: false, runs }
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
fn a_message_stays_until_acknowledged_and_tells_when_it_came() {
    let mut outbox = filled(bounds(), 2);
    outbox.on_connected();
    send(&mut outbox, Mono(9));
    assert_eq!(outbox.on_acknowledged(Mono(9), Ticket(1)), Some(Mono(7)));
    assert_eq!(outbox.on_acknowledged(Mono(9), Ticket(1)), None);
    assert_eq!((outbox.samples(), outbox.account().published), (5, 1));
}

#[test]
fn an_overdue_message_is_sent_again_with_the_same_bytes_before_newer_ones() {
    let mut outbox = filled(bounds(), 2);
    outbox.on_connected();
    let first = send(&mut outbox, Mono(0));
    assert_eq!(outbox.next_deadline(), Some(Mono(0).plus(ACK_WAIT)));
    outbox.on_deadline(Mono(0).plus(ACK_WAIT));
    assert_eq!(send(&mut outbox, at(6)), first);
    assert_eq!(outbox.account().retried, 1);
}

#[test]
fn a_deep_outbox_drops_what_is_new_until_it_is_shallow_and_pushes_nothing_out() {
    let mut outbox = filled(bounds(), 30);
    assert_eq!(outbox.try_push(Mono(0), latency(9)).unwrap_err().samples(), 9);
    assert_eq!((outbox.depth(), outbox.account().dropped), (30, 1));
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
    let account = outbox.account();
    assert_eq!((account.outbox_messages, account.coalesced, outbox.samples()), (2, 1, 15));
    assert!(outbox.try_push(Mono(0), state(true)).is_err());
    assert_eq!((outbox.account().dropped, outbox.samples()), (1, 15));
}

#[test]
fn from_the_reroute_mark_on_new_messages_go_by_the_emergency_lane_and_first() {
    let mut outbox = filled(bounds(), 22);
    outbox.on_connected();
    outbox.on_deadline(at(60));
    let sent = send_all(&mut outbox, at(60));
    assert_eq!(subjects(&sent[..3]), ["emergency-false", "emergency-false", "normal-false"]);
    assert_eq!(outbox.account().rerouted, 2);
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
    outbox.on_deadline(end);
    assert_eq!(subjects(&send_all(&mut outbox, end)), ["normal-false"; 20]);
}

#[test]
fn a_rerouted_message_without_a_token_waits_and_is_counted_once() {
    let tight = OutboxBounds { emergency_burst: 2, emergency_reserved: 1, ..bounds() };
    let mut outbox = filled(tight, 23);
    outbox.on_connected();
    assert_eq!([0; 2].map(|_| send_all(&mut outbox, Mono(0)).len()), [1, 0]);
    assert_eq!((outbox.account().rate_limited, outbox.depth()), (1, 23));
    assert_eq!(outbox.next_deadline(), Some(Mono(0).plus(SECOND / 2)));
    assert_eq!(send_all(&mut outbox, Mono(0).plus(SECOND / 2)).len(), 1);
}

#[test]
fn the_farewell_goes_last_and_may_take_a_reserved_token() {
    let tight = OutboxBounds { emergency_burst: 3, emergency_reserved: 1, ..bounds() };
    let mut outbox = filled(tight, 25);
    outbox.on_connected();
    assert_eq!(send_all(&mut outbox, Mono(0)).len(), 2);
    outbox.try_push(Mono(0), state(false).farewell()).unwrap();
    outbox.on_leave();
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
    let account = outbox.account();
    assert_eq!((account.outbox_messages, account.coalesced, outbox.samples()), (3, 1, 20));
    outbox.on_deferred(Mono(0), Ticket(1));
    assert_eq!(send(&mut outbox, at(1)), first, "what was sent is what is sent again");
    let payloads = send_all(&mut outbox, at(1));
    assert_eq!(payloads.iter().map(|p| &p.payload[..]).collect::<Vec<_>>(), [&b"10"[..], b"5"]);
}

#[test]
fn a_declined_message_is_sent_again_after_a_pause_and_rests_after_five_attempts() {
    let mut outbox = filled(OutboxBounds { breaker_failures: 99, ..bounds() }, 2);
    outbox.on_connected();
    let mut now = Mono(0);
    for _ in 0..ATTEMPTS_IN_A_ROW_MAX {
        assert_eq!(send(&mut outbox, now).map(|publish| publish.ticket), Some(Ticket(1)));
        outbox.on_declined(now, Ticket(1));
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
        outbox.on_not_taken(at(now), seq);
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
fn a_refused_message_gives_back_the_samples_lost_with_it() {
    let mut outbox = filled(bounds(), 1);
    outbox.on_connected();
    assert_eq!(outbox.on_refused(Ticket(1)), None, "a draft has no seq that could be refused");
    send(&mut outbox, Mono(0));
    assert_eq!(outbox.on_refused(Ticket(1)).map(|sealed| sealed.samples), Some(5));
    assert_eq!((outbox.is_empty(), outbox.account().refused), (true, 1));
}

#[test]
fn a_confirmation_takes_the_place_of_an_acknowledgement_that_was_lost() {
    let mut outbox = filled(bounds(), 3);
    outbox.on_connected();
    send_all(&mut outbox, Mono(9));
    outbox.on_acknowledged(Mono(9), Ticket(1));
    assert_eq!(outbox.on_confirmation(Mono(9), &confirm(1, 2)), Ok(()));
    let account = outbox.account();
    assert_eq!((account.published, account.confirmed, account.entrusted), (2, 2, 0));
    assert_eq!((outbox.depth(), outbox.on_acknowledged(Mono(9), Ticket(2))), (1, None));
}

#[test]
fn a_confirmation_of_what_was_never_sent_is_not_believed() {
    let mut outbox = filled(bounds(), 3);
    outbox.on_connected();
    send(&mut outbox, Mono(9));
    outbox.on_acknowledged(Mono(9), Ticket(1));
    assert_eq!(outbox.on_confirmation(Mono(9), &confirm(1, 2)), Err(Forged));
    assert_eq!(outbox.entrusted().messages(), 1);
    assert_eq!(outbox.on_confirmation(Mono(9), &confirm(1, 1)), Ok(()));
    assert_eq!(outbox.entrusted().messages(), 0);
}

#[test]
fn past_the_bound_of_copies_new_messages_wait_and_then_the_oldest_copies_go() {
    let entrusted = EntrustedBounds { messages: 3, bytes: 1 << 20 };
    let mut outbox = filled(OutboxBounds { entrusted, ..bounds() }, 5);
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
    let account = outbox.account();
    assert_eq!((account.released, account.entrusted, account.published), (2, 1, 3));
}

#[test]
fn with_a_spool_a_message_sets_out_only_once_it_is_in_there() {
    let mut outbox = filled(bounds(), 2);
    outbox.set_spooled(true);
    outbox.on_connected();
    assert_eq!((send(&mut outbox, at(0)), outbox.flight.messages()), (None, 2));
    outbox.on_spooling();
    outbox.try_push(at(0), latency(5)).unwrap();
    assert_eq!(send(&mut outbox, at(0)), None);
    outbox.on_spooled();
    assert_eq!(send_all(&mut outbox, at(0)).len(), 2, "the third came after the batch");
    outbox.on_spool_failed();
    assert_eq!(send_all(&mut outbox, at(0)).len(), 1, "there is nothing to wait for any more");
}

#[derive(Clone, Debug)]
enum Step {
    Push(u8, u64),
    Send,
    Acknowledge(u64),
    Defer(u64),
    Decline(u64),
    NotTaken(u64),
    Refuse(u64),
    Confirm(u64, u64),
    Connect,
    Disconnect,
    Leave,
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let seq = || 1..60_u64;
    let step = prop_oneof![
        12 => (0..4_u8, 0..9_u64).prop_map(|(kind, samples)| Step::Push(kind, samples)),
        6 => Just(Step::Send),
        4 => seq().prop_map(Step::Acknowledge),
        1 => seq().prop_map(Step::Defer),
        1 => seq().prop_map(Step::Decline),
        1 => seq().prop_map(Step::NotTaken),
        1 => seq().prop_map(Step::Refuse),
        2 => (seq(), 0..20_u64).prop_map(|(first, more)| Step::Confirm(first, first + more)),
        2 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        1 => Just(Step::Leave),
        2 => (0..40_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..300)
}

/// What the broker and the jobs would say.
#[derive(Default)]
struct Model {
    sent: BTreeMap<Ticket, Publish>,
    samples: u64,
}

impl Model {
    fn on_sent(&mut self, publish: &Publish) -> Result<(), TestCaseError> {
        let newest = self.sent.last_key_value().map_or(0, |(seq, _)| seq.0);
        let first = self.sent.entry(publish.ticket).or_insert_with(|| publish.clone()).clone();
        let content = |sent: &Publish| (sent.subject.clone(), sent.payload.clone());
        prop_assert_eq!(content(&first), content(publish), "sent bytes changed");
        prop_assert!(publish.ticket.0 <= newest + 1, "a hole below {}", publish.ticket.0);
        Ok(())
    }

    fn carried(&self, seq: u64) -> u64 {
        let payload = &self.sent[&Ticket(seq)].payload;
        std::str::from_utf8(payload).unwrap().parse().unwrap()
    }
}

fn apply(
    step: &Step,
    now: &mut Mono,
    outbox: &mut Outbox,
    model: &mut Model,
) -> Result<(), TestCaseError> {
    match *step {
        Step::Push(kind, samples) => {
            let draft = if kind < 2 { latency(samples) } else { state(kind == 2) };
            let samples = draft.samples();
            model.samples += if outbox.try_push(*now, draft).is_ok() { samples } else { 0 };
        }
        Step::Send => {
            for publish in send_all(outbox, *now) {
                model.on_sent(&publish)?;
            }
        }
        Step::Acknowledge(seq) => {
            if outbox.on_acknowledged(*now, Ticket(seq)).is_some() {
                model.samples -= model.carried(seq);
            }
        }
        Step::Refuse(seq) => {
            model.samples -= outbox.on_refused(Ticket(seq)).map_or(0, |sealed| sealed.samples);
        }
        Step::Defer(seq) => outbox.on_deferred(*now, Ticket(seq)),
        Step::Decline(seq) => outbox.on_declined(*now, Ticket(seq)),
        Step::NotTaken(seq) => outbox.on_not_taken(*now, Ticket(seq)),
        Step::Confirm(first, last) => {
            let account = outbox.account();
            let newest = model.sent.last_key_value().map_or(0, |(ticket, _)| ticket.0);
            let told = outbox.on_confirmation(*now, &confirm(first, last));
            prop_assert_eq!(told.is_err(), last > newest);
            if told.is_err() {
                prop_assert_eq!(outbox.account(), account, "nothing of it is believed");
            }
            model.samples = outbox.samples();
        }
        Step::Connect => outbox.on_connected(),
        Step::Disconnect => outbox.on_disconnected(),
        Step::Leave => outbox.on_leave(),
        Step::Pass(seconds) => {
            *now = now.plus(Duration::from_secs(seconds));
            outbox.on_deadline(*now);
            prop_assert!(outbox.next_deadline().is_none_or(|next| next > *now), "busy loop");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn messages_balance_whatever_happens(
        steps in steps(), coalesce_messages in 3..40_usize, bytes in 3_000..60_000_usize,
    ) {
        let bounds = OutboxBounds {
            coalesce_messages,
            coalesce_bytes: bytes / 2,
            bytes_max: bytes,
            emergency_burst: 4,
            emergency_reserved: 1,
            ..bounds()
        };
        let (mut outbox, mut model) = (Outbox::new(Incarnation(1), bounds), Model::default());
        let mut now = Mono(0);
        for step in steps {
            apply(&step, &mut now, &mut outbox, &mut model)?;
            let account = outbox.account();
            prop_assert_eq!(
                account.attempted,
                account.published + account.dropped + account.refused + account.coalesced
                    + account.outbox_messages
            );
            prop_assert_eq!(
                account.published, account.confirmed + account.released + account.entrusted
            );
            prop_assert_eq!(outbox.samples(), model.samples, "after {:?}", step);
            prop_assert!(outbox.depth() <= 30 && outbox.in_flight() <= IN_FLIGHT_MAX);
            prop_assert!(account.outbox_bytes <= bytes as u64);
        }
    }

    /// Whatever happened, a broker that takes everything gets everything.
    #[test]
    fn everything_held_leaves_once_the_broker_is_well(steps in steps()) {
        let (mut outbox, mut model) = (Outbox::new(Incarnation(1), bounds()), Model::default());
        let mut now = Mono(0);
        for step in steps {
            apply(&step, &mut now, &mut outbox, &mut model)?;
        }
        outbox.on_connected();
        for _ in 0..1_000 {
            while let Some(publish) = send(&mut outbox, now) {
                model.on_sent(&publish)?;
                outbox.on_acknowledged(now, publish.ticket);
            }
            let Some(next) = outbox.next_deadline() else { break };
            now = now.max(next);
            outbox.on_deadline(now);
        }
        prop_assert_eq!((outbox.depth(), outbox.samples()), (0, 0));
        let newest = model.sent.last_key_value().map_or(0, |(seq, _)| seq.0);
        prop_assert_eq!(model.sent.len() as u64, newest, "no seq is left out");
    }
}
