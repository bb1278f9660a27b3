//! How messages come into the outbox, and how drafts leave it that are never sent.

use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;

use super::{Outbox, Sealed};
use crate::core::draft::Draft;
use crate::core::pressure::Admission;
use crate::core::seal::{EXPIRED, OUTBOX_FULL};

/// Events beyond what one message holds.
const MESSAGE_FULL: &str = "message_full";

impl Outbox {
    /// Takes a new message, or counts it as dropped and gives it back.
    ///
    /// # Errors
    /// When there is no room for it; its samples are the caller's to account for. The farewell
    /// carries none and always has a place.
    pub fn try_push(&mut self, now: Mono, mut draft: Draft) -> Result<(), Box<Draft>> {
        self.account.attempted += 1;
        draft.id = self.draft_ids.give();
        let too_many = draft.keep_newest_events();
        self.lose_events(MESSAGE_FULL, too_many);
        let admission = self.pressure.admit(now, self.own().0);
        let calm = admission == Admission::Normal;
        let lane = if calm { Lane::Normal } else { Lane::Emergency };
        if draft.last && self.farewell.is_none() {
            self.farewell = Some((lane, draft));
        } else if let Err(draft) = self.try_enqueue(admission, lane, draft) {
            self.account.dropped += 1;
            self.lose_events(OUTBOX_FULL, draft.events());
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
        if self.own().1 + draft.bytes() <= self.bounds.bytes_max {
            self.queue(lane).push(draft);
            return Ok(());
        }
        let others = self.own().1 - self.queue(lane).bytes();
        let room = self.bounds.bytes_max.saturating_sub(others);
        self.queue(lane).try_join_newest(draft, room)?;
        self.account.coalesced += 1;
        Ok(())
    }

    fn coalesce(&mut self) {
        let bounds = (self.bounds.coalesce_messages, self.bounds.coalesce_bytes);
        while self.own().0 > bounds.0 || self.own().1 > bounds.1 {
            let ids = &mut self.draft_ids;
            let coalesced = self.normal.coalesce(ids).or_else(|| self.emergency.coalesce(ids));
            let Some(events_given_up) = coalesced else { break };
            self.lose_events(MESSAGE_FULL, events_given_up);
            self.account.coalesced += 1;
        }
        self.pressure.on_depth(self.own().0);
    }

    /// Takes over a message of a former incarnation, which may have been sent before.
    pub fn adopt(&mut self, now: Mono, sealed: Sealed) {
        self.account.attempted += 1;
        self.flight.adopt(sealed, now);
        self.depth_max = self.depth_max.max(self.depth());
    }

    /// Takes over a draft of a former incarnation; it was admitted then.
    pub fn adopt_draft(&mut self, mut draft: Draft) {
        self.account.attempted += 1;
        draft.id = self.draft_ids.give();
        self.normal.push(draft);
        self.coalesce();
        self.depth_max = self.depth_max.max(self.depth());
    }

    /// Takes a message that was sealed on behalf of a former incarnation.
    pub fn seal_for(&mut self, now: Mono, sealed: Sealed) {
        self.account.attempted += 1;
        self.flight.seal(sealed, now, self.spooled);
    }

    /// Gives up the next draft that is too old, if any may grow too old.
    pub fn expire(&mut self, now: Mono) -> Option<Draft> {
        let ttl = self.bounds.ttl?;
        let queues = [&mut self.normal, &mut self.emergency];
        let expired = queues.into_iter().find_map(|queue| queue.pop_older(now, ttl))?;
        self.account.dropped += 1;
        self.lose_events(EXPIRED, expired.events());
        self.pressure.on_depth(self.own().0);
        Some(expired)
    }

    /// Counts events and service checks that no message carries any more.
    pub fn lose_events(&mut self, reason: &'static str, events: u64) {
        if events > 0 {
            *self.events_lost.entry(reason).or_default() += events;
        }
    }
}
