//! Messages that the broker has acknowledged and no aggregator has confirmed.
//!
//! A broker's word is not enough: it may lose what it acknowledged. So the bytes are kept until
//! an aggregator says that they are stored, and sent again when it says that they are not, or
//! when nobody says anything for long. The number of copies is bounded; past the bound nothing
//! new is sealed for a while, and then the oldest copies are let go, counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{
    CONFIRMATION_PROBE_MAX, ENTRUSTED_PATIENCE, RESEND_AFTER, RESEND_AFTER_MAX, SPOOL_AGE_MAX,
};
use plimsoll_schemas::limits::delivery::{ACK_WAIT, CONFIRMATION_PROBE_AFTER};
use plimsoll_schemas::limits::wire::CONFIRMED_RUNS_MAX;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::confirmation::{Confirmation, Confirmed};

use super::sealed::{Publish, Sealed, Ticket};

/// How many copies there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntrustedBounds {
    /// Messages.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// One copy.
#[derive(Debug)]
pub struct Kept {
    /// The message.
    pub sealed: Sealed,
    acknowledged: Mono,
    resends: u32,
    /// Not sent again before this time.
    rests_until: Mono,
}

/// All copies.
#[derive(Debug)]
pub struct Entrusted {
    bounds: EntrustedBounds,
    kept: BTreeMap<Ticket, Kept>,
    bytes: usize,
    samples: u64,
    /// To be sent again.
    due: BTreeMap<Lane, BTreeSet<Ticket>>,
    /// Sent again at this time and not yet answered.
    in_flight: BTreeMap<Ticket, Mono>,
    /// Whether a confirmation was ever heard.
    heard: bool,
    /// When the newest copy is sent again because nobody says anything.
    probe_at: Mono,
    probe_pause: Duration,
}

impl Entrusted {
    /// No copies yet.
    #[must_use]
    pub fn new(bounds: EntrustedBounds) -> Self {
        Self {
            bounds,
            kept: BTreeMap::new(),
            bytes: 0,
            samples: 0,
            due: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            heard: false,
            probe_at: Mono(0).plus(CONFIRMATION_PROBE_AFTER),
            probe_pause: CONFIRMATION_PROBE_AFTER,
        }
    }

    /// Number of copies.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.kept.len()
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

    /// Copies on their way once more.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether a confirmation was ever heard.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.heard
    }

    /// All copies.
    pub fn iter(&self) -> impl Iterator<Item = &Sealed> {
        self.kept.values().map(|kept| &kept.sealed)
    }

    /// Whether nothing new should be sealed, with `more` messages about to be entrusted.
    #[must_use]
    pub fn is_full(&self, more: (usize, usize)) -> bool {
        self.kept.len() + more.0 >= self.bounds.messages || self.bytes + more.1 >= self.bounds.bytes
    }

    /// The broker has acknowledged a message for the first time.
    pub fn keep(&mut self, now: Mono, ticket: Ticket, sealed: Sealed) {
        if self.kept.is_empty() && !self.heard {
            self.probe_at = now.plus(self.probe_pause);
        }
        self.bytes += sealed.payload.len();
        self.samples = self.samples.saturating_add(sealed.samples);
        let rests_until = now.plus(RESEND_AFTER);
        self.kept.insert(ticket, Kept { sealed, acknowledged: now, resends: 0, rests_until });
    }

    /// Lets go of what is stored, and gives it; marks what is not for being sent again.
    pub fn on_confirmation(&mut self, now: Mono, confirmation: &Confirmation) -> Vec<Ticket> {
        (self.heard, self.probe_pause) = (true, CONFIRMATION_PROBE_AFTER);
        self.probe_at = now.plus(self.probe_pause);
        let run_of = |kept: &Kept| -> Option<&Confirmed> {
            confirmation.runs.iter().find(|run| run.incarnation == kept.sealed.incarnation)
        };
        // In a list that may have been cut, a run that is not named may be stored all the same.
        let names_all = confirmation.runs.len() < CONFIRMED_RUNS_MAX;
        let (mut stored, mut missing) = (Vec::new(), Vec::new());
        for (ticket, kept) in &self.kept {
            match run_of(kept) {
                Some(run) if run.covers(kept.sealed.seq) => stored.push(*ticket),
                Some(run) if !confirmation.behind && !run.is_silent_about(kept.sealed.seq) => {
                    missing.push(*ticket);
                }
                None if !confirmation.behind && names_all => missing.push(*ticket),
                Some(_) | None => {}
            }
        }
        // Who wrote down what it had a while ago could not yet have what rested then.
        let as_of = now.minus(confirmation.age);
        missing.into_iter().for_each(|ticket| self.send_again(as_of, ticket));
        stored.retain(|ticket| self.remove(*ticket).is_some());
        stored
    }

    fn send_again(&mut self, now: Mono, ticket: Ticket) {
        let Some(kept) = self.kept.get(&ticket) else { return };
        if now >= kept.rests_until && !self.in_flight.contains_key(&ticket) {
            self.due.entry(kept.sealed.lane).or_default().insert(ticket);
        }
    }

    /// The oldest message of a lane that is to be sent again.
    #[must_use]
    pub fn waiting(&self, lane: Lane) -> Option<Ticket> {
        self.due.get(&lane)?.first().copied()
    }

    /// A message sets out once more.
    pub fn send(&mut self, now: Mono, ticket: Ticket) -> Option<Publish> {
        let kept = self.kept.get_mut(&ticket)?;
        kept.resends += 1;
        let doublings = kept.resends.min(16);
        let rest = RESEND_AFTER.saturating_mul(1 << doublings).min(RESEND_AFTER_MAX);
        kept.rests_until = now.plus(rest);
        self.due.entry(kept.sealed.lane).or_default().remove(&ticket);
        self.in_flight.insert(ticket, now);
        Some(kept.sealed.publish(ticket, kept.resends))
    }

    /// A message that was sent again is no longer on its way, whatever the answer was; false
    /// when it was not. It goes once more when an aggregator still misses it then.
    pub fn on_answered(&mut self, ticket: Ticket) -> bool {
        self.in_flight.remove(&ticket).is_some()
    }

    /// Lets a copy go.
    pub fn remove(&mut self, ticket: Ticket) -> Option<Sealed> {
        let Kept { sealed, .. } = self.kept.remove(&ticket)?;
        self.bytes -= sealed.payload.len();
        self.samples = self.samples.saturating_sub(sealed.samples);
        self.due.entry(sealed.lane).or_default().remove(&ticket);
        self.in_flight.remove(&ticket);
        Some(sealed)
    }

    /// Lets the oldest copy go if its time is over, and tells which that was.
    pub fn let_go(&mut self, now: Mono) -> Option<Ticket> {
        let (ticket, kept) = self.kept.first_key_value()?;
        let over = now.since(kept.acknowledged) >= ENTRUSTED_PATIENCE;
        let ticket = over.then_some(*ticket)?;
        self.remove(ticket).map(|_| ticket)
    }

    /// Lets go of a copy that is so old that an aggregator may not know of it any more.
    pub fn expire(&mut self, now: Mono) -> Option<Ticket> {
        let (ticket, kept) = self.kept.first_key_value()?;
        let ticket = (now.since(kept.acknowledged) >= SPOOL_AGE_MAX).then_some(*ticket)?;
        self.remove(ticket).map(|_| ticket)
    }

    /// When the oldest copy may be let go.
    #[must_use]
    pub fn patience_ends(&self) -> Option<Mono> {
        self.kept.values().next().map(|kept| kept.acknowledged.plus(ENTRUSTED_PATIENCE))
    }

    /// Repetitions whose acknowledgement is overdue.
    #[must_use]
    pub fn overdue(&self, now: Mono) -> Vec<Ticket> {
        let late = self.in_flight.iter().filter(|(_, sent)| now.since(**sent) >= ACK_WAIT);
        late.map(|(ticket, _)| *ticket).collect()
    }

    /// Nothing that is on its way will be answered on a new connection.
    pub fn on_connected(&mut self) {
        self.in_flight.clear();
    }

    /// When nobody has confirmed anything for long, the newest copy goes again: once it is
    /// merged, an aggregator can tell what else it misses.
    pub fn on_deadline(&mut self, now: Mono) {
        if self.kept.is_empty() || now < self.probe_at {
            return;
        }
        if let Some(newest) = self.kept.keys().next_back().copied() {
            self.send_again(now, newest);
        }
        self.probe_pause = (self.probe_pause * 2).min(CONFIRMATION_PROBE_MAX);
        self.probe_at = now.plus(self.probe_pause);
    }

    /// When something changes without an event from outside.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let overdue = self.in_flight.values().min().map(|sent| sent.plus(ACK_WAIT));
        let probe = (!self.kept.is_empty()).then_some(self.probe_at);
        let oldest = self.kept.values().next();
        let expires = oldest.map(|kept| kept.acknowledged.plus(SPOOL_AGE_MAX));
        overdue.into_iter().chain(probe).chain(expires).min()
    }
}

#[cfg(test)]
mod tests;
