//! The outbox under random schedules of everything that can happen to it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::limits::IN_FLIGHT_MAX;

use super::super::event_drafts;
use super::*;

#[derive(Clone, Debug)]
enum Step {
    Push(u8, u64),
    Send,
    Acknowledge(u64),
    Defer(u64),
    Decline(u64),
    HandoverFailed(u64),
    Reject(u64),
    /// Dead letters are sent and stored, refused, or not answered.
    Letters(u8),
    Confirm(u64, u64),
    Connect,
    Disconnect,
    Leave,
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let seq = || 1..60_u64;
    let step = prop_oneof![
        12 => (0..5_u8, 0..9_u64).prop_map(|(kind, samples)| Step::Push(kind, samples)),
        6 => Just(Step::Send),
        4 => seq().prop_map(Step::Acknowledge),
        1 => seq().prop_map(Step::Defer),
        1 => seq().prop_map(Step::Decline),
        1 => seq().prop_map(Step::HandoverFailed),
        1 => seq().prop_map(Step::Reject),
        2 => (0..3_u8).prop_map(Step::Letters),
        2 => (seq(), 0..20_u64).prop_map(|(first, more)| Step::Confirm(first, first + more)),
        2 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        1 => Just(Step::Leave),
        2 => (0..40_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..300)
}

/// What the broker and the jobs should hold.
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
            let draft = match kind {
                0 | 1 => latency(samples),
                2 | 3 => state(kind == 2),
                _ => event_drafts::draft(0..samples),
            };
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
        Step::Reject(seq) => {
            assert_eq!(outbox.on_refused(*now, Ticket(seq), DeadLetterReason::TooLarge), None);
        }
        Step::Defer(seq) => outbox.on_deferred(*now, Ticket(seq)),
        Step::Decline(seq) => {
            assert_eq!(outbox.on_refused(*now, Ticket(seq), DeadLetterReason::StreamFull), None);
        }
        Step::Letters(fate) => {
            while let Some((letter, _)) = outbox.next_dead_letter(*now) {
                let given_up = match fate {
                    0 => outbox.on_letter_stored(letter),
                    1 => outbox.on_refused(*now, letter, DeadLetterReason::NoStream),
                    _ => None,
                };
                model.samples -= given_up.map_or(0, |letter| letter.message.samples);
            }
        }
        Step::HandoverFailed(seq) => outbox.on_handover_failed(*now, Ticket(seq)),
        Step::Confirm(first, last) => {
            let account = outbox.stats();
            let newest = model.sent.last_key_value().map_or(0, |(ticket, _)| ticket.0);
            let got = outbox.on_confirmation(*now, &confirm(first, last));
            prop_assert_eq!(got.is_err(), last > newest);
            if got.is_err() {
                prop_assert_eq!(outbox.stats(), account, "nothing of it is accepted");
            }
            model.samples = outbox.samples();
        }
        Step::Connect => outbox.on_connected(),
        Step::Disconnect => outbox.on_disconnected(),
        Step::Leave => outbox.on_leave(*now),
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
            thresholds: Thresholds { bytes_max: bytes, ..bounds().thresholds },
            emergency_burst: 4,
            emergency_reserved: 1,
            ..bounds()
        };
        let (mut outbox, mut model) = (Outbox::new(Incarnation(1), bounds), Model::default());
        let (mut now, mut pushed) = (Mono(0), 0);
        for step in steps {
            pushed += u64::from(matches!(step, Step::Push(..)));
            apply(&step, &mut now, &mut outbox, &mut model)?;
            let account = outbox.stats();
            prop_assert_eq!(
                account.attempted,
                account.published + account.dropped + account.refused + account.coalesced
                    + account.combined
                    + account.outbox_messages
            );
            prop_assert_eq!(
                account.published, account.confirmed + account.released + account.unconfirmed
            );
            prop_assert_eq!(outbox.samples(), model.samples, "after {:?}", step);
            let depth = outbox.depth();
            let drafts = outbox.drafts().map(|held| held.draft.produced);
            let sealed = outbox.in_flight.iter().map(|(_, sent)| sent.message.produced);
            prop_assert_eq!(depth, drafts.chain(sealed).sum::<u64>());
            prop_assert!(depth <= pushed && (depth == 0 || account.outbox_messages > 0));
            prop_assert!(outbox.in_flight() <= IN_FLIGHT_MAX);
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
            while let Some((letter, _)) = outbox.next_dead_letter(now) {
                outbox.on_letter_stored(letter);
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
