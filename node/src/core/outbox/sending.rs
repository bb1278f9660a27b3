//! Which message goes next, and when a draft becomes one.

use crate::limits::IN_FLIGHT_MAX;
use plimsoll_schemas::ids::Seq;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;

use super::{Outbox, Publish, Sealed, Ticket};
use crate::core::draft::Draft;

/// What may be sent next.
#[derive(Clone, Copy)]
enum Pick {
    Again(Ticket),
    Entrusted(Ticket),
    Draft,
    Farewell,
}

impl Outbox {
    /// The next message, now in flight; `None` while there is no connection, a pause is running,
    /// the breaker is not closed, or enough is in flight. The emergency lane goes first, as far
    /// as its tokens reach; what was sent before goes before what was not. `seal` makes a message
    /// of a draft.
    pub fn next_publish(
        &mut self,
        now: Mono,
        mut seal: impl FnMut(Seq, Lane, Draft) -> Sealed,
    ) -> Option<Publish> {
        while self.may_send(now) {
            if let Some(ticket) = self.flight.ready() {
                return self.send(now, ticket);
            }
            let (lane, pick) = self.pick(now)?;
            let (lane, draft) = match pick {
                Pick::Again(ticket) => return self.send(now, ticket),
                Pick::Entrusted(ticket) => return self.send_entrusted(now, ticket),
                Pick::Draft => (lane, self.queue(lane).pop()?),
                Pick::Farewell => self.farewell.take()?,
            };
            let enqueued = draft.enqueued;
            let sealed = seal(self.next_seq, lane, draft);
            self.next_seq = Seq(self.next_seq.0 + 1);
            self.account.rerouted += u64::from(lane == Lane::Emergency);
            self.flight.seal(sealed, enqueued, self.spooled);
        }
        None
    }

    fn may_send(&self, now: Mono) -> bool {
        let full = self.in_flight() >= IN_FLIGHT_MAX;
        let paused = self.resume_at.is_some_and(|resume_at| now < resume_at);
        self.connected && !paused && !full && self.breaker.lets_pass()
    }

    fn send(&mut self, now: Mono, ticket: Ticket) -> Option<Publish> {
        let (sent, publish, was_before) = self.flight.send(now, ticket)?;
        self.account.retried += u64::from(was_before);
        if let Some(newest) = self.newest_sent.get_mut(&sent.sealed.incarnation) {
            *newest = sent.sealed.seq.max(*newest);
        }
        self.breaker.on_sent(ticket);
        Some(publish)
    }

    fn send_entrusted(&mut self, now: Mono, ticket: Ticket) -> Option<Publish> {
        let publish = self.entrusted.send(now, ticket)?;
        self.account.resent += 1;
        self.breaker.on_sent(ticket);
        Some(publish)
    }

    fn pick(&mut self, now: Mono) -> Option<(Lane, Pick)> {
        let room = self.has_room(now);
        if let Some((pick, critical)) = self.candidate(Lane::Emergency, room) {
            match self.tokens.try_take(now, critical) {
                Ok(()) => return Some((Lane::Emergency, pick)),
                Err(at) => self.token_at = Some(at),
            }
            let first_time = matches!(pick, Pick::Draft) && self.emergency.limit_front();
            self.account.rate_limited += u64::from(first_time);
            let reserved = !critical && self.farewell_of(Lane::Emergency).is_some();
            if reserved && self.tokens.try_take(now, true).is_ok() {
                return Some((Lane::Emergency, Pick::Farewell));
            }
        }
        if self.pressure.is_conservative() {
            return None;
        }
        self.candidate(Lane::Normal, room).map(|(pick, _)| (Lane::Normal, pick))
    }

    /// Whether another draft may be sealed. Where copies take all the room, the oldest is let go
    /// once its time is over, or at once when the node is leaving.
    fn has_room(&mut self, now: Mono) -> bool {
        if self.flight.under_way() >= IN_FLIGHT_MAX {
            return false;
        }
        let under_way = (self.flight.messages(), self.flight.bytes());
        let waits = self.normal.messages() + self.emergency.messages() > 0;
        while waits && self.entrusted.is_full(under_way) {
            let until = if self.leaving { Mono(u64::MAX) } else { now };
            let Some(ticket) = self.entrusted.let_go(until) else {
                self.room_at = self.entrusted.patience_ends();
                return false;
            };
            self.breaker.on_released(ticket);
            self.account.released += 1;
        }
        true
    }

    /// What one lane would send next, and whether it is critical.
    fn candidate(&self, lane: Lane, room: bool) -> Option<(Pick, bool)> {
        let queue = match lane {
            Lane::Normal => &self.normal,
            Lane::Emergency => &self.emergency,
        };
        if let Some(ticket) = self.flight.waiting(lane) {
            return Some((Pick::Again(ticket), false));
        }
        if let Some(ticket) = self.entrusted.waiting(lane) {
            return Some((Pick::Entrusted(ticket), false));
        }
        if let Some(draft) = queue.front() {
            return room.then(|| (Pick::Draft, draft.is_critical()));
        }
        self.farewell_of(lane).map(|draft| (Pick::Farewell, draft.is_critical()))
    }

    /// The farewell, once no draft is left that could have a higher seq.
    fn farewell_of(&self, lane: Lane) -> Option<&Draft> {
        let alone = self.normal.messages() + self.emergency.messages() == 0;
        let (wanted, draft) = self.farewell.as_ref().filter(|_| alone)?;
        (*wanted == lane).then_some(draft)
    }
}
