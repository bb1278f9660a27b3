//! Messages on their way to the broker: bounded, in order, nothing forgotten.
//!
//! A message begins as a draft. When it may be sent it is sealed: it gets its seq and its bytes,
//! and keeps both. With a spool it then waits until it is in there; the broker acknowledges it,
//! or refuses it for good; an acknowledged one is kept ([`entrusted`](super::entrusted)) until an
//! aggregator confirms that it is stored. Under pressure drafts are merged
//! ([`queue`](super::queue)), then new ones go by the emergency lane, and only then are dropped
//! ([`pressure`](super::pressure)). What is sealed is never pushed out, because it may already
//! be at the broker.
//!
//! Messages: `attempted = published + dropped + refused + coalesced + held` and
//! `published = confirmed + released + entrusted`, at every moment.

mod answers;
mod entering;
mod sending;

pub use answers::Forged;

use std::collections::BTreeMap;

use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::Bus;

use super::bounds::OutboxBounds;
use super::breaker::{Breaker, BreakerState};
use super::draft::{Draft, DraftId, DraftIds};
use super::entrusted::Entrusted;
use super::flight::{Adopted, Flight};
use super::pressure::Pressure;
use super::queue::Queue;
pub use super::sealed::{Publish, Sealed, Ticket};
use super::tokens::TokenBucket;

/// The outbox.
pub struct Outbox {
    bounds: OutboxBounds,
    draft_ids: DraftIds,
    normal: Queue,
    emergency: Queue,
    /// Waits until nothing else does, so that it has the highest seq.
    farewell: Option<(Lane, Draft)>,
    flight: Flight,
    entrusted: Entrusted,
    /// The greatest number sent, of each incarnation that is still held.
    newest_sent: BTreeMap<Incarnation, Seq>,
    next_seq: Seq,
    /// Whether a sealed message must be in a spool before it may be sent.
    spooled: bool,
    leaving: bool,
    pressure: Pressure,
    tokens: TokenBucket,
    /// When the emergency lane has a token again, while it has none.
    token_at: Option<Mono>,
    /// When a copy may be let go that is in the way of a draft.
    room_at: Option<Mono>,
    breaker: Breaker,
    connected: bool,
    resume_at: Option<Mono>,
    depth_max: usize,
    account: Bus,
    /// Events in no message any more, by reason.
    events_lost: BTreeMap<&'static str, u64>,
}

impl Outbox {
    /// An empty outbox of this run of the node, which waits for its first connection.
    #[must_use]
    pub fn new(incarnation: Incarnation, bounds: OutboxBounds) -> Self {
        Self {
            draft_ids: DraftIds::default(),
            normal: Queue::default(),
            emergency: Queue::default(),
            farewell: None,
            flight: Flight::default(),
            entrusted: Entrusted::new(bounds.entrusted),
            newest_sent: BTreeMap::from([(incarnation, Seq(0))]),
            next_seq: Seq(1),
            spooled: false,
            leaving: false,
            pressure: Pressure::new(bounds.marks),
            tokens: TokenBucket::new(
                bounds.emergency_per_minute,
                bounds.emergency_burst,
                bounds.emergency_reserved,
            ),
            token_at: None,
            room_at: None,
            breaker: Breaker::new(bounds.breaker_failures, bounds.breaker_open),
            connected: false,
            resume_at: None,
            depth_max: 0,
            account: Bus::default(),
            events_lost: BTreeMap::new(),
            bounds,
        }
    }

    fn queue(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::Normal => &mut self.normal,
            Lane::Emergency => &mut self.emergency,
        }
    }

    /// Sending may begin. What was in flight on an earlier connection is sent again: the broker
    /// and the aggregator both recognise a repetition.
    pub fn on_connected(&mut self) {
        self.connected = true;
        self.resume_at = None;
        self.breaker.on_connected();
        self.flight.on_connected();
        self.entrusted.on_connected();
    }

    /// Sending must pause.
    pub fn on_disconnected(&mut self) {
        self.connected = false;
    }

    /// Gives the run another name, before anything of it was sealed.
    pub fn rename(&mut self, incarnation: Incarnation) {
        self.newest_sent = BTreeMap::from([(incarnation, Seq(0))]);
    }

    /// Hears how far a former incarnation has come.
    pub fn know(&mut self, incarnation: Incarnation, newest: Seq) {
        self.newest_sent.insert(incarnation, newest);
    }

    /// All drafts, with the lanes they are to go by.
    pub fn drafts(&self) -> impl Iterator<Item = (DraftId, Lane, &Draft)> {
        let normal = self.normal.iter().map(|draft| (Lane::Normal, draft));
        let emergency = self.emergency.iter().map(|draft| (Lane::Emergency, draft));
        let farewell = self.farewell.iter().map(|(lane, draft)| (*lane, draft));
        let drafts = normal.chain(emergency).chain(farewell);
        drafts.map(|(lane, draft)| (draft.id, lane, draft))
    }

    /// All messages that are sealed and not confirmed.
    pub fn sealed(&self) -> impl Iterator<Item = &Sealed> {
        self.flight.iter().map(|(_, sent)| &sent.sealed).chain(self.entrusted.iter())
    }

    /// The greatest number sealed in this run.
    #[must_use]
    pub fn newest_sealed(&self) -> Seq {
        Seq(self.next_seq.0 - 1)
    }

    /// Whether a farewell no longer waits to be sealed.
    #[must_use]
    pub fn is_farewell_sealed(&self) -> bool {
        self.farewell.is_none()
    }

    /// Whether a sealed message must be in a spool before it may be sent.
    pub fn set_spooled(&mut self, spooled: bool) {
        self.spooled = spooled;
    }

    /// All that is sealed so far is being written to the spool.
    pub fn on_spooling(&mut self) {
        self.flight.on_spooling();
    }

    /// That is safe now, and may be sent.
    pub fn on_spooled(&mut self) {
        self.flight.on_spooled();
    }

    /// There is no spool that a message could wait for, until it is written anew.
    pub fn on_spool_failed(&mut self) {
        self.spooled = false;
        self.flight.on_spool_failed();
    }

    /// The node is leaving. Drafts that wait for a token of the emergency lane go by the normal
    /// one after all: there is no later time at which they could.
    pub fn on_leave(&mut self) {
        self.leaving = true;
        self.pressure.on_leave();
        self.normal.prepend(&mut self.emergency);
    }

    /// Whoever was not acknowledged in time waits again. Without a connection that is no
    /// failure: there was nobody who could have answered.
    pub fn on_deadline(&mut self, now: Mono) {
        for ticket in [self.flight.overdue(now), self.entrusted.overdue(now)].concat() {
            if self.connected { self.fail(now, ticket) } else { self.release(ticket) }
        }
        self.flight.wake(now);
        self.entrusted.on_deadline(now);
        while let Some(ticket) = self.entrusted.expire(now) {
            self.breaker.on_released(ticket);
            self.account.released += 1;
        }
        self.resume_at.take_if(|resume_at| now >= *resume_at);
        self.token_at.take_if(|token_at| now >= *token_at);
        self.room_at.take_if(|room_at| now >= *room_at);
        self.pressure.on_deadline(now);
        self.breaker.on_deadline(now);
    }

    fn expires_at(&self) -> Option<Mono> {
        let ttl = self.bounds.ttl?;
        let fronts = [self.normal.front(), self.emergency.front()];
        fronts.into_iter().flatten().map(|draft| draft.latest.plus(ttl)).min()
    }

    /// When something changes without an event from outside.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let pauses = [
            self.flight.next_deadline(),
            self.entrusted.next_deadline(),
            self.room_at,
            self.expires_at(),
            self.resume_at,
            self.token_at,
            self.breaker.next_deadline(),
            self.pressure.next_deadline(),
        ];
        pauses.into_iter().flatten().min()
    }

    /// Counters and depth for the aggregator.
    #[must_use]
    pub fn account(&self) -> Bus {
        Bus {
            outbox_messages: self.depth() as u64,
            outbox_messages_max: self.depth_max as u64,
            outbox_bytes: self.bytes() as u64,
            breaker_state: Some(self.breaker.state().as_number()),
            conservative: self.pressure.is_conservative(),
            entrusted: self.entrusted.messages() as u64,
            ..self.account.clone()
        }
    }

    /// Events and service checks given up before they were sent, by reason.
    #[must_use]
    pub fn events_lost(&self) -> &BTreeMap<&'static str, u64> {
        &self.events_lost
    }

    /// Begins a new measurement of the greatest depth.
    pub fn reset_depth_max(&mut self) {
        self.depth_max = self.depth();
    }

    /// Messages held: drafts, and those sent and not acknowledged.
    #[must_use]
    pub fn depth(&self) -> usize {
        let drafts = self.normal.messages() + self.emergency.messages();
        drafts + usize::from(self.farewell.is_some()) + self.flight.messages()
    }

    fn bytes(&self) -> usize {
        let farewell = self.farewell.as_ref().map_or(0, |(_, draft)| draft.bytes());
        self.normal.bytes() + self.emergency.bytes() + farewell + self.flight.bytes()
    }

    /// Messages and bytes held, without what was adopted.
    fn own(&self) -> (usize, usize) {
        let Adopted { messages, bytes } = self.flight.adopted();
        (self.depth() - messages, self.bytes() - bytes)
    }

    /// Samples in all messages held.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.normal.samples() + self.emergency.samples() + self.flight.samples()
    }

    /// Messages in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flight.in_flight() + self.entrusted.in_flight()
    }

    /// What is acknowledged and not confirmed.
    #[must_use]
    pub fn entrusted(&self) -> &Entrusted {
        &self.entrusted
    }

    /// True when every message has been acknowledged or refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.depth() == 0
    }

    /// Whether messages may be sent.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// What a deep outbox does to new messages.
    #[must_use]
    pub fn pressure(&self) -> &Pressure {
        &self.pressure
    }

    /// Where the breaker stands.
    #[must_use]
    pub fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }
}

#[cfg(test)]
mod tests;
