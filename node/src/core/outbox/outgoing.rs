//! A message from its seal to its acknowledgement: its states, and what moves it between them.
//!
//! | state | event | next state | effect |
//! |---|---|---|---|
//! | - | sealed, with a spool | unspooled | |
//! | - | sealed, without a spool | ready | |
//! | - | adopted | waiting | counts one attempt, which a stream may have stored |
//! | unspooled | a write to the spool starts | spooling | |
//! | spooling | the write is on disk | ready | |
//! | unspooled, spooling | the spool fails | ready | |
//! | ready, waiting | sent | in flight | one more attempt |
//! | in flight | deferred | waiting | |
//! | in flight | its id is taken | waiting | another id, not attempted yet |
//! | in flight | overdue, offline | waiting | may be stored |
//! | in flight | no answer | waiting; resting after too many in a row | may be stored |
//! | in flight | refused | resting | one more refusal, if it counts |
//! | in flight | a new connection | waiting | may be stored |
//! | resting | its time is over, a new connection | waiting | |
//! | resting | its dead letter is made | awaits letter | |
//! | awaits letter | the letter is refused too | resting | |
//! | any | a new connection | as above, or the same | attempts without an answer count anew |
//! | any | not handed over | waiting, if in flight | one attempt less |
//! | any | acknowledged, confirmed, given up | - | |
//!
//! A pair of state and event that no row names changes nothing, except that an unreadable answer
//! about a message in any state shows that it may be stored.

use std::time::Duration;

use crate::limits::{ACK_WAIT_MAX, ATTEMPTS_IN_A_ROW_MAX, TAKEN_IDS_MAX};
use plimsoll_schemas::backoff::Backoff;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::transport::{Publish, Ticket};

use super::message_id::IdOf;
use super::sealed::SealedMessage;
use super::window::Departure;

/// Where a message is between its seal and its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// Not in the spool, and not in the batch that is being written.
    Unspooled,
    /// In the batch that is being written.
    Spooling,
    /// May be sent for the first time.
    Ready,
    /// Sent and not yet answered.
    InFlight(Attempt),
    /// May be sent again.
    Waiting,
    /// Not sent before then, so that it blocks no other.
    Resting { until: Mono },
    /// Held until its dead letter is stored.
    AwaitsLetter,
}

/// One attempt, until it is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) sent: Departure,
    pub(super) overdue_at: Mono,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    SpoolingStarted,
    Spooled,
    SpoolFailed,
    /// Handed to the connection; `wait` is how long a first attempt waits for its answer.
    Sent {
        departure: Departure,
        wait: Duration,
    },
    /// The connection did not take it after all.
    NotHandedOver,
    /// It did not reach the broker.
    Deferred,
    /// The stream has its id, so that someone else may have used it.
    IdTaken,
    /// Overdue without a connection on which an answer could have come.
    OverdueOffline,
    NoAnswer {
        cause: NoAnswer,
        rests_until: Mono,
    },
    /// Refused by the broker; `every` is the time from one refusal that counts to the next.
    Refused {
        at: Mono,
        every: Duration,
        rests_until: Mono,
    },
    LetterMade,
    LetterRefused {
        rests_until: Mono,
    },
    RestEnded,
    /// There is a new connection: no answer to what was sent on an earlier one will come.
    Connected,
}

/// Why an attempt has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// None came in time.
    Overdue,
    /// What came cannot be read.
    Unreadable,
}

#[derive(Debug)]
pub(super) struct OutgoingMessage {
    pub(super) message: SealedMessage,
    /// When its oldest part was enqueued.
    pub(super) enqueued: Mono,
    /// True for a message of a former incarnation.
    pub(super) adopted: bool,
    /// Changed only by who keeps the index of states.
    pub(super) state: State,
    attempts: u32,
    /// Attempts under its present id, and ids of it that were found to be taken.
    attempts_of_id: u32,
    taken_ids: u32,
    /// Attempts on this connection that were not acknowledged in time; in a row, until it rests.
    overdue: u32,
    timeouts_in_a_row: u32,
    /// Refusals by the broker that count, and when the last of them came.
    pub(super) refusals: u32,
    refused_at: Option<Mono>,
    /// An attempt had no answer, so that a stream may have stored it.
    maybe_stored: bool,
}

impl State {
    /// Whether it is in flight or about to be.
    pub(super) fn is_on_the_way(self) -> bool {
        match self {
            Self::Unspooled | Self::Spooling | Self::Ready | Self::InFlight(_) => true,
            Self::Waiting | Self::Resting { .. } | Self::AwaitsLetter => false,
        }
    }
}

impl OutgoingMessage {
    /// A message that was just sealed; with a spool it waits until it is written there.
    pub(super) fn sealed(message: SealedMessage, enqueued: Mono, spooled: bool) -> Self {
        Self {
            message,
            enqueued,
            adopted: false,
            state: if spooled { State::Unspooled } else { State::Ready },
            attempts: 0,
            attempts_of_id: 0,
            taken_ids: 0,
            overdue: 0,
            timeouts_in_a_row: 0,
            refusals: 0,
            refused_at: None,
            maybe_stored: false,
        }
    }

    /// A message of a former incarnation, which may have sent it.
    pub(super) fn adopted(message: SealedMessage, now: Mono) -> Self {
        Self {
            adopted: true,
            state: State::Waiting,
            attempts: 1,
            attempts_of_id: 1,
            maybe_stored: true,
            ..Self::sealed(message, now, false)
        }
    }

    pub(super) fn departure(&self) -> Option<Departure> {
        match self.state {
            State::InFlight(attempt) => Some(attempt.sent),
            _ => None,
        }
    }

    /// Whether its latest attempt was not the first.
    pub(super) fn is_retry(&self) -> bool {
        self.attempts > 1
    }

    /// The message for the broker, under its present id.
    pub(super) fn publish(&self, ticket: Ticket) -> Publish {
        self.message.publish(ticket, IdOf::Message(self.taken_ids))
    }

    /// The table above: counts the event, and returns the next state unless the state stays.
    pub(super) fn on(&mut self, event: Event) -> Option<State> {
        match (self.state, event) {
            (State::Unspooled, Event::SpoolingStarted) => Some(State::Spooling),
            (State::Spooling, Event::Spooled)
            | (State::Unspooled | State::Spooling, Event::SpoolFailed) => Some(State::Ready),

            (State::Ready | State::Waiting, Event::Sent { departure, wait }) => {
                self.attempts += 1;
                self.attempts_of_id = self.attempts_of_id.saturating_add(1);
                // Longer each time, so that a merely slow link is not filled with repetitions.
                let wait = Backoff::new(wait, ACK_WAIT_MAX).span(self.overdue);
                let overdue_at = departure.at.plus(wait);
                Some(State::InFlight(Attempt { sent: departure, overdue_at }))
            }
            // That was no attempt: the next one is no retry, and an id that is taken by then is
            // someone else's.
            (state, Event::NotHandedOver) => {
                self.attempts = self.attempts.saturating_sub(1);
                self.attempts_of_id = self.attempts_of_id.saturating_sub(1);
                matches!(state, State::InFlight(_)).then_some(State::Waiting)
            }

            (State::InFlight(_), Event::Deferred) => Some(State::Waiting),
            (State::InFlight(_), Event::IdTaken) if self.is_id_of_another() => {
                self.taken_ids += 1;
                self.attempts_of_id = 0;
                Some(State::Waiting)
            }
            // It may have reached the broker before the connection broke.
            (State::InFlight(_), Event::OverdueOffline) => {
                self.maybe_stored = true;
                Some(State::Waiting)
            }
            (state, Event::NoAnswer { cause, rests_until }) => {
                self.maybe_stored = true;
                let in_flight = matches!(state, State::InFlight(_));
                in_flight.then(|| self.after_no_answer(cause, rests_until))
            }
            (State::InFlight(_), Event::Refused { at, every, rests_until }) => {
                self.count_refusal(at, every);
                Some(State::Resting { until: rests_until })
            }

            (State::Resting { .. }, Event::RestEnded) => Some(State::Waiting),
            (State::Resting { .. }, Event::LetterMade) => Some(State::AwaitsLetter),
            (State::AwaitsLetter, Event::LetterRefused { rests_until }) => {
                Some(State::Resting { until: rests_until })
            }

            (state, Event::Connected) => {
                // They are about the link that is gone.
                (self.timeouts_in_a_row, self.overdue) = (0, 0);
                self.maybe_stored |= matches!(state, State::InFlight(_));
                let is_over = matches!(state, State::InFlight(_) | State::Resting { .. });
                is_over.then_some(State::Waiting)
            }
            _ => None,
        }
    }

    /// Whether someone else must have used the present id, if the stream has it: this process sent
    /// the message under that id once, and no other process did. Not after `TAKEN_IDS_MAX` ids,
    /// when what aggregators confirm decides.
    fn is_id_of_another(&self) -> bool {
        self.attempts_of_id == 1 && !self.adopted && self.taken_ids < TAKEN_IDS_MAX
    }

    /// After too many of these in a row it rests, so that it does not block the others.
    fn after_no_answer(&mut self, cause: NoAnswer, rests_until: Mono) -> State {
        // Only an overdue answer makes the next attempt wait longer: an unreadable one was in time.
        self.overdue += u32::from(cause == NoAnswer::Overdue);
        self.timeouts_in_a_row += 1;
        if self.timeouts_in_a_row < ATTEMPTS_IN_A_ROW_MAX {
            return State::Waiting;
        }
        self.timeouts_in_a_row = 0;
        State::Resting { until: rests_until }
    }

    /// A refusal that follows the last that counts sooner than `every` does not count, since a
    /// broker in trouble is tried often; none does of a message that a stream may have stored.
    fn count_refusal(&mut self, now: Mono, every: Duration) {
        let is_due = self.refused_at.is_none_or(|last| now.since(last) >= every);
        if is_due && !self.maybe_stored {
            self.refusals = self.refusals.saturating_add(1);
            self.refused_at = Some(now);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bytes::Bytes;
    use plimsoll_schemas::ids::{Incarnation, Seq};
    use plimsoll_schemas::subject::Lane;
    use plimsoll_schemas::time::Wall;

    use super::super::message_id::MessageNonce;
    use super::super::window::SendWindow;
    use super::*;

    const REST: Mono = Mono(99);

    pub(in crate::core::outbox) fn message(seq: u64, lane: Lane) -> SealedMessage {
        SealedMessage {
            incarnation: Incarnation(1),
            seq: Seq(seq),
            lane,
            subject: lane.as_str().to_owned(),
            payload: Bytes::from(vec![0; 7]),
            samples: 1,
            own_samples: 0,
            produced: 1,
            last: false,
            sealed_at: Wall(1),
            nonce: MessageNonce::default(),
        }
    }

    fn spooled() -> OutgoingMessage {
        OutgoingMessage::sealed(message(1, Lane::Normal), Mono(0), true)
    }

    fn ready() -> OutgoingMessage {
        OutgoingMessage::sealed(message(1, Lane::Normal), Mono(0), false)
    }

    fn adopted() -> OutgoingMessage {
        OutgoingMessage::adopted(message(1, Lane::Normal), Mono(0))
    }

    fn sent() -> Event {
        Event::Sent { departure: SendWindow::new().depart(Mono(0)), wait: Duration::from_secs(1) }
    }

    fn unanswered() -> Event {
        Event::NoAnswer { cause: NoAnswer::Overdue, rests_until: REST }
    }

    fn refused(second: u64) -> Event {
        let at = Mono(second * 1_000_000_000);
        Event::Refused { at, every: Duration::from_secs(60), rests_until: REST }
    }

    fn after(mut message: OutgoingMessage, events: &[Event]) -> OutgoingMessage {
        for event in events {
            message.state = message.on(*event).unwrap_or(message.state);
        }
        message
    }

    fn name(state: State) -> &'static str {
        match state {
            State::Unspooled => "unspooled",
            State::Spooling => "spooling",
            State::Ready => "ready",
            State::InFlight(_) => "in flight",
            State::Waiting => "waiting",
            State::Resting { .. } => "resting",
            State::AwaitsLetter => "awaits letter",
        }
    }

    #[test]
    fn every_row_of_the_table_holds() {
        let letter_refused = || Event::LetterRefused { rests_until: REST };
        let lettered = || vec![sent(), refused(0), Event::LetterMade];
        let and = |events: Vec<Event>, more: &[Event]| [&events[..], more].concat();

        let rows = [
            (spooled(), vec![], "unspooled"),
            (ready(), vec![], "ready"),
            (adopted(), vec![], "waiting"),
            (spooled(), vec![Event::SpoolingStarted], "spooling"),
            (spooled(), vec![Event::SpoolingStarted, Event::Spooled], "ready"),
            (spooled(), vec![Event::SpoolFailed], "ready"),
            (spooled(), vec![Event::SpoolingStarted, Event::SpoolFailed], "ready"),
            (ready(), vec![sent()], "in flight"),
            (adopted(), vec![sent()], "in flight"),
            (ready(), vec![sent(), Event::Deferred], "waiting"),
            (ready(), vec![sent(), Event::IdTaken], "waiting"),
            (ready(), vec![sent(), Event::OverdueOffline], "waiting"),
            (ready(), vec![sent(), unanswered()], "waiting"),
            (ready(), [sent(), unanswered()].repeat(5), "resting"),
            (ready(), vec![sent(), refused(0)], "resting"),
            (ready(), vec![sent(), Event::Connected], "waiting"),
            (ready(), vec![sent(), refused(0), Event::RestEnded], "waiting"),
            (ready(), vec![sent(), refused(0), Event::Connected], "waiting"),
            (ready(), lettered(), "awaits letter"),
            (ready(), and(lettered(), &[letter_refused()]), "resting"),
            (ready(), vec![sent(), Event::NotHandedOver], "waiting"),
            // Pairs that no row names.
            (spooled(), vec![Event::Spooled, sent(), Event::Connected], "unspooled"),
            (ready(), vec![Event::Deferred, unanswered(), refused(0), Event::RestEnded], "ready"),
            (ready(), vec![Event::NotHandedOver, Event::LetterMade, Event::Connected], "ready"),
            (ready(), vec![sent(), Event::Deferred, sent(), Event::IdTaken], "in flight"),
            (adopted(), vec![sent(), Event::IdTaken], "in flight"),
            (ready(), and(lettered(), &[Event::RestEnded, Event::Connected]), "awaits letter"),
        ];

        for (message, events, state) in rows {
            assert_eq!(name(after(message, &events).state), state, "{events:?}");
        }
    }

    #[test]
    fn refusals_count_apart_and_not_where_a_stream_may_have_the_message() {
        let again = |at| [sent(), refused(at), Event::RestEnded];
        let refusals = |message, events: &[Event]| after(message, events).refusals;
        assert_eq!(refusals(ready(), &[again(0), again(59), again(60), again(119)].concat()), 2);
        assert_eq!(refusals(adopted(), &again(0)), 0);
        assert_eq!(refusals(ready(), &[&[sent(), unanswered()][..], &again(0)].concat()), 0);
    }
}
