//! Messages that the broker has not acknowledged yet: bounded, in order, nothing forgotten.
//!
//! A message begins as a draft. It gets its seq and its bytes when it is first handed out, and
//! keeps both: whatever is sent again is the same message. It leaves by an acknowledgement or by
//! being refused for good. Under pressure drafts are merged ([`queue`](super::queue)), then new
//! ones go by the emergency lane, and only then are dropped ([`pressure`](super::pressure)).
//! What is inside is never pushed out, because it may already be at the broker.
//!
//! Messages: `attempted = published + dropped + refused + coalesced + held`, at every moment.

use plimsoll_schemas::ids::Seq;
use plimsoll_schemas::limits::node::{IN_FLIGHT_MAX, RETRY_PAUSE};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::Bus;

use super::bounds::OutboxBounds;
use super::breaker::{Breaker, BreakerState};
use super::draft::Draft;
pub use super::flight::Publish;
use super::flight::{Flight, Sent};
use super::pressure::{Admission, Pressure};
use super::queue::Queue;
use super::tokens::TokenBucket;

/// What may be sent next.
#[derive(Clone, Copy)]
enum Pick {
    Again(Seq),
    Draft,
    Farewell,
}

/// The outbox.
pub struct Outbox {
    bounds: OutboxBounds,
    normal: Queue,
    emergency: Queue,
    /// Waits until nothing else does, so that it has the highest seq.
    farewell: Option<(Lane, Draft)>,
    flight: Flight,
    next_seq: Seq,
    pressure: Pressure,
    tokens: TokenBucket,
    /// When the emergency lane has a token again, while it has none.
    token_at: Option<Mono>,
    breaker: Breaker,
    connected: bool,
    resume_at: Option<Mono>,
    depth_max: usize,
    account: Bus,
}

impl Outbox {
    /// An empty outbox that waits for its first connection.
    #[must_use]
    pub fn new(bounds: OutboxBounds) -> Self {
        Self {
            normal: Queue::default(),
            emergency: Queue::default(),
            farewell: None,
            flight: Flight::default(),
            next_seq: Seq(1),
            pressure: Pressure::new(bounds.marks),
            tokens: TokenBucket::new(
                bounds.emergency_per_minute,
                bounds.emergency_burst,
                bounds.emergency_reserved,
            ),
            token_at: None,
            breaker: Breaker::new(bounds.breaker_failures, bounds.breaker_open),
            connected: false,
            resume_at: None,
            depth_max: 0,
            account: Bus::default(),
            bounds,
        }
    }

    /// Takes a new message, or counts it as dropped and gives it back.
    ///
    /// # Errors
    /// When there is no room for it; its samples are the caller's to account for. The farewell
    /// carries none and always has a place.
    pub fn try_push(&mut self, now: Mono, draft: Draft) -> Result<(), Box<Draft>> {
        self.account.attempted += 1;
        let admission = self.pressure.admit(now, self.depth());
        let calm = admission == Admission::Normal;
        let lane = if calm { Lane::Normal } else { Lane::Emergency };
        if draft.last && self.farewell.is_none() {
            self.farewell = Some((lane, draft));
        } else if let Err(draft) = self.try_enqueue(admission, lane, draft) {
            self.account.dropped += 1;
            return Err(draft);
        }
        self.coalesce();
        self.depth_max = self.depth_max.max(self.depth());
        Ok(())
    }

    fn try_enqueue(
        &mut self,
        admission: Admission,
        lane: Lane,
        draft: Draft,
    ) -> Result<(), Box<Draft>> {
        if admission == Admission::Drop {
            return Err(Box::new(draft));
        }
        if self.bytes() + draft.bytes() <= self.bounds.bytes_max {
            self.queue(lane).push(draft);
            return Ok(());
        }
        let others = self.bytes() - self.queue(lane).bytes();
        let room = self.bounds.bytes_max.saturating_sub(others);
        self.queue(lane).try_join_newest(draft, room)?;
        self.account.coalesced += 1;
        Ok(())
    }

    fn coalesce(&mut self) {
        let bounds = (self.bounds.coalesce_messages, self.bounds.coalesce_bytes);
        while self.depth() > bounds.0 || self.bytes() > bounds.1 {
            if !(self.normal.coalesce() || self.emergency.coalesce()) {
                break;
            }
            self.account.coalesced += 1;
        }
        self.pressure.on_depth(self.depth());
    }

    /// The next message, now in flight; `None` while there is no connection, a pause is running,
    /// the breaker is not closed, or enough is in flight. The emergency lane goes first, as far
    /// as its tokens reach; what was sent before goes before what was not. A draft is made a
    /// message by `seal`.
    pub fn next_publish(
        &mut self,
        now: Mono,
        seal: impl FnOnce(Seq, Lane, Draft) -> Publish,
    ) -> Option<Publish> {
        let full = self.flight.in_flight() >= IN_FLIGHT_MAX;
        let paused = self.resume_at.is_some_and(|resume_at| now < resume_at);
        if !self.connected || paused || full || !self.breaker.lets_pass() {
            return None;
        }
        let (lane, pick) = self.pick(now)?;
        let publish = match pick {
            Pick::Again(seq) => {
                let (publish, was_before) = self.flight.send_again(now, seq)?;
                self.account.retried += u64::from(was_before);
                publish
            }
            Pick::Draft => {
                let draft = self.queue(lane).pop()?;
                self.send_first(now, lane, draft, seal)
            }
            Pick::Farewell => {
                let (lane, draft) = self.farewell.take()?;
                self.send_first(now, lane, draft, seal)
            }
        };
        self.breaker.on_sent(publish.seq);
        Some(publish)
    }

    fn pick(&mut self, now: Mono) -> Option<(Lane, Pick)> {
        if let Some((pick, critical)) = self.candidate(Lane::Emergency) {
            match self.tokens.try_take(now, critical) {
                Ok(()) => return Some((Lane::Emergency, pick)),
                Err(at) => self.token_at = Some(at),
            }
            let first_time = matches!(pick, Pick::Draft) && self.emergency.limit_front();
            self.account.rate_limited += u64::from(first_time);
        }
        if self.pressure.is_conservative() {
            return None;
        }
        self.candidate(Lane::Normal).map(|(pick, _)| (Lane::Normal, pick))
    }

    /// What one lane would send next, and whether it is critical.
    fn candidate(&self, lane: Lane) -> Option<(Pick, bool)> {
        let queue = match lane {
            Lane::Normal => &self.normal,
            Lane::Emergency => &self.emergency,
        };
        if let Some(seq) = self.flight.waiting(lane) {
            return Some((Pick::Again(seq), false));
        }
        if let Some(draft) = queue.front() {
            return Some((Pick::Draft, draft.is_critical()));
        }
        let alone = self.normal.messages() + self.emergency.messages() == 0;
        let farewell = self.farewell.as_ref().filter(|(wanted, _)| alone && *wanted == lane);
        farewell.map(|(_, draft)| (Pick::Farewell, draft.is_critical()))
    }

    fn send_first(
        &mut self,
        now: Mono,
        lane: Lane,
        draft: Draft,
        seal: impl FnOnce(Seq, Lane, Draft) -> Publish,
    ) -> Publish {
        let (samples, enqueued) = (draft.samples(), draft.enqueued);
        let publish = seal(self.next_seq, lane, draft);
        self.next_seq = Seq(self.next_seq.0 + 1);
        self.account.rerouted += u64::from(lane == Lane::Emergency);
        let sent = Sent::new(publish.clone(), lane, samples, enqueued);
        self.flight.send_first(now, sent);
        publish
    }

    fn queue(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::Normal => &mut self.normal,
            Lane::Emergency => &mut self.emergency,
        }
    }

    /// The message could not be handed over: it waits again, as if never sent.
    pub fn on_not_taken(&mut self, now: Mono, seq: Seq) {
        self.account.retried -= u64::from(self.flight.take_back(seq));
        self.release(seq);
        self.resume_at = Some(now.plus(RETRY_PAUSE / 10));
    }

    /// The message did not reach the broker now: it waits again, and everything pauses.
    pub fn on_deferred(&mut self, now: Mono, seq: Seq) {
        self.release(seq);
        self.resume_at = Some(now.plus(RETRY_PAUSE));
    }

    /// The broker did not take it now, which is a failure of the broker's.
    pub fn on_declined(&mut self, now: Mono, seq: Seq) {
        self.fail(now, seq);
        self.resume_at = Some(now.plus(RETRY_PAUSE));
    }

    fn release(&mut self, seq: Seq) {
        if self.flight.release(seq) {
            self.breaker.on_released(seq);
        }
    }

    fn fail(&mut self, now: Mono, seq: Seq) {
        if self.flight.fail(seq, now.plus(self.bounds.breaker_open)) {
            self.breaker.on_failure(now, seq);
        }
    }

    /// The broker has it; tells when it was enqueued. `None` when that was known already.
    pub fn on_acknowledged(&mut self, seq: Seq) -> Option<Mono> {
        let sent = self.remove(seq)?;
        self.breaker.on_success(seq);
        self.account.published += 1;
        Some(sent.enqueued)
    }

    /// The broker will never take it, for what it is; returns the samples that are lost with it.
    pub fn on_refused(&mut self, seq: Seq) -> Option<u64> {
        let sent = self.remove(seq)?;
        self.breaker.on_released(seq);
        self.account.refused += 1;
        Some(sent.samples)
    }

    fn remove(&mut self, seq: Seq) -> Option<Sent> {
        let sent = self.flight.remove(seq)?;
        self.pressure.on_depth(self.depth());
        Some(sent)
    }

    /// Sending may begin. What was in flight on an earlier connection is sent again: the broker
    /// and the aggregator both recognise a repetition.
    pub fn on_connected(&mut self) {
        self.connected = true;
        self.resume_at = None;
        self.breaker.on_connected();
        self.flight.on_connected();
    }

    /// Sending must pause.
    pub fn on_disconnected(&mut self) {
        self.connected = false;
    }

    /// The node is leaving. Drafts that wait for a token of the emergency lane go by the normal
    /// one after all: there is no later time at which they could.
    pub fn on_leave(&mut self) {
        self.pressure.on_leave();
        self.normal.prepend(&mut self.emergency);
    }

    /// Whoever was not acknowledged in time waits again. Without a connection that is no
    /// failure: there was nobody who could have answered.
    pub fn on_deadline(&mut self, now: Mono) {
        for seq in self.flight.overdue(now) {
            if self.connected { self.fail(now, seq) } else { self.release(seq) }
        }
        self.flight.wake(now);
        self.resume_at.take_if(|resume_at| now >= *resume_at);
        self.token_at.take_if(|token_at| now >= *token_at);
        self.pressure.on_deadline(now);
        self.breaker.on_deadline(now);
    }

    /// When something changes without an event from outside.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let pauses = [
            self.flight.next_deadline(),
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
            ..self.account.clone()
        }
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

    /// Samples in all messages held.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.normal.samples() + self.emergency.samples() + self.flight.samples()
    }

    /// Messages in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flight.in_flight()
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
