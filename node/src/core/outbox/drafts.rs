//! Messages that are not sealed yet: a queue for each lane, the final message, and what happens
//! to new drafts under pressure (merge, overtake, drop).
//!
//! DESIGN N45.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_schemas::subject::{Lane, SnapshotKind};
use plimsoll_schemas::time::Mono;

use super::amount::Amount;
use super::bounds::OutboxBounds;
use super::draft::{Draft, DraftId, DraftIds, Priority};
use super::pressure::{OutboxLoad, Pressure};
use super::queue::{Coalesced, Queue};
use crate::core::loss::{EXPIRED, OUTBOX_FULL};
use crate::limits::{BEHIND_AFTER, BREACH_URGENT_FOR, OUTBOX_ENTRIES_MAX};

/// Reason of events beyond those that one message holds.
const MESSAGE_FULL: &str = "message_full";

/// Sealed messages that count towards the bounds together with the drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SealedLoad {
    pub(super) messages: usize,
    pub(super) load: OutboxLoad,
}

/// A draft as it is held: its id, and the lane in which it waits.
#[derive(Clone, Copy, Debug)]
pub struct HeldDraft<'a> {
    pub id: DraftId,
    pub lane: Lane,
    pub draft: &'a Draft,
}

pub(super) struct Drafts {
    bounds: OutboxBounds,
    ids: DraftIds,
    normal: Queue,
    emergency: Queue,
    /// Waits until no other draft does, so that it gets the highest number.
    final_message: Option<(Lane, Draft)>,
    pub(super) pressure: Pressure,
    pub(super) dropped: u64,
    pub(super) coalesced: u64,
    /// Events that no message carries any more, by reason.
    pub(super) events_lost: BTreeMap<&'static str, u64>,
}

impl Drafts {
    pub(super) fn new(bounds: OutboxBounds) -> Self {
        Self {
            ids: DraftIds::default(),
            normal: Queue::default(),
            emergency: Queue::critical_first(),
            final_message: None,
            pressure: Pressure::new(bounds.thresholds),
            dropped: 0,
            coalesced: 0,
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

    /// Accepts a new draft, or counts it as dropped and returns it. `is_behind`: the normal lane is
    /// so far behind that what is urgent overtakes it.
    pub(super) fn push(
        &mut self,
        now: Mono,
        mut draft: Draft,
        sealed: SealedLoad,
        is_behind: bool,
    ) -> Result<(), Box<Draft>> {
        draft.id = self.ids.next_id();
        let mut load = self.load(now, sealed);
        // The states are those that hold with the new draft, or it would be placed by the load
        // before it.
        (load.depth, load.bytes) = (load.depth + draft.produced, load.bytes + draft.bytes());

        self.pressure.on_produced(now, load);
        // Only readings: samples are merged instead, which costs them time resolution alone (N10).
        if self.pressure.is_dropping() {
            while self.drop_low() {}
        }
        if is_behind {
            self.overtake(now);
        }

        let is_immediate = draft.priority == Priority::Immediate;
        let overtakes = is_immediate || is_behind && self.overtakes(&draft);
        let lane = if overtakes { Lane::Emergency } else { Lane::Normal };

        // Apart from the queues, so that it always has room and is sealed after all others (N14).
        if draft.last && self.final_message.is_none() {
            self.final_message = Some((lane, draft));
        } else if let Err(draft) = self.try_enqueue(lane, draft, sealed) {
            self.dropped += 1;
            self.lose_events(OUTBOX_FULL, draft.events());
            return Err(draft);
        }

        self.coalesce(sealed);
        self.pressure.on_load(self.load(now, sealed));
        Ok(())
    }

    /// Whether a new draft goes before a backlog: what is urgent, and while rerouting the newest
    /// interval, without readings of hardware.
    fn overtakes(&self, draft: &Draft) -> bool {
        let is_newest = draft.kind != SnapshotKind::Hardware && self.pressure.is_rerouting();
        draft.is_urgent() || is_newest
    }

    /// Urgent drafts leave the backlog; what was the newest interval joins it, and so does a
    /// breach of long ago.
    fn overtake(&mut self, now: Mono) {
        let is_past = |draft: &Draft| {
            let age = now.since(draft.enqueued);
            // What waits behind what is critical would come later than if it were not urgent.
            let has_waited = draft.priority == Priority::High && age > BEHIND_AFTER;
            has_waited || draft.kind == SnapshotKind::Latency && age > BREACH_URGENT_FOR
        };

        let is_urgent = |draft: &Draft| draft.is_urgent() && !is_past(draft);
        while let Some(urgent) = self.normal.take_first(is_urgent) {
            self.emergency.push(urgent);
        }
        // What this interval has brought so far has the present time, and stays.
        let is_outdated = |draft: &Draft| !is_urgent(draft) && draft.enqueued < now;
        while let Some(outdated) = self.emergency.take_first(is_outdated) {
            self.normal.push_by_age(outdated);
        }
    }

    fn drop_low(&mut self) -> bool {
        let low = self.normal.pop_low().or_else(|| self.emergency.pop_low());
        self.dropped += u64::from(low.is_some());
        low.is_some()
    }

    fn try_enqueue(
        &mut self,
        lane: Lane,
        draft: Draft,
        sealed: SealedLoad,
    ) -> Result<(), Box<Draft>> {
        // Room is made in the order of what it costs: readings that newer ones replace, then time
        // resolution, and a sample only when neither helps.
        let bytes_max = self.bounds.thresholds.bytes_max;
        while self.bytes() + sealed.load.bytes + draft.bytes() > bytes_max {
            if !self.drop_low() && !self.coalesce_once() {
                break;
            }
        }

        let held = self.bytes() + sealed.load.bytes;
        let has_entry = self.messages() + sealed.messages < OUTBOX_ENTRIES_MAX;

        if has_entry && held + draft.bytes() <= bytes_max {
            self.queue(lane).push(draft);
            return Ok(());
        }

        // Joined with the newest interval it needs no entry, and shares the names of series (N9).
        let room = bytes_max.saturating_sub(held - self.normal.amount().bytes);
        let fewer = self.normal.try_join_newest(draft, room, &mut self.ids)?;
        self.coalesced += fewer;
        Ok(())
    }

    fn coalesce(&mut self, sealed: SealedLoad) {
        while self.messages() + sealed.messages > self.bounds.coalesce_messages
            || self.bytes() + sealed.load.bytes > self.bounds.coalesce_bytes
        {
            if !self.coalesce_once() {
                break;
            }
        }
    }

    fn coalesce_once(&mut self) -> bool {
        let ids = &mut self.ids;
        let coalesced = self.normal.coalesce(ids).or_else(|| self.emergency.coalesce(ids));
        let Some(Coalesced { messages, events_dropped }) = coalesced else { return false };
        self.lose_events(MESSAGE_FULL, events_dropped);
        self.coalesced += messages;
        true
    }

    pub(super) fn adopt(&mut self, mut draft: Draft, sealed: SealedLoad) {
        draft.id = self.ids.next_id();
        self.normal.push(draft);
        self.coalesce(sealed);
    }

    pub(super) fn expire(&mut self, now: Mono, sealed: SealedLoad) -> Option<Draft> {
        let ttl = self.bounds.ttl?;
        let queues = [&mut self.normal, &mut self.emergency];
        let expired = queues.into_iter().find_map(|queue| queue.pop_older(now, ttl))?;
        self.dropped += 1;
        self.lose_events(EXPIRED, expired.events());

        // The load has fallen here too, and may have ended a state of pressure.
        self.on_sealed_removed(now, sealed);
        Some(expired)
    }

    /// Counts events and service checks that no message carries any more.
    pub(super) fn lose_events(&mut self, reason: &'static str, events: u64) {
        if events > 0 {
            *self.events_lost.entry(reason).or_default() += events;
        }
    }

    /// Removes the draft of a lane that is sent next. One with a longer body than `bytes` is
    /// split, and the rest stays; returns also how many messages more that makes.
    pub(super) fn pop(&mut self, lane: Lane, bytes: usize) -> Option<(Draft, u64)> {
        match lane {
            Lane::Normal => self.normal.pop(bytes, &mut self.ids),
            Lane::Emergency => self.emergency.pop(bytes, &mut self.ids),
        }
    }

    /// Removes the drafts of a lane that travel in one message with this one, whose bodies are at
    /// most `bytes` longer.
    pub(super) fn pop_beside(&mut self, lane: Lane, first: &Draft, bytes: usize) -> Vec<Draft> {
        self.queue(lane).pop_beside(first, bytes)
    }

    pub(super) fn take_final(&mut self) -> Option<(Lane, Draft)> {
        self.final_message.take()
    }

    /// The draft of a lane that is sent next.
    pub(super) fn front(&self, lane: Lane) -> Option<&Draft> {
        match lane {
            Lane::Normal => self.normal.front(),
            Lane::Emergency => self.emergency.front(),
        }
    }

    /// The final message, if it goes by this lane and no draft is left that would get a higher
    /// number.
    pub(super) fn final_message(&self, lane: Lane) -> Option<&Draft> {
        let (wanted, draft) = self.final_message.as_ref().filter(|_| !self.is_waiting())?;
        (*wanted == lane).then_some(draft)
    }

    pub(super) fn has_final(&self) -> bool {
        self.final_message.is_some()
    }

    /// Whether drafts wait, not counting the final message.
    pub(super) fn is_waiting(&self) -> bool {
        self.normal.amount().messages + self.emergency.amount().messages > 0
    }

    /// Marks the next draft of the emergency lane as delayed by the rate limit; true the first
    /// time.
    pub(super) fn mark_rate_limited(&mut self) -> bool {
        self.emergency.mark_front_rate_limited()
    }

    /// When the oldest draft of the emergency lane was enqueued.
    pub(super) fn oldest_urgent(&self) -> Option<Mono> {
        let last = || self.final_message(Lane::Emergency).map(|draft| draft.enqueued);
        self.emergency.oldest().or_else(last)
    }

    /// The emergency lane's oldest draft goes by the normal lane.
    pub(super) fn leave_emergency_lane(&mut self) {
        if let Some(oldest) = self.emergency.take_oldest() {
            self.normal.push(oldest);
        } else if let Some((lane, _)) = &mut self.final_message {
            *lane = Lane::Normal;
        }
    }

    /// There are fewer sealed messages than before.
    pub(super) fn on_sealed_removed(&mut self, now: Mono, sealed: SealedLoad) {
        self.pressure.on_load(self.load(now, sealed));
    }

    /// The node is leaving: the emergency lane's drafts go by the normal one.
    pub(super) fn on_leave(&mut self) {
        self.pressure.on_leave();
        // A token for each of them would come after the node has ended (N14).
        self.normal.prepend(&mut self.emergency);
    }

    pub(super) fn on_deadline(&mut self, now: Mono) {
        self.pressure.on_deadline(now);
    }

    /// When a draft expires or conservative mode ends.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        let queues = [&self.normal, &self.emergency].into_iter();
        let expires = |ttl| queues.filter_map(|queue| queue.expires(ttl)).min();
        let expires = self.bounds.ttl.and_then(expires);
        expires.into_iter().chain(self.pressure.next_deadline()).min()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = HeldDraft<'_>> {
        let normal = self.normal.iter().map(|draft| (Lane::Normal, draft));
        let emergency = self.emergency.iter().map(|draft| (Lane::Emergency, draft));
        let last = self.final_message.iter().map(|(lane, draft)| (*lane, draft));
        normal.chain(emergency).chain(last).map(|(lane, draft)| HeldDraft {
            id: draft.id,
            lane,
            draft,
        })
    }

    /// What drafts and sealed messages are together.
    pub(super) fn load(&self, now: Mono, sealed: SealedLoad) -> OutboxLoad {
        let age = self.oldest().map_or(Duration::ZERO, |oldest| now.since(oldest));
        OutboxLoad {
            depth: self.amount().produced + sealed.load.depth,
            bytes: self.bytes() + sealed.load.bytes,
            age: age.max(sealed.load.age),
        }
    }

    pub(super) fn oldest(&self) -> Option<Mono> {
        let last = self.final_message.as_ref().map(|(_, draft)| draft.enqueued);
        [self.normal.oldest(), self.emergency.oldest(), last].into_iter().flatten().min()
    }

    /// All drafts together, with the final message.
    pub(super) fn amount(&self) -> Amount {
        let last = self.final_message.as_ref().map(|(_, draft)| Amount::of_draft(draft));
        self.normal.amount() + self.emergency.amount() + last.unwrap_or_default()
    }

    fn messages(&self) -> usize {
        self.amount().messages
    }

    fn bytes(&self) -> usize {
        self.amount().bytes
    }
}
