//! One lane's drafts, oldest first.
//!
//! Only drafts are merged. A sealed message keeps its bytes and its number and is not in this
//! queue: merging a message that may have arrived would count its samples twice.
//!
//! DESIGN N9.

use std::collections::VecDeque;
use std::time::Duration;

use plimsoll_schemas::subject::SnapshotKind;
use plimsoll_schemas::time::Mono;

use super::amount::Amount;
use super::draft::{Draft, DraftIds, Priority};

/// The drafts of one lane.
#[derive(Default)]
pub(super) struct Queue {
    /// Whether critical drafts are sent before others, the newest of them first.
    critical_first: bool,
    drafts: VecDeque<Entry>,
    amount: Amount,
}

struct Entry {
    draft: Draft,
    /// True once merging this interval with the next one did not help. It never will: both can
    /// only grow.
    is_full: bool,
    /// True once merging the parts of this interval did not help.
    is_whole: bool,
    /// True once it had to wait for a token.
    was_rate_limited: bool,
}

impl Entry {
    fn new(draft: Draft) -> Self {
        Self { draft, is_full: false, is_whole: false, was_rate_limited: false }
    }
}

/// The indices of two drafts of one kind, where the newer one states what the older one did.
#[derive(Clone, Copy)]
struct Superseded {
    older: usize,
    newer: usize,
}

impl Queue {
    pub(super) fn critical_first() -> Self {
        Self { critical_first: true, ..Self::default() }
    }

    pub(super) fn amount(&self) -> Amount {
        self.amount
    }

    /// The draft that is sent next.
    pub(super) fn front(&self) -> Option<&Draft> {
        self.drafts.get(self.next()?).map(|entry| &entry.draft)
    }

    fn next(&self) -> Option<usize> {
        let is_first = |entry: &Entry| self.critical_first && entry.draft.is_critical();
        self.drafts.iter().rposition(is_first).or((!self.drafts.is_empty()).then_some(0))
    }

    pub(super) fn oldest(&self) -> Option<Mono> {
        self.drafts.front().map(|entry| entry.draft.enqueued)
    }

    /// When the next draft expires, if drafts live for `ttl`.
    pub(super) fn expires(&self, ttl: Duration) -> Option<Mono> {
        self.drafts.front().map(|entry| entry.draft.latest.plus(ttl))
    }

    pub(super) fn push(&mut self, draft: Draft) {
        self.insert(self.drafts.len(), draft);
    }

    /// Adds a draft at its place by age.
    pub(super) fn push_by_age(&mut self, draft: Draft) {
        let is_older = |entry: &Entry| entry.draft.enqueued <= draft.enqueued;
        let index = self.drafts.iter().rposition(is_older).map_or(0, |index| index + 1);
        self.insert(index, draft);
    }

    /// Removes the draft that is sent next. One with a longer body than `bytes` is split, and the
    /// rest stays; returns also how many messages more that makes.
    pub(super) fn pop(&mut self, bytes: usize, ids: &mut DraftIds) -> Option<(Draft, u64)> {
        let index = self.next()?;
        let mut parts = self.remove(index).split_at(bytes);
        let more = parts.len().saturating_sub(1) as u64;
        for mut part in parts.drain(1..).rev() {
            // The spool recognises a draft's content by its id, and these parts have another one.
            part.id = ids.next_id();
            self.insert(index, part);
        }
        Some((parts.pop()?, more))
    }

    /// Removes the drafts of the same interval as this one and of other kinds, so far as their
    /// bodies take at most `bytes`.
    pub(super) fn pop_beside(&mut self, first: &Draft, bytes: usize) -> Vec<Draft> {
        let (mut beside, mut kinds, mut room) = (Vec::new(), vec![first.kind], bytes);
        let mut index = 0;
        while let Some(Entry { draft, .. }) = self.drafts.get(index) {
            let fits = draft.body.len() <= room;
            // A message holds one body of each kind (S31).
            if fits && draft.is_of_interval(first) && !kinds.contains(&draft.kind) {
                room -= draft.body.len();
                kinds.push(draft.kind);
                beside.push(self.remove(index));
            } else {
                index += 1;
            }
        }
        beside
    }

    pub(super) fn take_oldest(&mut self) -> Option<Draft> {
        (!self.drafts.is_empty()).then(|| self.remove(0))
    }

    /// Removes the oldest draft if nothing in it is newer than `age`.
    pub(super) fn pop_older(&mut self, now: Mono, age: Duration) -> Option<Draft> {
        let is_old = now >= self.expires(age)?;
        is_old.then(|| self.remove(0))
    }

    pub(super) fn pop_low(&mut self) -> Option<Draft> {
        self.take_first(|draft| draft.priority == Priority::Low)
    }

    /// Removes the oldest draft for which `is_meant` holds.
    pub(super) fn take_first(&mut self, is_meant: impl Fn(&Draft) -> bool) -> Option<Draft> {
        let index = self.drafts.iter().position(|entry| is_meant(&entry.draft))?;
        Some(self.remove(index))
    }

    /// All drafts, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Draft> {
        self.drafts.iter().map(|entry| &entry.draft)
    }

    /// Moves all drafts of `other` before those of this queue.
    pub(super) fn prepend(&mut self, other: &mut Self) {
        self.amount = self.amount + std::mem::take(&mut other.amount);
        std::mem::swap(&mut self.drafts, &mut other.drafts);
        self.drafts.append(&mut other.drafts);
    }

    /// Marks the draft that is sent next as delayed by the rate limit; true the first time.
    pub(super) fn mark_front_rate_limited(&mut self) -> bool {
        let front = self.next().and_then(|index| self.drafts.get_mut(index));
        front.is_some_and(|entry| !std::mem::replace(&mut entry.was_rate_limited, true))
    }

    /// Merges drafts: removes the oldest reading that a newer one supersedes, or merges the oldest
    /// events into the next, or else merges the two neighbouring intervals that together cover the
    /// least time, which keeps the time resolution as even as possible. `None` when nothing can be
    /// merged.
    pub(super) fn coalesce(&mut self, ids: &mut DraftIds) -> Option<Coalesced> {
        match self.superseded() {
            Some(pair) => Some(self.supersede(pair, ids)),
            None => self.join_shortest(ids),
        }
    }

    /// Merges a draft for which there is no room with the newest interval, if the queue then takes
    /// at most `bytes_max`; returns by how many messages it then has fewer.
    ///
    /// # Errors
    /// Returns the draft when it cannot be merged.
    pub(super) fn try_join_newest(
        &mut self,
        draft: Draft,
        bytes_max: usize,
        ids: &mut DraftIds,
    ) -> Result<u64, Box<Draft>> {
        // The newest, because the new draft follows it: the merged message covers the least time.
        let newest = self.intervals().pop().unwrap_or_default();
        let Some((joined, bytes)) = self.joined_with(&newest, &draft) else {
            return Err(Box::new(draft));
        };
        if bytes > bytes_max {
            return Err(Box::new(draft));
        }
        let fewer = (newest.len() + 1).saturating_sub(joined.len()) as u64;
        self.replace(&newest, joined, ids);
        Ok(fewer)
    }

    /// The drafts of an interval merged with one more, and the bytes of the queue with these in
    /// their place.
    fn joined_with(&self, interval: &[usize], draft: &Draft) -> Option<(Vec<Draft>, usize)> {
        let of_interval = || interval.iter().map(|index| &self.drafts[*index].draft);
        let before: usize = of_interval().map(Draft::bytes).sum();
        if interval.is_empty() {
            return None;
        }
        let joined = Draft::join(&of_interval().chain([draft]).collect::<Vec<_>>())?;
        let bytes = self.amount.bytes - before + joined.iter().map(Draft::bytes).sum::<usize>();
        Some((joined, bytes))
    }

    /// The oldest hardware, bus or event draft that has a newer one of its kind, and that one.
    fn superseded(&self) -> Option<Superseded> {
        let mut found = None;
        let (mut hardware, mut bus, mut event) = (None, None, None);
        for (index, entry) in self.drafts.iter().enumerate().rev() {
            let newer = match entry.draft.kind {
                SnapshotKind::Latency | SnapshotKind::Interval | SnapshotKind::Shard => continue,
                SnapshotKind::Hardware => &mut hardware,
                SnapshotKind::Bus => &mut bus,
                SnapshotKind::Event => &mut event,
            };
            let pair = newer.replace(index).map(|newer| Superseded { older: index, newer });
            found = pair.or(found);
        }
        found
    }

    /// Events do not repeat, as readings do, and are kept as far as they fit.
    fn supersede(&mut self, pair: Superseded, ids: &mut DraftIds) -> Coalesced {
        let Superseded { older, newer } = pair;
        let older = self.remove(older);
        // The older one is gone from before it.
        let mut draft = self.remove(newer - 1);
        // A newer reading states all that the older one did; an event is stated once.
        let events_dropped = match draft.kind {
            SnapshotKind::Event => draft.prepend_events(&older),
            _ => {
                draft.supersede(&older);
                0
            }
        };
        draft.id = ids.next_id();
        self.insert(newer - 1, draft);
        Coalesced { messages: 1, events_dropped }
    }

    fn join_shortest(&mut self, ids: &mut DraftIds) -> Option<Coalesced> {
        // Each pair that does not merge is marked and not tried again, so this ends.
        while let Some((older, newer)) = self.shortest_pair() {
            let both = [&older[..], &newer[..]].concat();
            if let Some(coalesced) = self.join(&both, ids) {
                return Some(coalesced);
            }
            let alone = newer.is_empty();
            for index in older {
                let entry = &mut self.drafts[index];
                if alone { entry.is_whole = true } else { entry.is_full = true }
            }
        }
        None
    }

    fn join(&mut self, indices: &[usize], ids: &mut DraftIds) -> Option<Coalesced> {
        let drafts = indices.iter().map(|index| &self.drafts[*index].draft);
        let joined = Draft::join(&drafts.collect::<Vec<_>>())?;
        let messages = indices.len().saturating_sub(joined.len()) as u64;
        self.replace(indices, joined, ids);
        Some(Coalesced { messages, events_dropped: 0 })
    }

    /// The drafts at these indices, ascending, make way for others.
    fn replace(&mut self, indices: &[usize], drafts: Vec<Draft>, ids: &mut DraftIds) {
        // The merged interval is followed by what followed its last part, so what is known about
        // merging with that holds for it as well.
        let is_full = indices.last().is_some_and(|index| self.drafts[*index].is_full);
        let first = indices.first().copied().unwrap_or_default();
        for index in indices.iter().rev() {
            self.remove(*index);
        }
        for (index, mut draft) in (first..).zip(drafts) {
            draft.id = ids.next_id();
            self.insert(index, draft);
            (self.drafts[index].is_full, self.drafts[index].is_whole) = (is_full, true);
        }
    }

    /// The drafts of latencies by their interval, oldest first: a long one is several messages.
    fn intervals(&self) -> Vec<Vec<usize>> {
        let mut intervals: Vec<Vec<usize>> = Vec::new();
        let mut newest = None;

        for (index, Entry { draft, .. }) in self.drafts.iter().enumerate() {
            if !draft.is_latency() {
                continue;
            }
            // Parts of one interval are neighbours, save for drafts of other kinds between them.
            let span = Some((draft.start, draft.length_ns));

            match intervals.last_mut().filter(|_| newest == span) {
                Some(interval) => interval.push(index),
                None => intervals.push(vec![index]),
            }

            newest = span;
        }

        intervals
    }

    /// The first interval whose parts may be merged, or else two neighbours.
    fn shortest_pair(&self) -> Option<(Vec<usize>, Vec<usize>)> {
        let intervals = self.intervals();
        let first = |interval: &[usize]| &self.drafts[interval[0]];
        let in_parts = |interval: &&Vec<usize>| interval.len() > 1 && !first(interval).is_whole;
        // Parts of one interval first: merging them costs no time resolution (N9).
        if let Some(parts) = intervals.iter().find(in_parts) {
            return Some((parts.clone(), Vec::new()));
        }
        let length = |interval: &[usize]| first(interval).draft.length_ns;
        let is_open = |pair: &&[Vec<usize>]| !first(&pair[0]).is_full;
        let both = |pair: &&[Vec<usize>]| length(&pair[0]).saturating_add(length(&pair[1]));
        let shortest = intervals.windows(2).filter(is_open).min_by_key(both)?;
        Some((shortest[0].clone(), shortest[1].clone()))
    }

    fn insert(&mut self, index: usize, draft: Draft) {
        self.amount = self.amount + Amount::of_draft(&draft);
        self.drafts.insert(index, Entry::new(draft));
    }

    fn remove(&mut self, index: usize) -> Draft {
        let entry = self.drafts.remove(index).expect("the caller found the index");
        self.amount = self.amount - Amount::of_draft(&entry.draft);
        entry.draft
    }
}

/// What a merge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coalesced {
    /// By how many messages there are fewer.
    pub(super) messages: u64,
    /// Events that did not fit into one message.
    pub(super) events_dropped: u64,
}
