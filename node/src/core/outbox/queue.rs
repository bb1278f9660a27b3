//! One lane's drafts, oldest first.
//!
//! Only drafts are merged. A sealed message keeps its bytes and its number and is not in this
//! queue: merging a message that may have arrived would count its samples twice.
//!
//! DESIGN N9.

use std::collections::VecDeque;
use std::time::Duration;

use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::Body;

use super::draft::{Draft, DraftIds};

/// The drafts of one lane.
#[derive(Default)]
pub(super) struct Queue {
    drafts: VecDeque<Entry>,
    bytes: usize,
    samples: u64,
}

struct Entry {
    draft: Draft,
    /// True once the next latency draft did not fit into this one. It never will: both can only
    /// grow.
    is_full: bool,
    /// True once it had to wait for a token.
    was_rate_limited: bool,
}

impl Queue {
    /// Number of drafts.
    pub(super) fn messages(&self) -> usize {
        self.drafts.len()
    }

    /// Bytes of all drafts.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Samples in all drafts.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// The oldest draft.
    pub(super) fn front(&self) -> Option<&Draft> {
        self.drafts.front().map(|entry| &entry.draft)
    }

    /// Adds the newest draft.
    pub(super) fn push(&mut self, draft: Draft) {
        self.add(&draft);
        self.drafts.push_back(Entry { draft, is_full: false, was_rate_limited: false });
    }

    /// Removes the oldest draft.
    pub(super) fn pop(&mut self) -> Option<Draft> {
        (!self.drafts.is_empty()).then(|| self.remove(0))
    }

    /// Removes the oldest draft if nothing in it is newer than `age`.
    pub(super) fn pop_older(&mut self, now: Mono, age: Duration) -> Option<Draft> {
        let is_old = now.since(self.front()?.latest) >= age;
        is_old.then(|| self.remove(0))
    }

    /// All drafts, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Draft> {
        self.drafts.iter().map(|entry| &entry.draft)
    }

    /// Moves all drafts of `other` before those of this queue.
    pub(super) fn prepend(&mut self, other: &mut Self) {
        self.bytes += std::mem::take(&mut other.bytes);
        self.samples += std::mem::take(&mut other.samples);
        std::mem::swap(&mut self.drafts, &mut other.drafts);
        self.drafts.append(&mut other.drafts);
    }

    /// Marks the oldest draft as delayed by the rate limit; true the first time.
    pub(super) fn mark_front_rate_limited(&mut self) -> bool {
        let front = self.drafts.front_mut();
        front.is_some_and(|entry| !std::mem::replace(&mut entry.was_rate_limited, true))
    }

    /// Turns two messages into one: removes the oldest state message that a newer one supersedes,
    /// or merges the oldest events into the next, or else merges the two neighbours that together
    /// cover the least time, which keeps the time resolution as even as possible. Returns how many
    /// events did not fit into one message; `None` when nothing can be merged.
    pub(super) fn coalesce(&mut self, ids: &mut DraftIds) -> Option<u64> {
        match self.superseded() {
            Some(pair) => Some(self.supersede(pair, ids)),
            None => self.join_shortest(ids).then_some(0),
        }
    }

    /// Merges a draft for which there is no room into the newest one, if the queue then takes at
    /// most `bytes_max`.
    ///
    /// # Errors
    /// Returns the draft when it cannot be merged.
    pub(super) fn try_join_newest(
        &mut self,
        draft: Draft,
        bytes_max: usize,
    ) -> Result<(), Box<Draft>> {
        let newest = self.drafts.iter_mut().rev().find(|entry| entry.draft.is_latency());
        let Some(entry) = newest else { return Err(Box::new(draft)) };
        let mut joined = entry.draft.clone();
        joined.try_join(draft.clone())?;
        joined.id = draft.id;
        if self.bytes - entry.draft.bytes() + joined.bytes() > bytes_max {
            return Err(Box::new(draft));
        }
        self.bytes = self.bytes - entry.draft.bytes() + joined.bytes();
        self.samples += draft.samples();
        entry.draft = joined;
        Ok(())
    }

    /// The oldest hardware, bus or event draft that has a newer one of its kind, and that one.
    fn superseded(&self) -> Option<(usize, usize)> {
        let mut found = None;
        let (mut hardware, mut bus, mut event) = (None, None, None);
        for (index, entry) in self.drafts.iter().enumerate().rev() {
            let newer = match entry.draft.body {
                Body::Latency(_) => continue,
                Body::Hardware(_) => &mut hardware,
                Body::Bus(_) => &mut bus,
                Body::Event(_) => &mut event,
            };
            found = newer.replace(index).map(|newer| (index, newer)).or(found);
        }
        found
    }

    /// The greater depth of the two is kept: it is the only value of a bus message that the next
    /// one does not repeat. Events do not repeat either, and are kept as far as they fit.
    fn supersede(&mut self, (older, newer): (usize, usize), ids: &mut DraftIds) -> u64 {
        let older = self.remove(older);
        let newer = &mut self.drafts[newer - 1].draft;
        let bytes = newer.bytes();
        let mut dropped = 0;
        match (&older.body, &mut newer.body) {
            (Body::Bus(older), Body::Bus(body)) => {
                body.outbox_messages_max = body.outbox_messages_max.max(older.outbox_messages_max);
                newer.id = ids.next_id();
            }
            (Body::Event(_), Body::Event(_)) => {
                dropped = newer.prepend_events(older);
                newer.id = ids.next_id();
            }
            _ => {}
        }
        self.bytes = self.bytes - bytes + newer.bytes();
        dropped
    }

    fn join_shortest(&mut self, ids: &mut DraftIds) -> bool {
        while let Some((older, newer)) = self.shortest_pair() {
            let (is_full, draft) = (self.drafts[newer].is_full, self.remove(newer));
            let entry = &mut self.drafts[older];
            let (bytes, samples) = (entry.draft.bytes(), entry.draft.samples());
            let outcome = entry.draft.try_join(draft);
            entry.is_full = outcome.is_err() || is_full;
            self.bytes = self.bytes - bytes + entry.draft.bytes();
            self.samples = self.samples - samples + entry.draft.samples();
            let Err(draft) = outcome else {
                entry.draft.id = ids.next_id();
                return true;
            };
            self.add(&draft);
            self.drafts.insert(newer, Entry { draft: *draft, is_full, was_rate_limited: false });
        }
        false
    }

    fn shortest_pair(&self) -> Option<(usize, usize)> {
        let latency = |(_, entry): &(usize, &Entry)| entry.draft.is_latency();
        let mut shortest: Option<(u64, (usize, usize))> = None;
        let mut before: Option<(usize, &Entry)> = None;
        for (index, entry) in self.drafts.iter().enumerate().filter(latency) {
            if let Some((older, older_entry)) = before.filter(|(_, older)| !older.is_full) {
                let length = older_entry.draft.length_ns.saturating_add(entry.draft.length_ns);
                if shortest.is_none_or(|(least, _)| length < least) {
                    shortest = Some((length, (older, index)));
                }
            }
            before = Some((index, entry));
        }
        shortest.map(|(_, pair)| pair)
    }

    fn add(&mut self, draft: &Draft) {
        self.bytes += draft.bytes();
        self.samples += draft.samples();
    }

    fn remove(&mut self, index: usize) -> Draft {
        let entry = self.drafts.remove(index).expect("the caller found the index");
        self.bytes -= entry.draft.bytes();
        self.samples -= entry.draft.samples();
        entry.draft
    }
}
