//! The outbox: messages from their draft until an aggregator has confirmed them.
//!
//! Owns everything that waits to be sent, is in flight, or is acknowledged and not yet confirmed,
//! and decides which message goes next. A message starts as a [`Draft`], which has no number and
//! may be merged. When it may be sent the caller's `seal` turns it into a [`SealedMessage`] with a
//! number and bytes that never change. With a spool, a sealed message waits until it is on disk.
//! The broker acknowledges it, or refuses it until it becomes a dead letter; an acknowledged
//! message is kept as unconfirmed until an aggregator confirms that it is stored.
//!
//! Under pressure drafts are merged first, then new ones go to the emergency lane, then they are
//! dropped. A sealed message is never dropped here: the broker may already have it.
//!
//! Refuses to encode a message, to count samples as recorded or lost, and to do I/O.
//!
//! Invariants, in messages: `attempted = published + dropped + refused + coalesced + combined +
//! held` and `published = confirmed + released + unconfirmed`.

mod amount;
mod bounds;
mod breaker;
mod confirmer_set;
mod dead_letters;
mod draft;
mod drafts;
mod in_flight;
mod message_id;
mod outgoing;
mod pressure;
mod queue;
mod sealed;
mod tokens;
mod unconfirmed;
mod window;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{
    BEHIND_AFTER, BEHIND_KEPT, COALESCED_BYTES_MAX, IN_FLIGHT_MAX, IN_FLIGHT_RESERVED, NEW_FOR,
    NO_STREAM_REST, REFUSALS_MAX, RETRY_PAUSE,
};
use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, nanos};
use plimsoll_schemas::transport::{HEADERS_BYTES_MAX, Publish, Ticket};
use plimsoll_schemas::wire::Bus;
use plimsoll_schemas::wire::confirmation::{Confirmation, ConfirmedIncarnation};

use amount::Amount;
pub use bounds::OutboxBounds;
use breaker::Breaker;
use dead_letters::DeadLetters;
pub use dead_letters::{DeadLetter, DeadLetterReason, DeadLetterStats};
pub(super) use draft::split;
#[cfg(test)]
pub(super) use draft::tests::events as event_drafts;
pub use draft::{Draft, DraftId, Priority};
use draft::{HEADER_BYTES, NODE_LABELS_BYTES_MAX};
pub use drafts::HeldDraft;
use drafts::{Drafts, SealedLoad};
use in_flight::InFlight;
pub use message_id::{IdOf, MessageNonce, message_id};
use outgoing::{Event, NoAnswer, OutgoingMessage};
pub use plimsoll_schemas::wire::BreakerState;
pub use pressure::{OutboxLoad, Pressure, Thresholds};
pub use sealed::SealedMessage;
pub(super) use tokens::TokenBucket;
pub use unconfirmed::UnconfirmedBounds;
use unconfirmed::{Unconfirmed, UpcomingCopies};
use window::SendWindow;

/// A confirmation of a message that was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgedConfirmation;

pub struct Outbox {
    drafts: Drafts,
    in_flight: InFlight,
    unconfirmed: Unconfirmed,
    /// The greatest number sent, by incarnation of which a message is held.
    newest_sent: BTreeMap<Incarnation, Seq>,
    next_seq: Seq,
    /// Whether a sealed message must be in a spool before it may be sent.
    spooled: bool,
    leaving: bool,
    tokens: TokenBucket,
    /// When the emergency lane has a token again, while it has none.
    token_at: Option<Mono>,
    /// When the oldest unconfirmed copy may be evicted to make room for a draft.
    room_at: Option<Mono>,
    breaker: Breaker,
    breaker_open: Duration,
    /// How long messages rest that no stream keeps.
    stream_rest: Duration,
    dead_letters: DeadLetters,
    /// Time between two refusals of a message that count.
    refusal_every: Duration,
    window: SendWindow,
    /// The longest body that the broker's `max_payload` leaves room for.
    payload_body_bytes: usize,
    /// Whether the window kept a message waiting since the last acknowledgement.
    was_window_full: bool,
    /// Until when an aggregator that reported a backlog counts as behind.
    aggregator_behind_until: Option<Mono>,
    connected: bool,
    resume_at: Option<Mono>,
    depth_max: u64,
    pub(super) critical_rerouted: u64,
    pub(super) sent_at_once: u64,
    /// The time of the latest event: ages are as of then.
    now: Mono,
    stats: Bus,
}

/// The message that may be sent next.
#[derive(Clone, Copy)]
enum Candidate {
    Retry(Ticket),
    Resend(Ticket),
    Draft,
    Final,
}

impl Outbox {
    /// An empty outbox of this incarnation, without a connection.
    pub fn new(incarnation: Incarnation, bounds: OutboxBounds) -> Self {
        Self {
            in_flight: InFlight::default(),
            unconfirmed: Unconfirmed::new(bounds.unconfirmed),
            // With an entry from the start, so that a confirmation before the first message is
            // forged too.
            newest_sent: BTreeMap::from([(incarnation, Seq(0))]),
            next_seq: Seq(1),
            spooled: false,
            leaving: false,
            tokens: TokenBucket::new(
                bounds.emergency_per_minute,
                bounds.emergency_burst,
                bounds.emergency_reserved,
            ),
            token_at: None,
            room_at: None,
            breaker: Breaker::new(bounds.breaker_failures),
            breaker_open: bounds.breaker_open,
            stream_rest: NO_STREAM_REST,
            dead_letters: DeadLetters::default(),
            refusal_every: bounds.refusal_every,
            window: SendWindow::new(),
            payload_body_bytes: usize::MAX,
            was_window_full: false,
            aggregator_behind_until: None,
            connected: false,
            resume_at: None,
            depth_max: 0,
            critical_rerouted: 0,
            sent_at_once: 0,
            now: Mono(0),
            stats: Bus::default(),
            drafts: Drafts::new(bounds),
        }
    }

    /// Accepts a new draft, or counts it as dropped and returns it.
    ///
    /// # Errors
    /// When there is no room for it; the caller counts its samples as lost. The final message
    /// carries none and always has room.
    pub fn try_push(&mut self, now: Mono, draft: Draft) -> Result<(), Box<Draft>> {
        self.stats.attempted += 1;
        self.now = self.now.max(now);
        let is_behind = self.is_behind(now);
        self.drafts.push(now, draft, self.sealed_load(), is_behind)?;
        self.depth_max = self.depth_max.max(self.depth());
        Ok(())
    }

    /// Adopts a message that a former incarnation sealed and may have sent.
    pub fn adopt(&mut self, now: Mono, message: SealedMessage) {
        self.stats.attempted += 1;
        self.in_flight.adopt(message, now);
        self.depth_max = self.depth_max.max(self.depth());
    }

    /// Adopts a draft that a former incarnation had admitted.
    pub fn adopt_draft(&mut self, draft: Draft) {
        self.stats.attempted += 1;
        self.drafts.adopt(draft, self.sealed_load());
        self.depth_max = self.depth_max.max(self.depth());
    }

    /// Accepts a message that was sealed on behalf of a former incarnation.
    pub fn push_sealed(&mut self, now: Mono, message: SealedMessage) {
        self.stats.attempted += 1;
        self.in_flight.add_sealed(message, now, self.spooled);
    }

    /// Drops the next draft that is older than its time to live.
    pub fn expire(&mut self, now: Mono) -> Option<Draft> {
        self.drafts.expire(now, self.sealed_load())
    }

    pub fn lose_events(&mut self, reason: &'static str, events: u64) {
        self.drafts.lose_events(reason, events);
    }

    /// The broker can be reached. What was in flight on an earlier connection is sent again: the
    /// broker and the aggregator both recognise a repetition.
    pub fn on_connected(&mut self) {
        self.connected = true;
        self.resume_at = None;
        self.breaker.on_connected();
        self.in_flight.on_connected();
        self.dead_letters.on_connected();
        self.unconfirmed.on_connected();
    }

    /// Sets the longest message that the broker takes, in bytes with headers; 0 if it states none.
    /// What is longer is divided from here on.
    ///
    /// DESIGN N65.
    pub fn set_payload_max(&mut self, bytes: usize) {
        let beside_body = HEADERS_BYTES_MAX + HEADER_BYTES + NODE_LABELS_BYTES_MAX;
        self.payload_body_bytes =
            if bytes == 0 { usize::MAX } else { bytes.saturating_sub(beside_body) };
    }

    pub fn payload_body_bytes(&self) -> usize {
        self.payload_body_bytes
    }

    /// The longest body of a message that is sealed now.
    fn body_bytes(&self) -> usize {
        self.window.body_bytes().min(self.payload_body_bytes)
    }

    /// The broker cannot be reached, or does not answer: what is on its way may be lost.
    pub fn on_disconnected(&mut self) {
        self.connected = false;
        // With nothing on its way the loss shows nothing about the link: the window stays as it is.
        match self.in_flight.unanswered() {
            0 => self.window.end_measurement(),
            _ => self.window.on_lost(),
        }
    }

    pub fn on_round_trip(&mut self, now: Mono, took: Duration) {
        self.window.on_round_trip(now, took);
    }

    pub fn set_incarnation(&mut self, incarnation: Incarnation) {
        self.newest_sent = BTreeMap::from([(incarnation, Seq(0))]);
    }

    /// Sets the greatest number that a former incarnation may have sent.
    pub fn set_newest_sent(&mut self, incarnation: Incarnation, newest: Seq) {
        self.newest_sent.insert(incarnation, newest);
    }

    pub fn set_spooled(&mut self, spooled: bool) {
        self.spooled = spooled;
    }

    /// A write of everything sealed so far to the spool has started.
    pub fn on_spooling(&mut self) {
        self.in_flight.on_spooling();
    }

    /// That write is on disk; its messages may be sent.
    pub fn on_spooled(&mut self) {
        self.in_flight.on_spooled();
    }

    /// The spool is gone: sealed messages do not wait for it until it is rewritten.
    pub fn on_spool_failed(&mut self) {
        self.spooled = false;
        self.in_flight.on_spool_failed();
    }

    /// The node is leaving. Drafts that wait for a token of the emergency lane go by the normal
    /// one, because the node ends before their tokens arrive.
    pub fn on_leave(&mut self, now: Mono) {
        self.leaving = true;
        self.drafts.on_leave();
        self.unconfirmed.on_leave(now);
    }

    /// Advances time. An overdue acknowledgement is a failure of the broker only while there is
    /// a connection on which it could have answered.
    pub fn on_deadline(&mut self, now: Mono) {
        self.now = self.now.max(now);
        let wait = self.window.acknowledgement_wait();

        for ticket in [self.in_flight.overdue(now), self.unconfirmed.overdue(now, wait)].concat() {
            if !self.connected {
                self.release(ticket, Event::OverdueOffline);
                continue;
            }

            if let Some(sent) = self.in_flight.get(ticket).and_then(OutgoingMessage::departure) {
                // A missing answer halves the rate: the link may have become slower.
                self.window.on_overdue(now, sent);
            }
            self.fail(now, ticket, NoAnswer::Overdue);
        }

        self.in_flight.end_rests(now);
        self.dead_letters.on_deadline(now);
        self.unconfirmed.on_deadline(now);

        while let Some(ticket) = self.unconfirmed.expire(now) {
            self.breaker.on_released(ticket);
            self.stats.released += 1;
        }

        self.resume_at.take_if(|resume_at| now >= *resume_at);
        self.token_at.take_if(|token_at| now >= *token_at);
        self.room_at.take_if(|room_at| now >= *room_at);
        self.drafts.on_deadline(now);
        self.breaker.on_deadline(now);
        self.window.on_deadline(now);
    }

    /// When [`Self::on_deadline`], [`Self::expire`] or [`Self::next_publish`] next has something
    /// to do without an event.
    pub fn next_deadline(&self) -> Option<Mono> {
        let deadlines = [
            self.in_flight.next_deadline(),
            self.dead_letters.next_deadline(),
            self.unconfirmed.next_deadline(self.window.acknowledgement_wait()),
            self.drafts.next_deadline(),
            self.room_at,
            self.resume_at,
            self.token_at,
            self.breaker.next_deadline(),
            self.window.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// The next message, now in flight; `None` while there is no connection, during a pause, while
    /// the breaker is open, or when enough is in flight. The emergency lane goes first as far as
    /// its tokens last; retries go before drafts. `seal` turns a draft into a message.
    pub fn next_publish(
        &mut self,
        now: Mono,
        mut seal: impl FnMut(Seq, Lane, Draft) -> SealedMessage,
    ) -> Option<Publish> {
        let is_empty = self.in_flight.unanswered() + self.unconfirmed.in_flight() == 0;
        self.window.on_load(now, is_empty);

        while self.may_send(now) {
            // A sealed message took its token and its place in the window before it was sealed.
            if let Some(ticket) = self.in_flight.ready() {
                return self.send(now, ticket);
            }

            let (lane, candidate) = self.next_candidate(now)?;

            let (lane, draft) = match candidate {
                Candidate::Retry(ticket) => return self.send(now, ticket),
                Candidate::Resend(ticket) => return self.resend(now, ticket),
                Candidate::Draft => (lane, self.pop_interval(lane)?),
                Candidate::Final => self.drafts.take_final()?,
            };

            let enqueued = draft.enqueued;

            if lane == Lane::Emergency {
                // What the rules declare critical is not delayed, so it does not count as rerouted
                // (N83).
                let is_immediate = draft.priority == Priority::Immediate;
                self.sent_at_once += u64::from(is_immediate);
                self.critical_rerouted += u64::from(draft.is_critical() && !is_immediate);
                self.stats.rerouted += u64::from(!is_immediate);
            }

            // Numbered only now: what was merged or dropped before leaves no gap in the numbers, so
            // a gap at an aggregator always is a message that has not arrived (N12).
            let message = seal(self.next_seq, lane, draft);
            self.next_seq = Seq(self.next_seq.0 + 1);

            // With a spool it is not ready yet, and the loop seals more: one write holds all of
            // them.
            self.in_flight.add_sealed(message, enqueued, self.spooled);
        }

        None
    }

    /// The next draft, with all others of its interval that one message holds beside it.
    ///
    /// DESIGN N65.
    fn pop_interval(&mut self, lane: Lane) -> Option<Draft> {
        let left = self.window.bytes().saturating_sub(self.normal_bytes_on_the_way());
        let (first, more) = self.drafts.pop(lane, self.body_bytes())?;
        // Each part is acknowledged or lost by itself, so it is attempted by itself as well.
        self.stats.attempted += more;

        // What travels beside must not delay what is urgent: only what the window still holds.
        let most = COALESCED_BYTES_MAX.min(self.payload_body_bytes);
        let room = left.min(most).saturating_sub(first.body.len());
        let beside = self.drafts.pop_beside(lane, &first, room);
        self.stats.combined += beside.len() as u64;
        Some(if beside.is_empty() { first } else { first.combined_with(&beside) })
    }

    fn may_send(&self, now: Mono) -> bool {
        let full = self.in_flight() >= IN_FLIGHT_MAX;
        let paused = self.resume_at.is_some_and(|resume_at| now < resume_at);
        self.connected && !paused && !full && self.breaker.allows_sending()
    }

    fn send(&mut self, now: Mono, ticket: Ticket) -> Option<Publish> {
        let wait = self.window.acknowledgement_wait();
        let departure = self.window.depart(now);
        let (sent, publish) = self.in_flight.send(departure, ticket, wait)?;
        self.stats.retried += u64::from(sent.is_retry());
        // Noted before the message leaves: a confirmation of any later number is forged.
        if let Some(newest) = self.newest_sent.get_mut(&sent.message.incarnation) {
            *newest = sent.message.seq.max(*newest);
        }
        self.breaker.on_sent(ticket);
        Some(publish)
    }

    fn resend(&mut self, now: Mono, ticket: Ticket) -> Option<Publish> {
        let publish = self.unconfirmed.send(now, ticket)?;

        // Only marks the link as used: the answer to a resend is not measured.
        self.window.depart(now);
        self.stats.resent += 1;
        self.breaker.on_sent(ticket);
        Some(publish)
    }

    fn next_candidate(&mut self, now: Mono) -> Option<(Lane, Candidate)> {
        let room = self.has_room(now);
        if let Some((candidate, critical)) = self.candidate(Lane::Emergency, room) {
            // Asked before a token is taken, so that none is spent on a message that must wait
            // anyway.
            if !self.may_pass(now, candidate) {
                self.was_window_full = true;
                return None;
            }

            match self.tokens.try_take(now, critical) {
                Ok(()) => return Some((Lane::Emergency, candidate)),
                Err(at) => self.token_at = Some(at),
            }

            let first_time =
                matches!(candidate, Candidate::Draft) && self.drafts.mark_rate_limited();
            self.stats.rate_limited += u64::from(first_time);

            // Part of the tokens is the final message's, which then passes the draft before it.
            let reserved = !critical && self.drafts.final_message(Lane::Emergency).is_some();
            if reserved && self.tokens.try_take(now, true).is_ok() {
                return Some((Lane::Emergency, Candidate::Final));
            }
        }

        if self.drafts.pressure.is_conservative() {
            return None;
        }
        if room && self.candidate(Lane::Normal, room).is_none() {
            self.leave_emergency_lane(now);
        }
        let (candidate, _) = self.candidate(Lane::Normal, room)?;
        // The other places are the emergency lane's, which a backlog would otherwise fill (N46).
        if self.in_flight() >= IN_FLIGHT_MAX - IN_FLIGHT_RESERVED || self.is_resting() {
            return None;
        }

        let has_room = self.has_window_room(self.bytes_of(Lane::Normal, candidate));
        self.was_window_full |= !has_room;
        has_room.then_some((Lane::Normal, candidate))
    }

    /// The normal lane is idle and the emergency lane has no token. Its oldest draft goes by the
    /// normal one, unless an aggregator is behind there and a token may come sooner. A node
    /// that is leaving may have ended by then.
    fn leave_emergency_lane(&mut self, now: Mono) {
        let Some(oldest) = self.drafts.oldest_urgent() else { return };
        let has_waited = now.since(oldest) > BEHIND_AFTER;
        if self.leaving || has_waited || !self.is_aggregator_behind(now) {
            self.drafts.leave_emergency_lane();
        }
    }

    /// Whether the normal lane rests so that the link can be measured.
    fn is_resting(&self) -> bool {
        self.window.is_measuring() && !self.leaving
    }

    /// Whether the window has room for a message. One that is longer goes alone.
    fn has_window_room(&self, bytes: usize) -> bool {
        let on_the_way = self.normal_bytes_on_the_way();
        on_the_way == 0 || on_the_way + bytes <= self.window.bytes()
    }

    fn normal_bytes_on_the_way(&self) -> usize {
        self.in_flight.window_bytes() + self.unconfirmed.in_flight_bytes()
    }

    /// Whether a message of the emergency lane may set out: what is new always, the rest within
    /// what the window leaves beside everything on its way, so that it does not delay what is new.
    fn may_pass(&self, now: Mono, candidate: Candidate) -> bool {
        let next = self.drafts.front(Lane::Emergency);
        let is_new = || next.is_some_and(|draft| now.since(draft.enqueued) <= NEW_FOR);
        let bytes = match candidate {
            Candidate::Final => return true,
            Candidate::Draft if is_new() => return true,
            _ => self.bytes_of(Lane::Emergency, candidate),
        };
        let on_the_way = self.in_flight.bytes_on_the_way() + self.unconfirmed.in_flight_bytes();
        on_the_way == 0 || on_the_way + bytes <= self.window.bytes()
    }

    fn bytes_of(&self, lane: Lane, candidate: Candidate) -> usize {
        match candidate {
            Candidate::Retry(ticket) => self.in_flight.bytes_of(ticket),
            Candidate::Resend(ticket) => self.unconfirmed.bytes_of(ticket),
            Candidate::Draft => {
                let bytes = self.drafts.front(lane).map_or(0, Draft::bytes);
                bytes.min(self.body_bytes())
            }
            Candidate::Final => 0,
        }
    }

    /// Whether the normal lane is so delayed that what is urgent overtakes it: messages have waited
    /// here for long, or an aggregator has reported that it reads a backlog.
    pub fn is_behind(&self, now: Mono) -> bool {
        let is_delayed = |oldest: Mono| now.since(oldest) > BEHIND_AFTER;
        self.oldest().is_some_and(is_delayed) || self.is_aggregator_behind(now)
    }

    fn is_aggregator_behind(&self, now: Mono) -> bool {
        self.aggregator_behind_until.is_some_and(|until| now < until)
    }

    pub fn oldest(&self) -> Option<Mono> {
        self.drafts.oldest().into_iter().chain(self.in_flight.oldest()).min()
    }

    /// Whether another draft may be sealed. When unconfirmed copies take all the room, the oldest
    /// is evicted once its grace time is over, or at once when the node is leaving.
    fn has_room(&mut self, now: Mono) -> bool {
        if self.in_flight.unanswered_or_unsent() >= IN_FLIGHT_MAX {
            return false;
        }
        let Amount { messages, bytes, .. } = self.in_flight.amount();
        let upcoming = UpcomingCopies { messages, bytes };

        while self.drafts.is_waiting() && self.unconfirmed.is_full(upcoming) {
            let until = if self.leaving { Mono(u64::MAX) } else { now };
            let Some(ticket) = self.unconfirmed.evict_oldest(until) else {
                self.room_at = self.unconfirmed.evictable_at();
                return false;
            };
            self.breaker.on_released(ticket);
            self.stats.released += 1;
        }

        true
    }

    /// The message that one lane sends next, and whether it is critical.
    fn candidate(&self, lane: Lane, room: bool) -> Option<(Candidate, bool)> {
        // What has a number goes before drafts: an aggregator counts it as missing until it
        // arrives, and drafts can still be merged.
        if let Some(ticket) = self.in_flight.waiting(lane) {
            return Some((Candidate::Retry(ticket), false));
        }
        if let Some(ticket) = self.unconfirmed.waiting(lane) {
            return Some((Candidate::Resend(ticket), false));
        }
        if let Some(draft) = self.drafts.front(lane) {
            return room.then(|| (Candidate::Draft, draft.is_critical()));
        }
        self.drafts.final_message(lane).map(|draft| (Candidate::Final, draft.is_critical()))
    }

    /// The message could not be handed to the connection: it waits again as if never sent.
    pub fn on_handover_failed(&mut self, now: Mono, ticket: Ticket) {
        if DeadLetters::is_letter(ticket) {
            return self.dead_letters.on_deferred(now, ticket);
        }
        let was_retry = self.in_flight.get(ticket).is_some_and(OutgoingMessage::is_retry);
        self.stats.retried -= u64::from(was_retry);
        self.release(ticket, Event::NotHandedOver);

        // Our own queue was full, which has room again far sooner than a broker in trouble.
        self.resume_at = Some(now.plus(RETRY_PAUSE / 10));
    }

    /// The message did not reach the broker: it waits again, and sending pauses.
    pub fn on_deferred(&mut self, now: Mono, ticket: Ticket) {
        if DeadLetters::is_letter(ticket) {
            return self.dead_letters.on_deferred(now, ticket);
        }
        self.release(ticket, Event::Deferred);
        self.resume_at = Some(now.plus(RETRY_PAUSE));
    }

    /// The broker answered something that cannot be read, which is its failure and refuses nothing.
    pub fn on_unreadable(&mut self, now: Mono, ticket: Ticket) {
        if DeadLetters::is_letter(ticket) {
            return self.dead_letters.on_deferred(now, ticket);
        }
        self.fail(now, ticket, NoAnswer::Unreadable);
        self.resume_at = Some(now.plus(RETRY_PAUSE));
    }

    /// The broker refused a message. One that may be accepted later is tried again until it was
    /// refused too often; then, as at once for all others, its dead letter is sent. Returns a
    /// message that is given up: one whose letter is refused although no broker can ever take it.
    pub fn on_refused(
        &mut self,
        now: Mono,
        ticket: Ticket,
        reason: DeadLetterReason,
    ) -> Option<DeadLetter> {
        if DeadLetters::is_letter(ticket) {
            return self.on_letter_refused(now, ticket);
        }
        if reason.may_pass() {
            self.resume_at = Some(now.plus(RETRY_PAUSE));
        }

        // A missing stream is created within seconds of the first such answer; other reasons last
        // longer (N60).
        let rests_until = now.plus(match reason {
            DeadLetterReason::NoStream => self.next_stream_rest(),
            _ => self.breaker_open,
        });

        let refused = Event::Refused { at: now, every: self.refusal_every, rests_until };
        let was_in_flight = self.in_flight.on(ticket, refused);

        if was_in_flight || self.unconfirmed.on_answered(ticket) {
            // A message that no broker could take shows nothing about the health of this one.
            match reason.may_pass() {
                true => self.breaker.on_failure(ticket, rests_until),
                false => self.breaker.on_released(ticket),
            }
        }

        let refusals = self.in_flight.get(ticket).map_or(0, |sent| sent.refusals);
        let is_final = refusals >= REFUSALS_MAX || !reason.may_pass();

        // A copy that an aggregator has yet to confirm is never given up.
        if was_in_flight && is_final && self.dead_letters.try_add(ticket, reason) {
            self.in_flight.on(ticket, Event::LetterMade);
        }

        None
    }

    /// How long a message rests that no stream keeps: longer after each probe that found none, and
    /// as long as the breaker stays open for other reasons at the most.
    fn next_stream_rest(&mut self) -> Duration {
        if self.breaker.state() == BreakerState::HalfOpen {
            self.stream_rest = (self.stream_rest * 2).min(self.breaker_open.max(NO_STREAM_REST));
        }
        self.stream_rest
    }

    /// The broker denied a publish to a subject, which refuses the message sent there first. Such a
    /// message has no other answer.
    ///
    /// DESIGN N47.
    pub fn on_denied(&mut self, now: Mono, subject: &str) {
        if let Some(ticket) = self.in_flight.oldest_in_flight_of(subject) {
            self.on_refused(now, ticket, DeadLetterReason::Denied);
        }
    }

    /// The broker denied the publish of a dead letter, as [`Self::on_refused`].
    pub fn on_letter_denied(&mut self, now: Mono) -> Option<DeadLetter> {
        let letter = self.dead_letters.oldest_in_flight()?;
        self.on_letter_refused(now, letter)
    }

    fn on_letter_refused(&mut self, now: Mono, letter: Ticket) -> Option<DeadLetter> {
        let (ticket, reason) = self.dead_letters.on_refused(letter)?;

        // While no letter can be stored nothing is given up that a broker may still take (N7).
        if reason.may_pass() {
            let rests_until = now.plus(self.breaker_open);
            self.in_flight.on(ticket, Event::LetterRefused { rests_until });
            return None;
        }
        self.give_up(ticket, reason)
    }

    /// The next dead letter to send, with its own ticket; now in flight.
    pub fn next_dead_letter(&mut self, now: Mono) -> Option<(Ticket, DeadLetter)> {
        if !self.connected {
            return None;
        }
        let (letter, ticket, reason) = self.dead_letters.send(now)?;
        let message = self.in_flight.get(ticket)?.message.clone();
        Some((letter, DeadLetter { message, reason }))
    }

    /// If the ticket is a dead letter's, it is stored: returns its message, which is given up.
    pub fn on_letter_stored(&mut self, letter: Ticket) -> Option<DeadLetter> {
        let (ticket, reason) = self.dead_letters.on_stored(letter)?;
        self.give_up(ticket, reason)
    }

    fn give_up(&mut self, ticket: Ticket, reason: DeadLetterReason) -> Option<DeadLetter> {
        let sent = self.remove(ticket)?;
        self.stats.refused += 1;
        Some(DeadLetter { message: sent.message, reason })
    }

    fn release(&mut self, ticket: Ticket, event: Event) {
        if self.in_flight.on(ticket, event) || self.unconfirmed.on_answered(ticket) {
            self.breaker.on_released(ticket);
        }
    }

    fn fail(&mut self, now: Mono, ticket: Ticket, cause: NoAnswer) {
        let rests_until = now.plus(self.breaker_open);
        let no_answer = Event::NoAnswer { cause, rests_until };
        if self.in_flight.on(ticket, no_answer) || self.unconfirmed.on_answered(ticket) {
            self.breaker.on_failure(ticket, rests_until);
        }
    }

    /// The broker has the id of the message in a stream. Sends the message again under another id
    /// if it cannot be the message that the stream has; else it is acknowledged.
    ///
    /// DESIGN N80.
    pub fn on_duplicate(&mut self, now: Mono, ticket: Ticket) -> Option<Mono> {
        let is_renamed = self.in_flight.on(ticket, Event::IdTaken);
        if is_renamed || self.unconfirmed.rename_taken(ticket) {
            self.stats.taken_ids += 1;
            // The stream answered, so the broker works, although it has not stored this message.
            self.breaker.on_success(ticket);
            return None;
        }
        self.on_acknowledged(now, ticket)
    }

    /// The broker stored the message. Returns when it was enqueued, or `None` if it was
    /// acknowledged before.
    pub fn on_acknowledged(&mut self, now: Mono, ticket: Ticket) -> Option<Mono> {
        if self.unconfirmed.on_answered(ticket) {
            self.breaker.on_success(ticket);
        }
        let departure = self.in_flight.get(ticket).and_then(OutgoingMessage::departure);
        let sent = self.remove(ticket)?;

        // Only what was in flight is measured: a late answer to an earlier attempt is not.
        if let Some(departure) = departure {
            let was_full = std::mem::take(&mut self.was_window_full);
            self.window.on_acknowledged(now, departure, sent.message.payload.len(), was_full);
        }

        self.breaker.on_success(ticket);
        self.stream_rest = NO_STREAM_REST;
        self.stats.published += 1;
        self.unconfirmed.insert(now, ticket, sent.message, sent.adopted);
        Some(sent.enqueued)
    }

    fn remove(&mut self, ticket: Ticket) -> Option<OutgoingMessage> {
        let sent = self.in_flight.remove(ticket)?;
        self.dead_letters.cancel(ticket);
        self.drafts.on_sealed_removed(self.now, self.sealed_load());
        Some(sent)
    }

    /// An aggregator reports what is stored: confirmed copies are removed, and missing messages
    /// are sent again.
    ///
    /// # Errors
    /// When it confirms a message that was never sent; then none of it is applied.
    pub fn on_confirmation(
        &mut self,
        now: Mono,
        confirmation: &Confirmation,
    ) -> Result<(), ForgedConfirmation> {
        // Checked for all incarnations before anything is applied, so that one forged entry frees
        // no copy of another.
        let forged = |confirmed: &ConfirmedIncarnation| {
            let sent = self.newest_sent.get(&confirmed.incarnation);
            sent.is_some_and(|sent| confirmed.newest() > Some(*sent))
        };

        if confirmation.incarnations.iter().any(forged) {
            return Err(ForgedConfirmation);
        }

        let is_behind = confirmation.backlog > BEHIND_AFTER;
        self.aggregator_behind_until = is_behind.then(|| now.plus(BEHIND_KEPT));
        // An aggregator without its state can state its backlog, and not what is stored (A160).
        if confirmation.withheld {
            return Ok(());
        }

        for ticket in self.in_flight.covered_by(confirmation) {
            // Its acknowledgement was lost.
            if let Some(sent) = self.remove(ticket) {
                self.breaker.on_success(ticket);
                self.stats.published += 1;
                self.unconfirmed.insert(now, ticket, sent.message, sent.adopted);
            }
        }

        for ticket in self.unconfirmed.on_confirmation(now, confirmation) {
            // A resend of it may be in flight, whose acknowledgement then means nothing.
            self.breaker.on_released(ticket);
            self.stats.confirmed += 1;
        }

        Ok(())
    }

    pub fn drafts(&self) -> impl Iterator<Item = HeldDraft<'_>> {
        self.drafts.iter()
    }

    /// All messages that are sealed and not confirmed.
    pub fn sealed(&self) -> impl Iterator<Item = &SealedMessage> {
        self.in_flight.iter().map(|(_, sent)| &sent.message).chain(self.unconfirmed.iter())
    }

    pub fn newest_sealed(&self) -> Seq {
        Seq(self.next_seq.0 - 1)
    }

    /// Whether no final message waits to be sealed.
    pub fn is_final_sealed(&self) -> bool {
        !self.drafts.has_final()
    }

    /// Counters and load for the aggregator.
    pub fn stats(&self) -> Bus {
        let load = self.drafts.load(self.now, self.load_of(self.in_flight.amount()));
        let pressure = &self.drafts.pressure;

        Bus {
            dropped: self.drafts.dropped,
            coalesced: self.drafts.coalesced,
            outbox_messages: self.messages() as u64,
            outbox_depth: load.depth,
            outbox_depth_max: self.depth_max,
            outbox_bytes: load.bytes as u64,
            outbox_age_ns: nanos(load.age),
            outbox_pressure: pressure.level(load),
            breaker_state: Some(self.breaker.state().as_number()),
            conservative: pressure.is_conservative(),
            rerouting: pressure.is_rerouting(),
            dropping: pressure.is_dropping(),
            unconfirmed: self.unconfirmed.messages() as u64,
            ..self.stats.clone()
        }
    }

    pub fn taken_ids(&self) -> u64 {
        self.stats.taken_ids
    }

    pub fn dead_letters(&self) -> DeadLetterStats {
        self.dead_letters.stats()
    }

    pub fn events_lost(&self) -> &BTreeMap<&'static str, u64> {
        &self.drafts.events_lost
    }

    pub fn reset_depth_max(&mut self) {
        self.depth_max = self.depth();
    }

    /// Messages held: drafts, and sealed messages that are not acknowledged.
    pub fn messages(&self) -> usize {
        self.amount().messages
    }

    /// The messages that these stand for, as they were produced.
    pub fn depth(&self) -> u64 {
        self.amount().produced
    }

    fn amount(&self) -> Amount {
        self.drafts.amount() + self.in_flight.amount()
    }

    /// Sealed messages of this incarnation. Adopted ones were admitted by a former incarnation
    /// and must not keep this one from admitting its own.
    fn sealed_load(&self) -> SealedLoad {
        self.load_of(self.in_flight.own_amount())
    }

    fn load_of(&self, sealed: Amount) -> SealedLoad {
        let age = self.in_flight.oldest().map_or(Duration::ZERO, |oldest| self.now.since(oldest));
        let load = OutboxLoad { depth: sealed.produced, bytes: sealed.bytes, age };
        SealedLoad { messages: sealed.messages, load }
    }

    pub fn samples(&self) -> u64 {
        self.amount().samples
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.unanswered() + self.unconfirmed.in_flight()
    }

    pub fn unconfirmed_samples(&self) -> u64 {
        self.unconfirmed.samples()
    }

    pub fn unconfirmed_bytes(&self) -> usize {
        self.unconfirmed.bytes()
    }

    /// Whether an aggregator that confirms messages has yet to confirm some.
    pub fn awaits_confirmation(&self) -> bool {
        self.unconfirmed.messages() > 0 && self.unconfirmed.has_confirmation
    }

    /// Whether every message has been acknowledged or rejected.
    pub fn is_empty(&self) -> bool {
        self.messages() == 0
    }

    pub fn is_connected(&self) -> bool {
        self.connected
    }

    pub fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }
}

#[cfg(test)]
mod tests;
