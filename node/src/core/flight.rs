//! Messages that are sealed and not acknowledged: waiting for the spool, ready, in flight,
//! waiting to go again, or resting. Each is in exactly one of these places.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::ATTEMPTS_IN_A_ROW_MAX;
use plimsoll_schemas::limits::delivery::ACK_WAIT;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::confirmation::Confirmation;

use super::sealed::{Publish, Sealed, Ticket};

/// A message that is on its way, or about to be.
#[derive(Debug)]
pub struct Sent {
    /// What never changes.
    pub sealed: Sealed,
    /// When its oldest part came to be.
    pub enqueued: Mono,
    /// True when it came from a former incarnation.
    adopted: bool,
    attempts: u32,
    failures_in_a_row: u32,
}

/// Messages of former incarnations: they were admitted then, and are no reason not to admit more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// How many.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// All messages that are sealed and not acknowledged.
#[derive(Debug, Default)]
pub struct Flight {
    sent: BTreeMap<Ticket, Sent>,
    next_ticket: u64,
    bytes: usize,
    samples: u64,
    adopted: Adopted,
    /// Not in the spool yet, and not in the batch that is being written.
    unspooled: BTreeSet<Ticket>,
    /// In the batch that is being written.
    spooling: BTreeSet<Ticket>,
    /// May set out for the first time.
    ready: BTreeSet<Ticket>,
    /// Sent at this time and not yet answered.
    in_flight: BTreeMap<Ticket, Mono>,
    again: BTreeMap<Lane, BTreeSet<Ticket>>,
    /// Failed too often in a row; waits again from this time on.
    resting: BTreeMap<Ticket, Mono>,
}

impl Flight {
    /// Number of messages.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.sent.len()
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Their samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// What of it came from former incarnations.
    #[must_use]
    pub fn adopted(&self) -> Adopted {
        self.adopted
    }

    /// Messages on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Messages on their way, or sealed and about to be.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.in_flight.len() + self.ready.len() + self.unspooled.len() + self.spooling.len()
    }

    /// All messages.
    pub fn iter(&self) -> impl Iterator<Item = (Ticket, &Sent)> {
        self.sent.iter().map(|(ticket, sent)| (*ticket, sent))
    }

    /// The oldest message of a lane that waits to go again.
    #[must_use]
    pub fn waiting(&self, lane: Lane) -> Option<Ticket> {
        self.again.get(&lane)?.first().copied()
    }

    /// The oldest message that may set out for the first time.
    #[must_use]
    pub fn ready(&self) -> Option<Ticket> {
        self.ready.first().copied()
    }

    /// Takes a message that was just sealed; with a spool it waits until it is in there.
    pub fn seal(&mut self, sealed: Sealed, enqueued: Mono, spooled: bool) {
        let ticket = self.add(sealed, enqueued);
        let place = if spooled { &mut self.unspooled } else { &mut self.ready };
        place.insert(ticket);
    }

    /// Takes over a message of a former incarnation, which may have been sent before.
    pub fn adopt(&mut self, sealed: Sealed, now: Mono) {
        let lane = sealed.lane;
        let ticket = self.add(sealed, now);
        if let Some(sent) = self.sent.get_mut(&ticket) {
            (sent.attempts, sent.adopted) = (1, true);
            self.adopted.messages += 1;
            self.adopted.bytes += sent.sealed.payload.len();
        }
        self.again.entry(lane).or_default().insert(ticket);
    }

    fn add(&mut self, sealed: Sealed, enqueued: Mono) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.bytes += sealed.payload.len();
        self.samples = self.samples.saturating_add(sealed.samples);
        let sent = Sent { sealed, enqueued, adopted: false, attempts: 0, failures_in_a_row: 0 };
        self.sent.insert(ticket, sent);
        ticket
    }

    /// A batch with all that is sealed so far is being written.
    pub fn on_spooling(&mut self) {
        self.spooling.append(&mut self.unspooled);
    }

    /// That batch is safe.
    pub fn on_spooled(&mut self) {
        self.ready.append(&mut self.spooling);
    }

    /// There is no spool any more that a message could wait for.
    pub fn on_spool_failed(&mut self) {
        self.ready.append(&mut self.spooling);
        self.ready.append(&mut self.unspooled);
    }

    /// A message that is ready or waits sets out; tells whether it did before.
    pub fn send(&mut self, now: Mono, ticket: Ticket) -> Option<(&Sent, Publish, bool)> {
        let sent = self.sent.get_mut(&ticket)?;
        sent.attempts += 1;
        self.ready.remove(&ticket);
        self.again.entry(sent.sealed.lane).or_default().remove(&ticket);
        self.in_flight.insert(ticket, now);
        let publish = sent.sealed.publish(ticket, 0);
        Some((sent, publish, sent.attempts > 1))
    }

    /// Messages that are stored although nobody acknowledged them.
    #[must_use]
    pub fn covered_by(&self, confirmation: &Confirmation) -> Vec<Ticket> {
        let stored = |sealed: &Sealed| {
            let mut runs = confirmation.runs.iter();
            runs.any(|run| run.incarnation == sealed.incarnation && run.covers(sealed.seq))
        };
        let covered = self.sent.iter().filter(|(_, sent)| stored(&sent.sealed));
        covered.map(|(ticket, _)| *ticket).collect()
    }

    /// A message came back without an answer and waits; false when it was not on its way.
    pub fn release(&mut self, ticket: Ticket) -> bool {
        let was_in_flight = self.in_flight.remove(&ticket).is_some();
        if was_in_flight {
            self.wait_again(ticket);
        }
        was_in_flight
    }

    /// A message did not set out after all; tells whether this would have been a repetition.
    pub fn take_back(&mut self, ticket: Ticket) -> bool {
        let Some(sent) = self.sent.get_mut(&ticket) else { return false };
        let was_before = sent.attempts > 1;
        sent.attempts = sent.attempts.saturating_sub(1);
        was_before
    }

    /// A message was not acknowledged; false when it was not on its way. After too many failures
    /// in a row it rests, so that one which the broker cannot take holds up no other.
    pub fn fail(&mut self, ticket: Ticket, rests_until: Mono) -> bool {
        if self.in_flight.remove(&ticket).is_none() {
            return false;
        }
        let Some(sent) = self.sent.get_mut(&ticket) else { return false };
        sent.failures_in_a_row += 1;
        if sent.failures_in_a_row < ATTEMPTS_IN_A_ROW_MAX {
            self.wait_again(ticket);
        } else {
            sent.failures_in_a_row = 0;
            self.resting.insert(ticket, rests_until);
        }
        true
    }

    fn wait_again(&mut self, ticket: Ticket) {
        if let Some(sent) = self.sent.get(&ticket) {
            self.again.entry(sent.sealed.lane).or_default().insert(ticket);
        }
    }

    /// Lets a message go.
    pub fn remove(&mut self, ticket: Ticket) -> Option<Sent> {
        let sent = self.sent.remove(&ticket)?;
        self.again.entry(sent.sealed.lane).or_default().remove(&ticket);
        for place in [&mut self.unspooled, &mut self.spooling, &mut self.ready] {
            place.remove(&ticket);
        }
        self.in_flight.remove(&ticket);
        self.resting.remove(&ticket);
        self.bytes -= sent.sealed.payload.len();
        if sent.adopted {
            self.adopted.messages -= 1;
            self.adopted.bytes -= sent.sealed.payload.len();
        }
        self.samples = self.samples.saturating_sub(sent.sealed.samples);
        Some(sent)
    }

    /// A new connection knows nothing of the one before: all that is here waits to go again.
    pub fn on_connected(&mut self) {
        let unanswered = std::mem::take(&mut self.in_flight).into_keys();
        let resting = std::mem::take(&mut self.resting).into_keys();
        unanswered.chain(resting).for_each(|ticket| self.wait_again(ticket));
        self.sent.values_mut().for_each(|sent| sent.failures_in_a_row = 0);
    }

    /// Messages whose acknowledgement is overdue.
    #[must_use]
    pub fn overdue(&self, now: Mono) -> Vec<Ticket> {
        let late = self.in_flight.iter().filter(|(_, sent)| now.since(**sent) >= ACK_WAIT);
        late.map(|(ticket, _)| *ticket).collect()
    }

    /// Lets messages that have rested wait again.
    pub fn wake(&mut self, now: Mono) {
        let rested = self.resting.iter().filter(|(_, until)| now >= **until);
        for ticket in rested.map(|(ticket, _)| *ticket).collect::<Vec<_>>() {
            self.resting.remove(&ticket);
            self.wait_again(ticket);
        }
    }

    /// When the next message is overdue or has rested.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let overdue = self.in_flight.values().min().map(|sent| sent.plus(ACK_WAIT));
        overdue.into_iter().chain(self.resting.values().min().copied()).min()
    }
}
