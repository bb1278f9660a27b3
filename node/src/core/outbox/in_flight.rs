//! Messages that are sealed and not acknowledged. Each is in exactly one state: waiting for the
//! spool, ready, in flight, waiting for a retry, resting, or waiting for its dead letter to be
//! stored.
//!
//! DESIGN N12.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{ACK_WAIT_MAX, ATTEMPTS_IN_A_ROW_MAX, TAKEN_IDS_MAX};
use plimsoll_schemas::backoff::Backoff;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::transport::{Publish, Ticket};
use plimsoll_schemas::wire::confirmation::Confirmation;

use super::message_id::IdOf;
use super::sealed::SealedMessage;
use super::window::Departure;

/// A message that is in flight or about to be.
#[derive(Debug)]
pub(super) struct OutgoingMessage {
    pub(super) message: SealedMessage,
    /// When its oldest part was enqueued.
    pub(super) enqueued: Mono,
    /// True for a message of a former incarnation.
    pub(super) adopted: bool,
    attempts: u32,
    /// Attempts under its present id, and ids of it that were found to be taken.
    attempts_of_id: u32,
    taken_ids: u32,
    /// Attempts on this connection that were not acknowledged in time; in a row, until it rests.
    overdue: u32,
    timeouts_in_a_row: u32,
    /// Refusals by the broker that count, and when the last of them came.
    refusals: u32,
    refused_at: Option<Mono>,
    /// An attempt had no answer, so that a stream may have stored it.
    maybe_stored: bool,
}

/// One attempt, until it is answered.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    sent: Departure,
    overdue_at: Mono,
}

/// Messages adopted from former incarnations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AdoptedMessages {
    pub(super) messages: usize,
    pub(super) bytes: usize,
    pub(super) produced: u64,
}

/// All messages that are sealed and not acknowledged.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    messages: BTreeMap<Ticket, OutgoingMessage>,
    next_ticket: u64,
    bytes: usize,
    samples: u64,
    produced: u64,
    /// Bytes of messages of the normal lane that are sent and not yet answered.
    unanswered_bytes: usize,
    adopted: AdoptedMessages,
    /// Not in the spool, and not in the batch that is being written.
    unspooled: BTreeSet<Ticket>,
    /// In the batch that is being written.
    spooling: BTreeSet<Ticket>,
    /// May be sent for the first time.
    ready: BTreeSet<Ticket>,
    /// Sent and not yet answered.
    in_flight: BTreeMap<Ticket, Attempt>,
    retries: BTreeMap<Lane, BTreeSet<Ticket>>,
    /// Refused, or without an answer too often in a row; may be retried from this time on.
    resting: BTreeMap<Ticket, Mono>,
}

impl InFlight {
    pub(super) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// Messages that they stand for, as they were produced.
    pub(super) fn produced(&self) -> u64 {
        self.produced
    }

    /// When the oldest of them was enqueued.
    pub(super) fn oldest(&self) -> Option<Mono> {
        self.messages.values().next().map(|sent| sent.enqueued)
    }

    /// Bytes of the normal lane that are on their way or about to be.
    pub(super) fn window_bytes(&self) -> usize {
        let normal = |ticket: &Ticket| {
            let sent = self.messages.get(ticket).filter(|sent| is_windowed(sent));
            sent.map_or(0, |sent| sent.message.payload.len())
        };
        self.unanswered_bytes + self.unsent().map(normal).sum::<usize>()
    }

    /// The same for both lanes.
    pub(super) fn bytes_on_the_way(&self) -> usize {
        self.unsent().chain(self.in_flight.keys()).map(|ticket| self.bytes_of(*ticket)).sum()
    }

    /// Messages that are sealed and not sent.
    fn unsent(&self) -> impl Iterator<Item = &Ticket> {
        self.unspooled.iter().chain(&self.spooling).chain(&self.ready)
    }

    /// Bytes of one message.
    pub(super) fn bytes_of(&self, ticket: Ticket) -> usize {
        self.messages.get(&ticket).map_or(0, |sent| sent.message.payload.len())
    }

    /// Those of them that a former incarnation sealed.
    pub(super) fn adopted(&self) -> AdoptedMessages {
        self.adopted
    }

    /// Messages sent and not yet answered: what the broker has to do.
    pub(super) fn unanswered(&self) -> usize {
        self.in_flight.len()
    }

    /// Messages sent and not yet answered, or sealed and not yet sent: no more is sealed than may
    /// be sent soon, since a sealed message is merged with none that comes later.
    pub(super) fn unanswered_or_unsent(&self) -> usize {
        self.in_flight.len() + self.ready.len() + self.unspooled.len() + self.spooling.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &OutgoingMessage)> {
        self.messages.iter().map(|(ticket, sent)| (*ticket, sent))
    }

    /// The oldest message of a lane that waits for a retry.
    pub(super) fn waiting(&self, lane: Lane) -> Option<Ticket> {
        self.retries.get(&lane)?.first().copied()
    }

    /// The oldest message that may be sent for the first time, those of the emergency lane first.
    pub(super) fn ready(&self) -> Option<Ticket> {
        let lane = |ticket: &&Ticket| self.messages.get(ticket).map(|sent| sent.message.lane);
        let urgent = self.ready.iter().find(|ticket| lane(ticket) == Some(Lane::Emergency));
        urgent.or(self.ready.first()).copied()
    }

    /// Adds a message that was just sealed; with a spool it waits until it is written there.
    pub(super) fn add_sealed(&mut self, message: SealedMessage, enqueued: Mono, spooled: bool) {
        let ticket = self.add(message, enqueued);
        let state = if spooled { &mut self.unspooled } else { &mut self.ready };
        state.insert(ticket);
    }

    /// Adds a message of a former incarnation, which may have sent it.
    pub(super) fn adopt(&mut self, message: SealedMessage, now: Mono) {
        let lane = message.lane;
        let ticket = self.add(message, now);
        if let Some(sent) = self.messages.get_mut(&ticket) {
            (sent.attempts, sent.adopted, sent.maybe_stored) = (1, true, true);
            sent.attempts_of_id = 1;
            self.adopted.messages += 1;
            self.adopted.bytes += sent.message.payload.len();
            self.adopted.produced += sent.message.produced;
        }
        self.retries.entry(lane).or_default().insert(ticket);
    }

    fn add(&mut self, message: SealedMessage, enqueued: Mono) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.bytes += message.payload.len();
        self.samples = self.samples.saturating_add(message.samples);
        self.produced += message.produced;
        let sent = OutgoingMessage {
            message,
            enqueued,
            adopted: false,
            attempts: 0,
            attempts_of_id: 0,
            taken_ids: 0,
            overdue: 0,
            timeouts_in_a_row: 0,
            refusals: 0,
            refused_at: None,
            maybe_stored: false,
        };
        self.messages.insert(ticket, sent);
        ticket
    }

    /// A write of everything sealed so far to the spool has started.
    pub(super) fn on_spooling(&mut self) {
        self.spooling.append(&mut self.unspooled);
    }

    /// That write is on disk.
    pub(super) fn on_spooled(&mut self) {
        self.ready.append(&mut self.spooling);
    }

    /// There is no spool any more that a message could wait for.
    pub(super) fn on_spool_failed(&mut self) {
        self.ready.append(&mut self.spooling);
        self.ready.append(&mut self.unspooled);
    }

    /// Sends a message that is ready or waits for a retry; `wait` is that of a first attempt. The
    /// flag is true for a retry.
    pub(super) fn send(
        &mut self,
        departure: Departure,
        ticket: Ticket,
        wait: Duration,
    ) -> Option<(&OutgoingMessage, Publish, bool)> {
        let sent = self.messages.get_mut(&ticket)?;
        sent.attempts += 1;
        sent.attempts_of_id = sent.attempts_of_id.saturating_add(1);
        self.ready.remove(&ticket);
        self.retries.entry(sent.message.lane).or_default().remove(&ticket);
        // Longer each time, so that a link that is merely slow is not filled with repetitions.
        let wait = Backoff::new(wait, ACK_WAIT_MAX).span(sent.overdue);
        let publish = sent.message.publish(ticket, IdOf::Message(sent.taken_ids));
        if is_windowed(sent) {
            self.unanswered_bytes += sent.message.payload.len();
        }
        let overdue_at = departure.at.plus(wait);
        self.in_flight.insert(ticket, Attempt { sent: departure, overdue_at });
        Some((sent, publish, sent.attempts > 1))
    }

    /// The departure of the attempt that is under way.
    pub(super) fn departure(&self, ticket: Ticket) -> Option<Departure> {
        self.in_flight.get(&ticket).map(|attempt| attempt.sent)
    }

    /// The stream has the id of a message that is in flight. If this process had sent it under that
    /// id once, and no other one before, someone else has used the id: the message gets another one
    /// and waits to be sent again. False if the stream may well have the message itself, or after
    /// `TAKEN_IDS_MAX` ids, when what aggregators confirm decides.
    pub(super) fn rename_taken(&mut self, ticket: Ticket) -> bool {
        let is_taken = |sent: &&mut OutgoingMessage| {
            sent.attempts_of_id == 1 && !sent.adopted && sent.taken_ids < TAKEN_IDS_MAX
        };
        if !self.in_flight.contains_key(&ticket) {
            return false;
        }
        let Some(sent) = self.messages.get_mut(&ticket).filter(is_taken) else { return false };
        sent.taken_ids += 1;
        sent.attempts_of_id = 0;
        self.release(ticket)
    }

    /// Ends an attempt; false if none was under way.
    fn end_attempt(&mut self, ticket: Ticket) -> bool {
        let was_under_way = self.in_flight.remove(&ticket).is_some();
        let sent = self.messages.get(&ticket).filter(|sent| was_under_way && is_windowed(sent));
        self.unanswered_bytes -= sent.map_or(0, |sent| sent.message.payload.len());
        was_under_way
    }

    /// Messages that an aggregator has stored although their acknowledgement is missing.
    pub(super) fn covered_by(&self, confirmation: &Confirmation) -> Vec<Ticket> {
        let stored = |message: &SealedMessage| {
            let mut runs = confirmation.runs.iter();
            runs.any(|run| run.incarnation == message.incarnation && run.covers(message.seq))
        };
        let covered = self.messages.iter().filter(|(_, sent)| stored(&sent.message));
        covered.map(|(ticket, _)| *ticket).collect()
    }

    /// A message came back without an answer and waits for a retry; false if it was not in
    /// flight.
    pub(super) fn release(&mut self, ticket: Ticket) -> bool {
        let was_in_flight = self.end_attempt(ticket);
        if was_in_flight {
            self.wait_for_retry(ticket);
        }
        was_in_flight
    }

    /// A message was not sent after all; returns whether this send was a retry.
    pub(super) fn undo_send(&mut self, ticket: Ticket) -> bool {
        let Some(sent) = self.messages.get_mut(&ticket) else { return false };
        let was_retry = sent.attempts > 1;
        sent.attempts = sent.attempts.saturating_sub(1);
        sent.attempts_of_id = sent.attempts_of_id.saturating_sub(1);
        was_retry
    }

    /// The broker refused a message, which rests so that it blocks no other. Returns how many
    /// refusals of it count; `None` if it was not in flight. One that follows the last that counts
    /// sooner than `every` does not, since a broker in trouble is tried often; none does of a
    /// message that a stream may have stored.
    pub(super) fn refuse(
        &mut self,
        ticket: Ticket,
        now: Mono,
        every: Duration,
        rests_until: Mono,
    ) -> Option<u32> {
        if !self.end_attempt(ticket) {
            return None;
        }
        let sent = self.messages.get_mut(&ticket)?;
        let is_due = sent.refused_at.is_none_or(|last| now.since(last) >= every);
        if is_due && !sent.maybe_stored {
            sent.refusals = sent.refusals.saturating_add(1);
            sent.refused_at = Some(now);
        }
        self.resting.insert(ticket, rests_until);
        Some(sent.refusals)
    }

    /// The broker may have stored a message whose attempt had no answer.
    pub(super) fn on_unanswered(&mut self, ticket: Ticket) {
        if let Some(sent) = self.messages.get_mut(&ticket) {
            sent.maybe_stored = true;
        }
    }

    /// A message waits for its dead letter to be stored and is not retried meanwhile.
    pub(super) fn wait_for_letter(&mut self, ticket: Ticket) {
        self.resting.remove(&ticket);
    }

    /// A message rests, as its dead letter could not be stored.
    pub(super) fn rest(&mut self, ticket: Ticket, until: Mono) {
        if self.messages.contains_key(&ticket) {
            self.resting.insert(ticket, until);
        }
    }

    /// The message sent the longest ago among those of a subject that are in flight.
    pub(super) fn oldest_in_flight_of(&self, subject: &str) -> Option<Ticket> {
        let of = |ticket| self.get(ticket).is_some_and(|message| message.subject == subject);
        let oldest = self.in_flight.iter().filter(|(ticket, _)| of(**ticket));
        oldest.min_by_key(|(_, attempt)| attempt.sent.at).map(|(ticket, _)| *ticket)
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&SealedMessage> {
        self.messages.get(&ticket).map(|sent| &sent.message)
    }

    /// No answer about a message came in time; false if it was not in flight. After too many of
    /// these in a row it rests, so that it does not block the others.
    pub(super) fn fail(&mut self, ticket: Ticket, rests_until: Mono) -> bool {
        if !self.end_attempt(ticket) {
            return false;
        }
        let Some(sent) = self.messages.get_mut(&ticket) else { return false };
        sent.timeouts_in_a_row += 1;
        if sent.timeouts_in_a_row < ATTEMPTS_IN_A_ROW_MAX {
            self.wait_for_retry(ticket);
        } else {
            sent.timeouts_in_a_row = 0;
            self.resting.insert(ticket, rests_until);
        }
        true
    }

    fn wait_for_retry(&mut self, ticket: Ticket) {
        if let Some(sent) = self.messages.get(&ticket) {
            self.retries.entry(sent.message.lane).or_default().insert(ticket);
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<OutgoingMessage> {
        self.end_attempt(ticket);
        let sent = self.messages.remove(&ticket)?;
        self.retries.entry(sent.message.lane).or_default().remove(&ticket);
        for state in [&mut self.unspooled, &mut self.spooling, &mut self.ready] {
            state.remove(&ticket);
        }
        self.resting.remove(&ticket);
        self.bytes -= sent.message.payload.len();
        if sent.adopted {
            self.adopted.messages -= 1;
            self.adopted.bytes -= sent.message.payload.len();
            self.adopted.produced -= sent.message.produced;
        }
        self.samples = self.samples.saturating_sub(sent.message.samples);
        self.produced -= sent.message.produced;
        Some(sent)
    }

    /// No answer to what was sent on an earlier connection will arrive: everything in flight or
    /// resting waits for a retry.
    pub(super) fn on_connected(&mut self) {
        for ticket in std::mem::take(&mut self.in_flight).into_keys() {
            self.on_unanswered(ticket);
            self.wait_for_retry(ticket);
        }
        self.end_rests(Mono(u64::MAX));
        self.unanswered_bytes = 0;
        for sent in self.messages.values_mut() {
            (sent.timeouts_in_a_row, sent.overdue) = (0, 0);
        }
    }

    /// Messages whose acknowledgement is overdue.
    pub(super) fn overdue(&self, now: Mono) -> Vec<Ticket> {
        let late = self.in_flight.iter().filter(|(_, attempt)| now >= attempt.overdue_at);
        late.map(|(ticket, _)| *ticket).collect()
    }

    /// An attempt is overdue: the next one waits longer.
    pub(super) fn on_overdue(&mut self, ticket: Ticket) {
        if let Some(sent) = self.messages.get_mut(&ticket) {
            sent.overdue += 1;
        }
    }

    /// Ends the rest of messages whose time is over.
    pub(super) fn end_rests(&mut self, now: Mono) {
        let rested = self.resting.iter().filter(|(_, until)| now >= **until);
        for ticket in rested.map(|(ticket, _)| *ticket).collect::<Vec<_>>() {
            self.resting.remove(&ticket);
            self.wait_for_retry(ticket);
        }
    }

    /// When the next acknowledgement is overdue or the next rest ends.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        let overdue = self.in_flight.values().map(|attempt| attempt.overdue_at).min();
        overdue.into_iter().chain(self.resting.values().min().copied()).min()
    }
}

/// The emergency lane has a rate limit instead of a window.
fn is_windowed(sent: &OutgoingMessage) -> bool {
    sent.message.lane == Lane::Normal
}
