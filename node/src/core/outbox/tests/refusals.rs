//! Refusals by the broker: which count, when a message becomes a dead letter, and what then holds.

use crate::limits::{DEAD_LETTERS_MAX, REFUSAL_EVERY, REFUSALS_MAX};

use super::*;

use DeadLetterReason::{Denied, StreamFull, TooLarge};

/// A connected outbox whose breaker never opens.
fn patient(messages: u64) -> Outbox {
    let mut outbox = filled(OutboxBounds { breaker_failures: 10_000, ..bounds() }, messages);
    outbox.on_connected();
    outbox
}

/// Sends what may be sent and refuses all of it, each second until `end`; returns when a letter was
/// first to be sent, in seconds, and the letter.
fn refused_until(outbox: &mut Outbox, end: u64, reason: DeadLetterReason) -> Option<(u64, Ticket)> {
    (0..=end).find_map(|second| {
        outbox.on_deadline(at(second));
        for publish in send_all(outbox, at(second)) {
            assert_eq!(outbox.on_refused(at(second), publish.ticket, reason), None);
        }
        outbox.next_dead_letter(at(second)).map(|(letter, _)| (second, letter))
    })
}

#[test]
fn five_refusals_that_may_pass_make_a_dead_letter_after_four_minutes_at_the_earliest() {
    let mut outbox = patient(1);
    let (second, letter) = refused_until(&mut outbox, 3_600, StreamFull).unwrap();
    let least = (REFUSALS_MAX - 1) * u32::try_from(REFUSAL_EVERY.as_secs()).unwrap();
    assert!((u64::from(least)..u64::from(least) + 60).contains(&second), "{second} s");
    assert_eq!((outbox.depth(), outbox.stats().refused), (1, 0), "held until the letter is stored");
    let given_up = outbox.on_letter_stored(letter).unwrap();
    assert_eq!((given_up.message.samples, given_up.reason), (5, StreamFull));
    assert_eq!((outbox.is_empty(), outbox.stats().refused), (true, 1));
    assert_eq!(outbox.on_letter_stored(letter), None, "an answer that comes twice");
}

#[test]
fn what_no_broker_can_take_becomes_a_dead_letter_at_once() {
    let mut outbox = patient(1);
    let (second, letter) = refused_until(&mut outbox, 9, TooLarge).unwrap();
    assert_eq!(second, 0);
    assert_eq!(outbox.on_letter_stored(letter).map(|given_up| given_up.message.samples), Some(5));
    assert_eq!(outbox.breaker(), BreakerState::Closed, "the broker is well");
}

#[test]
fn time_outs_lost_connections_and_unreadable_answers_never_make_a_dead_letter() {
    let mut outbox = patient(1);
    for second in 0..7_200 {
        outbox.on_deadline(at(second));
        for publish in send_all(&mut outbox, at(second)) {
            match second % 3 {
                0 => outbox.on_unreadable(at(second), publish.ticket),
                1 => outbox.on_connected(),
                _ => {}
            }
        }
        assert_eq!(outbox.next_dead_letter(at(second)), None);
    }
    assert_eq!((outbox.depth(), outbox.stats().refused), (1, 0));
}

#[test]
fn a_message_that_a_stream_may_have_stored_is_not_given_up() {
    let mut outbox = patient(1);
    send(&mut outbox, at(0)).unwrap();
    outbox.on_deadline(Mono(0).plus(ACK_WAIT));
    assert_eq!(refused_until(&mut outbox, 7_200, StreamFull), None);
    assert_eq!(outbox.depth(), 1);
}

#[test]
fn while_no_letter_is_stored_nothing_is_given_up_and_letters_are_bounded() {
    for is_answered in [true, false] {
        let mut outbox = patient(29);
        for second in 0..3_600 {
            outbox.on_deadline(at(second));
            for publish in send_all(&mut outbox, at(second)) {
                outbox.on_refused(at(second), publish.ticket, StreamFull);
            }
            while let Some((letter, _)) = outbox.next_dead_letter(at(second)) {
                if is_answered {
                    assert_eq!(outbox.on_refused(at(second), letter, StreamFull), None);
                }
            }
            assert!(outbox.dead_letters().waiting <= DEAD_LETTERS_MAX);
        }
        assert_eq!((outbox.depth(), outbox.stats().refused), (29, 0));
        assert_eq!(outbox.dead_letters().refused > 0, is_answered, "a refused letter is counted");
    }
}

#[test]
fn a_letter_that_is_refused_too_does_not_keep_what_no_broker_can_take() {
    let mut outbox = patient(1);
    let (_, letter) = refused_until(&mut outbox, 9, TooLarge).unwrap();
    let given_up = outbox.on_refused(at(9), letter, StreamFull).unwrap();
    assert_eq!((given_up.message.samples, given_up.reason), (5, TooLarge));
    assert_eq!((outbox.is_empty(), outbox.dead_letters().refused), (true, 1));
}

#[test]
fn one_refused_message_blocks_no_other() {
    let mut outbox = patient(3);
    let first = send(&mut outbox, at(0)).unwrap().ticket;
    outbox.on_refused(at(0), first, StreamFull);
    outbox.on_deadline(at(1));
    let others = send_all(&mut outbox, at(1));
    assert_eq!(others.iter().map(|sent| sent.ticket).collect::<Vec<_>>(), [Ticket(2), Ticket(3)]);
    outbox.on_deadline(Mono(0).plus(BREAKER_OPEN));
    assert_eq!(send(&mut outbox, at(30)).map(|sent| sent.ticket), Some(first), "it has rested");
}

#[test]
fn what_was_refused_goes_again_with_the_first_probes_and_at_once_after_a_reconnect() {
    for reconnects in [false, true] {
        let mut outbox = filled(OutboxBounds { breaker_failures: 1, ..bounds() }, 1);
        outbox.on_connected();
        let first = send(&mut outbox, at(0)).unwrap().ticket;
        outbox.on_refused(at(0), first, StreamFull);
        assert_eq!(outbox.breaker(), BreakerState::Open);
        let again = if reconnects { at(1) } else { Mono(0).plus(BREAKER_OPEN) };
        outbox.on_deadline(again);
        if reconnects {
            assert_eq!(send(&mut outbox, again), None);
            outbox.on_connected();
        }
        assert_eq!(send(&mut outbox, again).map(|sent| sent.ticket), Some(first));
    }
}

#[test]
fn a_denied_publish_refuses_the_message_that_was_sent_there_first() {
    let mut outbox = patient(1);
    let mut letter = None;
    for second in 0..3_600 {
        outbox.on_deadline(at(second));
        for publish in send_all(&mut outbox, at(second)) {
            outbox.on_denied(at(second), "another subject");
            outbox.on_denied(at(second), &publish.subject);
        }
        if let Some((_, found)) = outbox.next_dead_letter(at(second)) {
            letter = Some(found);
            break;
        }
    }
    assert_eq!(letter.map(|letter| letter.reason), Some(Denied));
    assert_eq!(outbox.on_letter_denied(at(3_600)), None, "its letter is denied too");
    assert_eq!((outbox.depth(), outbox.dead_letters().refused), (1, 1));
}

#[test]
fn a_message_that_is_confirmed_meanwhile_needs_no_letter() {
    let mut outbox = patient(1);
    let (_, letter) = refused_until(&mut outbox, 9, TooLarge).unwrap();
    outbox.on_confirmation(at(9), &confirm(1, 1)).unwrap();
    assert_eq!(outbox.dead_letters().waiting, 0);
    assert_eq!((outbox.on_letter_stored(letter), outbox.stats().refused), (None, 0));
}
