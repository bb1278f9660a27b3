//! The state of every stream: up to when it was recorded, and what it had counted then.
//!
//! A restarted process has a later start, and processes that share an identity have different ones:
//! each start of a stream is a stream of its own. What may have been recorded before, here or by a
//! former incarnation of this node, is never recorded again.
//!
//! DESIGN N27.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use crate::limits::{STREAM_STARTS_MAX, STREAMS_BYTES_MAX, STREAMS_MAX};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use plimsoll_schemas::time::{Now, Wall};

use super::point::Point;
use super::previous::PreviousBuckets;
use crate::core::intake::series::SlotRef;

/// The share of streams that is evicted at a time, so that a flood of them costs little each.
const EVICTED_SHARE: usize = 16;

/// One start of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    id: u64,
    start: Wall,
    /// Up to when it was recorded.
    pub(super) time: Wall,
    /// Value of [`StreamTable::lookups`] when it was last found.
    last_found: u64,
    pub(super) state: StreamState,
}

/// What the next point of a stream is compared with.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    /// The slot of its series, until slots move.
    pub(super) slot: Option<SlotRef>,
    pub(super) last: LastValue,
}

/// The last value of a stream.
#[derive(Debug, Default)]
pub(super) enum LastValue {
    #[default]
    Nothing,
    Number(f64),
    Buckets(PreviousBuckets),
}

/// How the first point of a stream is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstPoint {
    /// All of it is new.
    New,
    /// All of it is new, because its process restarted.
    Restart,
    /// It may have been recorded before; the next point is compared with it.
    Baseline,
    /// Another start of the stream was recorded for the same time. Either two processes share an
    /// identity, or one reports a different start each time: it is accepted once it repeats its
    /// start, and then all of it is new.
    Ambiguous,
}

pub(super) struct StreamTable {
    table: HashTable<Stream>,
    hasher: FixedState,
    /// Bytes of counts.
    bytes: usize,
    /// Number of lookups so far.
    lookups: u64,
    /// The table is complete from this time on: no stream was evicted after it.
    since: Now,
    /// Likewise for streams of which a start was evicted; each later than `since`.
    since_of: BTreeMap<u64, Now>,
    pub(super) evicted: u64,
}

impl StreamState {
    pub(super) fn bytes(&self) -> usize {
        match &self.last {
            LastValue::Buckets(kept) => kept.bytes(),
            LastValue::Nothing | LastValue::Number(_) => 0,
        }
    }
}

impl StreamTable {
    /// No streams. `seed` keeps a sender from choosing streams that collide.
    pub(super) fn new(now: Now, seed: u64) -> Self {
        Self {
            table: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            bytes: 0,
            lookups: 0,
            since: now,
            since_of: BTreeMap::new(),
            evicted: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn get(&mut self, id: u64, start: Wall) -> Option<&mut Stream> {
        let hash = self.hasher.hash_one(id);
        // Orders streams by their last use, without a clock.
        self.lookups += 1;
        let stream = self.table.find_mut(hash, |known| (known.id, known.start) == (id, start))?;
        stream.last_found = self.lookups;
        Some(stream)
    }

    /// The counts of a stream changed from `before` bytes to `bytes`.
    pub(super) fn on_resized(&mut self, now: Now, bytes: usize, before: usize) {
        self.bytes = self.bytes + bytes - before;
        self.make_room(now);
    }

    /// How the first point of an unknown start is recorded. The clocks of producer and node may
    /// differ: a producer counts as started after this node only if both its start and its age
    /// show it.
    pub(super) fn first(&self, now: Now, point: &Point<'_>) -> FirstPoint {
        let since = self.since_of.get(&point.stream).unwrap_or(&self.since);
        let lived = now.mono.since(since.mono);
        let is_young = point.start >= since.wall && point.time.since(point.start) <= lived;
        match self.recorded_up_to(point.stream) {
            _ if point.start == Wall::default() => FirstPoint::Baseline,
            // A restart by its own clock, unless this start was known and evicted.
            Some(taken) if point.start >= taken && (is_young || self.evicted == 0) => {
                FirstPoint::Restart
            }
            Some(_) if is_young => FirstPoint::Ambiguous,
            None if is_young => FirstPoint::New,
            _ => FirstPoint::Baseline,
        }
    }

    /// Up to when any start of a stream was recorded.
    fn recorded_up_to(&self, id: u64) -> Option<Wall> {
        let same = self.table.iter_hash(self.hasher.hash_one(id));
        same.filter(|known| known.id == id).map(|known| known.time).max()
    }

    /// Adds an unknown stream; the least recently used ones are evicted if there is no room.
    pub(super) fn insert(&mut self, now: Now, start: Wall, point: &Point<'_>, state: StreamState) {
        let Self { table, hasher, .. } = self;
        let (id, time, last_found) = (point.stream, point.time, self.lookups);
        self.bytes += state.bytes();
        let stream = Stream { id, start, time, last_found, state };
        table.insert_unique(hasher.hash_one(id), stream, |known| hasher.hash_one(known.id));
        self.evict_starts(now, id);
        self.make_room(now);
    }

    /// Evicts the least recently used start of a stream that has too many.
    fn evict_starts(&mut self, now: Now, id: u64) {
        let hash = self.hasher.hash_one(id);
        let same = self.table.iter_hash(hash).filter(|known| known.id == id);
        let found: Vec<u64> = same.map(|known| known.last_found).collect();
        let Some(oldest) = found.iter().min().filter(|_| found.len() > STREAM_STARTS_MAX) else {
            return;
        };

        if let Ok(entry) = self.table.find_entry(hash, |known| known.last_found == *oldest) {
            self.bytes -= entry.remove().0.state.bytes();
            self.evicted += 1;
            // A process that restarts each minute must not turn the others into baselines.
            self.since_of.insert(id, now);
            if self.since_of.len() > STREAMS_MAX / EVICTED_SHARE {
                self.reset_since(now);
            }
        }
    }

    fn make_room(&mut self, now: Now) {
        while self.table.len() > STREAMS_MAX || self.bytes > STREAMS_BYTES_MAX {
            let mut found: Vec<u64> = self.table.iter().map(|known| known.last_found).collect();
            // A share at once: to evict one at a time would search the table for each new stream of
            // a flood.
            let nth = found.len() / EVICTED_SHARE;
            let upto = *found.select_nth_unstable(nth).1;
            self.table.retain(|known| known.last_found > upto);
            self.bytes = self.table.iter().map(|known| known.state.bytes()).sum();
            self.evicted += (found.len() - self.table.len()) as u64;
            // Any unknown stream may be one of these: its first point is a baseline from here on
            // (N28).
            self.reset_since(now);
        }
    }

    fn reset_since(&mut self, now: Now) {
        self.since = now;
        self.since_of.clear();
    }

    /// Slots have moved: `moved` maps each to its new index.
    pub(super) fn on_slots_moved(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        for Stream { state: StreamState { slot, .. }, .. } in &mut self.table {
            *slot = slot.and_then(|slot| slot.moved(&moved));
        }
    }
}

#[cfg(test)]
mod tests;
