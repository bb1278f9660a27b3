//! Messages that the broker has acknowledged and no aggregator has confirmed.
//!
//! A broker may lose what it acknowledged. So a copy is kept until an aggregator confirms that it
//! is stored, and sent again when the aggregator reports it missing, or when no confirmation
//! arrives for a long time. The number of copies is bounded: at the bound nothing new is sealed
//! for a grace time, and then the oldest copies are evicted and counted. Where more than one
//! aggregator must confirm, a copy stays until as many different ones have.
//!
//! DESIGN N1, N2.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{
    CONFIRMATION_PROBE_MAX, LEAVE_PROBE_AFTER, RESEND_AFTER, RESEND_AFTER_MAX, SPOOL_AGE_MAX,
    TAKEN_IDS_MAX, UNCONFIRMED_GRACE,
};
use plimsoll_schemas::backoff::Backoff;
use plimsoll_schemas::limits::delivery::CONFIRMATION_PROBE_AFTER;
use plimsoll_schemas::limits::wire::CONFIRMED_INCARNATIONS_MAX;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::transport::{Publish, Ticket};
use plimsoll_schemas::wire::confirmation::{Confirmation, ConfirmedIncarnation};

use super::confirmer_set::{ConfirmerSet, ConfirmerTable};
use super::message_id::IdOf;
use super::sealed::SealedMessage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnconfirmedBounds {
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
    /// How many aggregators must confirm a message before its copy is removed.
    pub required: u32,
}

/// Messages that will be copies once they are acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpcomingCopies {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

#[derive(Debug)]
struct UnconfirmedCopy {
    message: SealedMessage,
    /// A former incarnation sealed it, and may have sent it again as this one does.
    adopted: bool,
    acknowledged: Mono,
    resends: u32,
    /// Not sent again before this time.
    rests_until: Mono,
    /// Which aggregators have confirmed it.
    confirmed_by: ConfirmerSet,
}

#[derive(Debug)]
pub(super) struct Unconfirmed {
    bounds: UnconfirmedBounds,
    confirmers: ConfirmerTable,
    copies: BTreeMap<Ticket, UnconfirmedCopy>,
    bytes: usize,
    samples: u64,
    /// Due for a resend.
    due: BTreeMap<Lane, BTreeSet<Ticket>>,
    /// Sent again at this time and not yet answered.
    in_flight: BTreeMap<Ticket, Mono>,
    pub(super) has_confirmation: bool,
    /// When the newest copy is sent again because no confirmation arrives.
    probe_at: Mono,
    probe_pause: Duration,
    /// Nothing rests before its first resend.
    leaving: bool,
}

impl Unconfirmed {
    pub(super) fn new(bounds: UnconfirmedBounds) -> Self {
        Self {
            bounds,
            confirmers: ConfirmerTable::default(),
            copies: BTreeMap::new(),
            bytes: 0,
            samples: 0,
            due: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            has_confirmation: false,
            probe_at: Mono(0).plus(CONFIRMATION_PROBE_AFTER),
            probe_pause: CONFIRMATION_PROBE_AFTER,
            leaving: false,
        }
    }

    /// The node is leaving and has no time to let a message rest: from here on the first
    /// confirmation that leaves one out has it sent again. What was merely unread then arrives
    /// twice and is merged once.
    pub(super) fn on_leave(&mut self, now: Mono) {
        self.leaving = true;
        self.copies.values_mut().for_each(|copy| copy.rests_until = copy.acknowledged);
        self.probe_at = self.probe_at.min(now.plus(LEAVE_PROBE_AFTER));
    }

    pub(super) fn messages(&self) -> usize {
        self.copies.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn in_flight_bytes(&self) -> usize {
        let copies = self.in_flight.keys().filter_map(|ticket| self.copies.get(ticket));
        copies.map(|copy| copy.message.payload.len()).sum()
    }

    pub(super) fn bytes_of(&self, ticket: Ticket) -> usize {
        self.copies.get(&ticket).map_or(0, |copy| copy.message.payload.len())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SealedMessage> {
        self.copies.values().map(|copy| &copy.message)
    }

    /// Whether nothing new should be sealed.
    pub(super) fn is_full(&self, upcoming: UpcomingCopies) -> bool {
        self.copies.len() + upcoming.messages >= self.bounds.messages
            || self.bytes + upcoming.bytes >= self.bounds.bytes
    }

    /// The broker has acknowledged a message for the first time.
    pub(super) fn insert(
        &mut self,
        now: Mono,
        ticket: Ticket,
        message: SealedMessage,
        adopted: bool,
    ) {
        // The silence of aggregators counts from the first message that they could confirm.
        if self.copies.is_empty() && !self.has_confirmation {
            self.probe_at = now.plus(self.probe_pause);
        }
        self.bytes += message.payload.len();
        self.samples = self.samples.saturating_add(message.samples);

        let rests_until = if self.leaving { now } else { now.plus(RESEND_AFTER) };
        let confirmed_by = ConfirmerSet::default();

        let copy = UnconfirmedCopy {
            message,
            adopted,
            acknowledged: now,
            resends: 0,
            rests_until,
            confirmed_by,
        };

        self.copies.insert(ticket, copy);
    }

    /// Notes what is stored. Removes what as many aggregators as required have confirmed, and
    /// returns its tickets; schedules what is missing for a resend.
    pub(super) fn on_confirmation(
        &mut self,
        now: Mono,
        confirmation: &Confirmation,
    ) -> Vec<Ticket> {
        (self.has_confirmation, self.probe_pause) = (true, CONFIRMATION_PROBE_AFTER);
        self.probe_at = now.plus(self.probe_pause);
        let name = confirmation.issue.as_ref().map(|issue| &issue.aggregator);
        let (confirmer, replaced) = self.confirmers.place(name, now);

        let confirmed_of = |copy: &UnconfirmedCopy| -> Option<&ConfirmedIncarnation> {
            confirmation
                .incarnations
                .iter()
                .find(|confirmed| confirmed.incarnation == copy.message.incarnation)
        };

        // A list of full length may have been cut: an incarnation that is absent may be stored all
        // the same.
        let names_all = confirmation.incarnations.len() < CONFIRMED_INCARNATIONS_MAX;

        let (mut stored, mut missing) = (Vec::new(), Vec::new());

        for (ticket, copy) in &mut self.copies {
            // The bit stands for another aggregator from here on, which has confirmed none of
            // these.
            if replaced {
                copy.confirmed_by.remove(confirmer);
            }
            match confirmed_of(copy) {
                Some(confirmed) if confirmed.covers(copy.message.seq) => {
                    copy.confirmed_by.add(confirmer);
                    if copy.confirmed_by.len() >= self.bounds.required {
                        stored.push(*ticket);
                    }
                }
                // One that is behind may have it unread: a resend would add to its backlog (N2).
                Some(confirmed)
                    if !confirmation.behind && !confirmed.is_unknown(copy.message.seq) =>
                {
                    missing.push(*ticket);
                }
                None if !confirmation.behind && names_all => missing.push(*ticket),
                Some(_) | None => {}
            }
        }

        // A confirmation of some age could not cover what was acknowledged after it was written.
        let as_of = now.minus(confirmation.age);
        missing.into_iter().for_each(|ticket| self.send_again(as_of, ticket));
        stored.retain(|ticket| self.remove(*ticket).is_some());
        stored
    }

    fn send_again(&mut self, now: Mono, ticket: Ticket) {
        let Some(copy) = self.copies.get(&ticket) else { return };
        if now >= copy.rests_until && !self.in_flight.contains_key(&ticket) {
            self.due.entry(copy.message.lane).or_default().insert(ticket);
        }
    }

    /// The oldest copy of a lane that is due for a resend.
    pub(super) fn waiting(&self, lane: Lane) -> Option<Ticket> {
        self.due.get(&lane)?.first().copied()
    }

    pub(super) fn send(&mut self, now: Mono, ticket: Ticket) -> Option<Publish> {
        let copy = self.copies.get_mut(&ticket)?;
        copy.resends += 1;
        let rest = Backoff::new(RESEND_AFTER, RESEND_AFTER_MAX).span(copy.resends);
        copy.rests_until = now.plus(rest);
        self.due.entry(copy.message.lane).or_default().remove(&ticket);
        self.in_flight.insert(ticket, now);
        // Under another id: a broker that lost a message may still have its id, and would discard
        // the copy as a duplicate (N2).
        Some(copy.message.publish(ticket, IdOf::Copy(copy.resends)))
    }

    /// The stream has the id of a resend, which only this process has used and once: someone else
    /// has used it. The next resend, which has another id, is due at once; false if a former
    /// incarnation may have used it, or after `TAKEN_IDS_MAX` resends.
    pub(super) fn rename_taken(&mut self, ticket: Ticket) -> bool {
        let Some(copy) = self.copies.get(&ticket) else { return false };
        let is_taken = !copy.adopted && copy.resends <= TAKEN_IDS_MAX;
        if !is_taken || self.in_flight.remove(&ticket).is_none() {
            return false;
        }
        self.due.entry(copy.message.lane).or_default().insert(ticket);
        true
    }

    /// A resend was answered, whatever the answer; false if none was in flight. It is sent again
    /// if an aggregator still reports it missing.
    pub(super) fn on_answered(&mut self, ticket: Ticket) -> bool {
        self.in_flight.remove(&ticket).is_some()
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<SealedMessage> {
        let UnconfirmedCopy { message, .. } = self.copies.remove(&ticket)?;
        self.bytes -= message.payload.len();
        self.samples = self.samples.saturating_sub(message.samples);
        self.due.entry(message.lane).or_default().remove(&ticket);
        self.in_flight.remove(&ticket);
        Some(message)
    }

    /// Evicts the oldest copy if its grace time is over, and returns its ticket.
    pub(super) fn evict_oldest(&mut self, now: Mono) -> Option<Ticket> {
        let (ticket, copy) = self.copies.first_key_value()?;
        let over = now.since(copy.acknowledged) >= UNCONFIRMED_GRACE;
        let ticket = over.then_some(*ticket)?;
        self.remove(ticket).map(|_| ticket)
    }

    /// Removes the oldest copy if it is so old that an aggregator may have evicted its sequence.
    pub(super) fn expire(&mut self, now: Mono) -> Option<Ticket> {
        let (ticket, copy) = self.copies.first_key_value()?;
        let ticket = (now.since(copy.acknowledged) >= SPOOL_AGE_MAX).then_some(*ticket)?;
        self.remove(ticket).map(|_| ticket)
    }

    /// When the oldest copy may be evicted.
    pub(super) fn evictable_at(&self) -> Option<Mono> {
        self.copies.values().next().map(|copy| copy.acknowledged.plus(UNCONFIRMED_GRACE))
    }

    /// Resends whose acknowledgement is overdue after `wait`.
    pub(super) fn overdue(&self, now: Mono, wait: Duration) -> Vec<Ticket> {
        let overdue = self.in_flight.iter().filter(|(_, sent)| now.since(**sent) >= wait);
        overdue.map(|(ticket, _)| *ticket).collect()
    }

    /// No answer to what was sent on an earlier connection will arrive.
    pub(super) fn on_connected(&mut self) {
        self.in_flight.clear();
    }

    /// Sends the newest copy again when no confirmation has arrived for a long time: once an
    /// aggregator merges it, it can report what else it misses.
    pub(super) fn on_deadline(&mut self, now: Mono) {
        if self.copies.is_empty() || now < self.probe_at {
            return;
        }
        // One is enough: an aggregator that merges it names the others that it lacks.
        if let Some(newest) = self.copies.keys().next_back().copied() {
            self.send_again(now, newest);
        }
        self.probe_pause = (self.probe_pause * 2).min(CONFIRMATION_PROBE_MAX);
        self.probe_at = now.plus(self.probe_pause);
    }

    /// When [`Self::on_deadline`], [`Self::expire`] or [`Self::overdue`] next has something to do.
    pub(super) fn next_deadline(&self, wait: Duration) -> Option<Mono> {
        let overdue = self.in_flight.values().min().map(|sent| sent.plus(wait));
        let probe = (!self.copies.is_empty()).then_some(self.probe_at);
        let oldest = self.copies.values().next();
        let expires = oldest.map(|copy| copy.acknowledged.plus(SPOOL_AGE_MAX));
        overdue.into_iter().chain(probe).chain(expires).min()
    }
}

#[cfg(test)]
mod tests;
