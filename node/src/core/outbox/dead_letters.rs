//! Dead letters: messages that the broker refuses for good, on their way to the dead-letter stream.
//!
//! Owns the letters and how far each is. A message stays in the outbox until its letter is stored,
//! so that nothing is given up while no letter can be stored. Refuses to keep messages and to count
//! samples.
//!
//! DESIGN N7.

use std::collections::BTreeMap;

use plimsoll_schemas::labelled;
use plimsoll_schemas::limits::delivery::ACK_WAIT;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::transport::{Refusal, Ticket, refusal_code};

use super::sealed::SealedMessage;
use crate::core::loss::{MAX_PAYLOAD, REFUSED};
use crate::limits::{DEAD_LETTERS_MAX, RETRY_PAUSE};

/// Tickets of letters begin here, far above those of messages.
const TICKETS: u64 = 1 << 63;

labelled! {
    /// Why the broker refuses a message.
    pub enum DeadLetterReason {
        /// Larger than the broker's `max_payload`.
        MaxPayload = MAX_PAYLOAD,
        /// Larger than the stream's `max_msg_size`.
        TooLarge = "too_large",
        /// Its subject or id holds what the protocol cannot carry.
        Malformed = "malformed",
        /// The stream is full and accepts nothing new.
        StreamFull = "stream_full",
        /// No stream has the subject.
        NoStream = "no_stream",
        /// This user may not publish to the subject.
        Denied = "denied",
        /// The stream refuses it for another reason.
        Rejected = "rejected",
    }
}

impl DeadLetterReason {
    /// The reason of a refusal; `None` unless the broker has answered that it does not take the
    /// message. An answer that cannot be read may be an acknowledgement.
    pub fn of(refusal: &Refusal) -> Option<Self> {
        match refusal {
            Refusal::TooLarge => Some(Self::MaxPayload),
            Refusal::Malformed => Some(Self::Malformed),
            Refusal::NoResponders | Refusal::Foreign(_) => Some(Self::NoStream),
            Refusal::Rejected { code, .. } => Some(match *code {
                refusal_code::MESSAGE_TOO_LARGE => Self::TooLarge,
                refusal_code::STREAM_FULL => Self::StreamFull,
                code if refusal_code::TOO_LITTLE_ROOM.contains(&code) => Self::StreamFull,
                _ => Self::Rejected,
            }),
            Refusal::HandOver | Refusal::Unreadable | Refusal::Closed => None,
        }
    }

    /// Whether the same message may be accepted later, so that it is tried again.
    pub const fn may_pass(self) -> bool {
        match self {
            // For these the first refusal is enough; the others may pass once an operator notices.
            Self::MaxPayload | Self::TooLarge | Self::Malformed => false,
            Self::StreamFull | Self::NoStream | Self::Denied | Self::Rejected => true,
        }
    }

    /// The reason under which the samples of the message are lost.
    pub const fn loss(self) -> &'static str {
        match self {
            Self::MaxPayload => MAX_PAYLOAD,
            Self::TooLarge
            | Self::Malformed
            | Self::StreamFull
            | Self::NoStream
            | Self::Denied
            | Self::Rejected => REFUSED,
        }
    }
}

/// A message that is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub message: SealedMessage,
    pub reason: DeadLetterReason,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterStats {
    /// Letters that were stored, by reason.
    pub stored: BTreeMap<DeadLetterReason, u64>,
    /// Times that a letter was itself refused.
    pub refused: u64,
    /// Letters that are not stored yet.
    pub waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Ready,
    /// Sent then and not answered.
    InFlight(Mono),
    Resting(Mono),
}

#[derive(Debug)]
struct Letter {
    message: Ticket,
    reason: DeadLetterReason,
    stage: Stage,
}

/// The letters that are not stored yet, by their own tickets.
#[derive(Debug, Default)]
pub(super) struct DeadLetters {
    letters: BTreeMap<Ticket, Letter>,
    made: u64,
    stats: DeadLetterStats,
}

impl DeadLetters {
    /// Makes the letter of a message; false when as many as may wait do, or the message has one.
    pub(super) fn try_add(&mut self, message: Ticket, reason: DeadLetterReason) -> bool {
        let is_known = self.letters.values().any(|letter| letter.message == message);
        // The message stays in the outbox and asks again, so nothing is lost by a refusal here.
        if is_known || self.letters.len() >= DEAD_LETTERS_MAX {
            return false;
        }

        let ticket = Ticket(TICKETS + self.made);
        self.made += 1;
        self.letters.insert(ticket, Letter { message, reason, stage: Stage::Ready });
        true
    }

    /// The next letter to send, now in flight: its ticket, its message's, and the reason.
    pub(super) fn send(&mut self, now: Mono) -> Option<(Ticket, Ticket, DeadLetterReason)> {
        let mut ready = self.letters.iter_mut().filter(|(_, of)| of.stage == Stage::Ready);
        let (ticket, letter) = ready.next()?;
        letter.stage = Stage::InFlight(now);
        Some((*ticket, letter.message, letter.reason))
    }

    /// Whether a ticket is a letter's, stored or not.
    pub(super) fn is_letter(ticket: Ticket) -> bool {
        ticket.0 >= TICKETS
    }

    /// The letter in flight the longest.
    pub(super) fn oldest_in_flight(&self) -> Option<Ticket> {
        let in_flight = |letter: &Letter| matches!(letter.stage, Stage::InFlight(_));
        self.letters.iter().find(|(_, letter)| in_flight(letter)).map(|(ticket, _)| *ticket)
    }

    /// The letter is stored. Returns its message; `None` for one that is no longer needed.
    pub(super) fn on_stored(&mut self, letter: Ticket) -> Option<(Ticket, DeadLetterReason)> {
        let Letter { message, reason, .. } = self.letters.remove(&letter)?;
        *self.stats.stored.entry(reason).or_default() += 1;
        Some((message, reason))
    }

    /// The broker refused the letter itself, which ends it. Returns its message.
    pub(super) fn on_refused(&mut self, letter: Ticket) -> Option<(Ticket, DeadLetterReason)> {
        let Letter { message, reason, .. } = self.letters.remove(&letter)?;
        self.stats.refused += 1;
        Some((message, reason))
    }

    /// The letter did not reach the broker, or has no answer: it is sent again after a pause.
    pub(super) fn on_deferred(&mut self, now: Mono, letter: Ticket) {
        if let Some(letter) = self.letters.get_mut(&letter) {
            letter.stage = Stage::Resting(now.plus(RETRY_PAUSE));
        }
    }

    /// The message is gone for another reason, so that it needs no letter.
    pub(super) fn cancel(&mut self, message: Ticket) {
        self.letters.retain(|_, letter| letter.message != message);
    }

    /// No answer to what was sent on an earlier connection will arrive.
    pub(super) fn on_connected(&mut self) {
        self.letters.values_mut().for_each(|letter| letter.stage = Stage::Ready);
    }

    pub(super) fn on_deadline(&mut self, now: Mono) {
        for letter in self.letters.values_mut() {
            match letter.stage {
                Stage::Resting(until) if now >= until => letter.stage = Stage::Ready,
                // Without an answer nothing shows whether it is stored; a stream keeps one letter
                // of an id.
                Stage::InFlight(sent) if now.since(sent) >= ACK_WAIT => {
                    letter.stage = Stage::Resting(now.plus(RETRY_PAUSE));
                }
                Stage::Ready | Stage::Resting(_) | Stage::InFlight(_) => {}
            }
        }
    }

    /// When [`Self::on_deadline`] next has something to do.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        let deadline = |letter: &Letter| match letter.stage {
            Stage::Ready => None,
            Stage::InFlight(sent) => Some(sent.plus(ACK_WAIT)),
            Stage::Resting(until) => Some(until),
        };
        self.letters.values().filter_map(deadline).min()
    }

    pub(super) fn stats(&self) -> DeadLetterStats {
        DeadLetterStats { waiting: self.letters.len(), ..self.stats.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_refuses_is_a_reason() {
        let rejected = |code| Refusal::Rejected { code, description: String::new() };
        for (refusal, reason) in [
            (Refusal::TooLarge, Some("max_payload")),
            (Refusal::Malformed, Some("malformed")),
            (Refusal::NoResponders, Some("no_stream")),
            (rejected(10_054), Some("too_large")),
            (rejected(10_077), Some("stream_full")),
            (rejected(10_047), Some("stream_full")),
            (rejected(7), Some("rejected")),
            (Refusal::HandOver, None),
            (Refusal::Unreadable, None),
            (Refusal::Closed, None),
        ] {
            let found = DeadLetterReason::of(&refusal).map(DeadLetterReason::as_str);
            assert_eq!(found, reason, "{refusal:?}");
        }
    }

    #[test]
    fn letters_are_bounded_and_a_message_has_one() {
        let mut letters = DeadLetters::default();
        let reason = DeadLetterReason::TooLarge;
        let added = (0..99).filter(|n| letters.try_add(Ticket(*n), reason)).count();
        assert_eq!(added, DEAD_LETTERS_MAX);
        let (letter, message, _) = letters.send(Mono(0)).unwrap();
        assert_eq!((message, DeadLetters::is_letter(letter)), (Ticket(0), true));
        assert_eq!(letters.on_stored(letter), Some((Ticket(0), reason)));
        assert!(!letters.try_add(Ticket(1), reason), "it has one");
        assert!(letters.try_add(Ticket(99), reason));
    }
}
