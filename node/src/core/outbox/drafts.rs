//! Messages that are not sealed yet: a queue for each lane, the final message, and what happens
//! to new drafts under pressure (merge, reroute, drop).

use std::collections::BTreeMap;

use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;

use super::bounds::OutboxBounds;
use super::draft::{Draft, DraftId, DraftIds};
use super::pressure::{Admission, Pressure};
use super::queue::Queue;
use crate::core::loss::{EXPIRED, OUTBOX_FULL};

/// Reason of events beyond those that one message holds.
const MESSAGE_FULL: &str = "message_full";

/// Sealed messages that count towards the bounds together with the drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

/// All drafts.
pub(super) struct Drafts {
    bounds: OutboxBounds,
    ids: DraftIds,
    normal: Queue,
    emergency: Queue,
    /// Waits until no other draft does, so that it gets the highest number.
    final_message: Option<(Lane, Draft)>,
    pressure: Pressure,
    dropped: u64,
    coalesced: u64,
    /// Events that no message carries any more, by reason.
    events_lost: BTreeMap<&'static str, u64>,
}

impl Drafts {
    /// No drafts.
    pub(super) fn new(bounds: OutboxBounds) -> Self {
        Self {
            ids: DraftIds::default(),
            normal: Queue::default(),
            emergency: Queue::default(),
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

    /// Accepts a new draft, or counts it as dropped and returns it.
    pub(super) fn push(
        &mut self,
        now: Mono,
        mut draft: Draft,
        sealed: Load,
    ) -> Result<(), Box<Draft>> {
        draft.id = self.ids.next_id();
        let too_many = draft.keep_newest_events();
        self.lose_events(MESSAGE_FULL, too_many);
        let admission = self.pressure.admit(now, self.messages() + sealed.messages);
        let lane = match admission {
            Admission::Normal => Lane::Normal,
            Admission::Emergency | Admission::Drop => Lane::Emergency,
        };
        if draft.last && self.final_message.is_none() {
            self.final_message = Some((lane, draft));
        } else if let Err(draft) = self.try_enqueue(admission, lane, draft, sealed) {
            self.dropped += 1;
            self.lose_events(OUTBOX_FULL, draft.events());
            return Err(draft);
        }
        self.coalesce(sealed);
        Ok(())
    }

    fn try_enqueue(
        &mut self,
        admission: Admission,
        lane: Lane,
        draft: Draft,
        sealed: Load,
    ) -> Result<(), Box<Draft>> {
        if admission == Admission::Drop {
            return Err(Box::new(draft));
        }
        let held = self.bytes() + sealed.bytes;
        if held + draft.bytes() <= self.bounds.bytes_max {
            self.queue(lane).push(draft);
            return Ok(());
        }
        let others = held - self.queue(lane).bytes();
        let room = self.bounds.bytes_max.saturating_sub(others);
        self.queue(lane).try_join_newest(draft, room)?;
        self.coalesced += 1;
        Ok(())
    }

    fn coalesce(&mut self, sealed: Load) {
        while self.messages() + sealed.messages > self.bounds.coalesce_messages
            || self.bytes() + sealed.bytes > self.bounds.coalesce_bytes
        {
            let ids = &mut self.ids;
            let coalesced = self.normal.coalesce(ids).or_else(|| self.emergency.coalesce(ids));
            let Some(events_dropped) = coalesced else { break };
            self.lose_events(MESSAGE_FULL, events_dropped);
            self.coalesced += 1;
        }
        self.pressure.on_depth(self.messages() + sealed.messages);
    }

    /// Adopts a draft of a former incarnation, which admitted it.
    pub(super) fn adopt(&mut self, mut draft: Draft, sealed: Load) {
        draft.id = self.ids.next_id();
        self.normal.push(draft);
        self.coalesce(sealed);
    }

    /// Drops the next draft that is older than its time to live, if there is one.
    pub(super) fn expire(&mut self, now: Mono, sealed: Load) -> Option<Draft> {
        let ttl = self.bounds.ttl?;
        let queues = [&mut self.normal, &mut self.emergency];
        let expired = queues.into_iter().find_map(|queue| queue.pop_older(now, ttl))?;
        self.dropped += 1;
        self.lose_events(EXPIRED, expired.events());
        self.on_sealed_removed(sealed);
        Some(expired)
    }

    /// Counts events and service checks that no message carries any more.
    pub(super) fn lose_events(&mut self, reason: &'static str, events: u64) {
        if events > 0 {
            *self.events_lost.entry(reason).or_default() += events;
        }
    }

    /// Removes the oldest draft of a lane.
    pub(super) fn pop(&mut self, lane: Lane) -> Option<Draft> {
        self.queue(lane).pop()
    }

    /// Removes the final message.
    pub(super) fn take_final(&mut self) -> Option<(Lane, Draft)> {
        self.final_message.take()
    }

    /// The oldest draft of a lane.
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

    /// Whether the final message is not sealed yet.
    pub(super) fn has_final(&self) -> bool {
        self.final_message.is_some()
    }

    /// Whether drafts wait, not counting the final message.
    pub(super) fn is_waiting(&self) -> bool {
        self.normal.messages() + self.emergency.messages() > 0
    }

    /// Marks the oldest draft of the emergency lane as delayed by the rate limit; true the first
    /// time.
    pub(super) fn mark_rate_limited(&mut self) -> bool {
        self.emergency.mark_front_rate_limited()
    }

    /// The number of sealed messages went down to `sealed`.
    pub(super) fn on_sealed_removed(&mut self, sealed: Load) {
        self.pressure.on_depth(self.messages() + sealed.messages);
    }

    /// The node is leaving: the emergency lane's drafts go by the normal one.
    pub(super) fn on_leave(&mut self) {
        self.pressure.on_leave();
        self.normal.prepend(&mut self.emergency);
    }

    /// Advances time.
    pub(super) fn on_deadline(&mut self, now: Mono) {
        self.pressure.on_deadline(now);
    }

    /// When a draft expires or conservative mode ends.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        let fronts = [self.normal.front(), self.emergency.front()].into_iter().flatten();
        let expires = |ttl| fronts.map(|draft| draft.latest.plus(ttl)).min();
        let expires = self.bounds.ttl.and_then(expires);
        expires.into_iter().chain(self.pressure.next_deadline()).min()
    }

    /// All drafts with their lanes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (DraftId, Lane, &Draft)> {
        let normal = self.normal.iter().map(|draft| (Lane::Normal, draft));
        let emergency = self.emergency.iter().map(|draft| (Lane::Emergency, draft));
        let last = self.final_message.iter().map(|(lane, draft)| (*lane, draft));
        normal.chain(emergency).chain(last).map(|(lane, draft)| (draft.id, lane, draft))
    }

    /// Number of drafts.
    pub(super) fn messages(&self) -> usize {
        let last = usize::from(self.final_message.is_some());
        self.normal.messages() + self.emergency.messages() + last
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> usize {
        let last = self.final_message.as_ref().map_or(0, |(_, draft)| draft.bytes());
        self.normal.bytes() + self.emergency.bytes() + last
    }

    /// Their samples.
    pub(super) fn samples(&self) -> u64 {
        self.normal.samples() + self.emergency.samples()
    }

    /// Drafts dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Drafts merged into another one so far.
    pub(super) fn coalesced(&self) -> u64 {
        self.coalesced
    }

    /// Events that no message carries any more, by reason.
    pub(super) fn events_lost(&self) -> &BTreeMap<&'static str, u64> {
        &self.events_lost
    }

    /// What the depth of the outbox does to new messages.
    pub(super) fn pressure(&self) -> &Pressure {
        &self.pressure
    }
}
