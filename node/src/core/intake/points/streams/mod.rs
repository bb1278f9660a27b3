//! What is known of every stream: how far it was taken, and what it had counted then.
//!
//! A process that begins anew tells its later start, and so do several processes that call
//! themselves the same: each start of a stream is a stream of its own. What may have been counted
//! before, here or by a former run of this node, is never counted again.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use crate::limits::{STREAM_STARTS_MAX, STREAMS_BYTES_MAX, STREAMS_MAX};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use plimsoll_schemas::time::{Now, Wall};

use super::kept::Kept;
use crate::core::intake::interval::Place;
use crate::core::intake::point::Point;

/// One of so many streams is forgotten at a time, so that a flood of them costs little each.
const FORGOTTEN_SHARE: usize = 16;

/// One start of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    id: u64,
    start: Wall,
    /// Up to when it was taken.
    pub(super) time: Wall,
    /// When it was heard last, in times that any was.
    heard: u64,
    pub(super) memory: Memory,
}

/// What is remembered of a stream.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Where its series is counted, as long as that holds.
    pub(super) place: Option<Place>,
    pub(super) last: Last,
}

/// What a stream told last.
#[derive(Debug, Default)]
pub(super) enum Last {
    /// Nothing that has to be known.
    #[default]
    Nothing,
    /// A sum, or what amounts came to.
    Number(f64),
    /// A distribution.
    Buckets(Kept),
}

/// What is to be done with the first point of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// All that it counts is new.
    New,
    /// The same, and a process has begun anew.
    Restart,
    /// What it counts may have been counted before; the next is compared with it.
    Baseline,
    /// Another start of the stream was taken for the same time. Either two processes call
    /// themselves the same, or one tells another start each time: it is believed when it tells
    /// the same again, and then all of it is new.
    Doubtful,
}

/// All streams that are known.
pub(super) struct Streams {
    table: HashTable<Stream>,
    hasher: FixedState,
    /// Bytes of counts kept.
    bytes: usize,
    /// Times that any stream was heard.
    heard: u64,
    /// What was counted since then, and only that, is known.
    since: Now,
    /// The same of streams of which a start was forgotten; each later than that.
    since_of: BTreeMap<u64, Now>,
    forgotten: u64,
}

impl Memory {
    /// Bytes of counts in it.
    pub(super) fn bytes(&self) -> usize {
        match &self.last {
            Last::Buckets(kept) => kept.bytes(),
            Last::Nothing | Last::Number(_) => 0,
        }
    }
}

impl Streams {
    /// None yet. `seed` keeps a sender from choosing streams that collide.
    pub(super) fn new(now: Now, seed: u64) -> Self {
        Self {
            table: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            bytes: 0,
            heard: 0,
            since: now,
            since_of: BTreeMap::new(),
            forgotten: 0,
        }
    }

    /// Number of streams known.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Streams that gave way to others.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// What is known of this start of a stream.
    pub(super) fn get(&mut self, id: u64, start: Wall) -> Option<&mut Stream> {
        let hash = self.hasher.hash_one(id);
        self.heard += 1;
        let stream = self.table.find_mut(hash, |known| (known.id, known.start) == (id, start))?;
        stream.heard = self.heard;
        Some(stream)
    }

    /// Hears that a known stream keeps so many bytes of counts, and how many it kept before.
    pub(super) fn on_kept(&mut self, now: Now, bytes: usize, before: usize) {
        self.bytes = self.bytes + bytes - before;
        self.make_room(now);
    }

    /// What the first point of a start that is not known adds. The clocks of producer and node
    /// may differ: who began after this node did so by both, and has not run for longer.
    pub(super) fn first(&self, now: Now, point: &Point<'_>) -> First {
        let since = self.since_of.get(&point.stream).unwrap_or(&self.since);
        let lived = now.mono.since(since.mono);
        let is_young = point.start >= since.wall && point.time.since(point.start) <= lived;
        match self.taken_up_to(point.stream) {
            _ if point.start == Wall::default() => First::Baseline,
            // Its own clock says so, unless this start was known and is forgotten.
            Some(taken) if point.start >= taken && (is_young || self.forgotten == 0) => {
                First::Restart
            }
            Some(_) if is_young => First::Doubtful,
            None if is_young => First::New,
            _ => First::Baseline,
        }
    }

    /// Up to when any start of a stream was taken.
    fn taken_up_to(&self, id: u64) -> Option<Wall> {
        let same = self.table.iter_hash(self.hasher.hash_one(id));
        same.filter(|known| known.id == id).map(|known| known.time).max()
    }

    /// Remembers what was not known; the longest silent ones give way.
    pub(super) fn insert(&mut self, now: Now, start: Wall, point: &Point<'_>, memory: Memory) {
        let Self { table, hasher, .. } = self;
        let (id, time, heard) = (point.stream, point.time, self.heard);
        self.bytes += memory.bytes();
        let stream = Stream { id, start, time, heard, memory };
        table.insert_unique(hasher.hash_one(id), stream, |known| hasher.hash_one(known.id));
        self.forget_starts(now, id);
        self.make_room(now);
    }

    /// Of too many starts of one stream the longest silent is forgotten.
    fn forget_starts(&mut self, now: Now, id: u64) {
        let hash = self.hasher.hash_one(id);
        let same = self.table.iter_hash(hash).filter(|known| known.id == id);
        let heard: Vec<u64> = same.map(|known| known.heard).collect();
        let Some(oldest) = heard.iter().min().filter(|_| heard.len() > STREAM_STARTS_MAX) else {
            return;
        };
        if let Ok(entry) = self.table.find_entry(hash, |known| known.heard == *oldest) {
            self.bytes -= entry.remove().0.memory.bytes();
            self.forgotten += 1;
            // A process that begins anew each minute must not make those beside it baselines.
            self.since_of.insert(id, now);
            if self.since_of.len() > STREAMS_MAX / FORGOTTEN_SHARE {
                self.know_from(now);
            }
        }
    }

    fn make_room(&mut self, now: Now) {
        while self.table.len() > STREAMS_MAX || self.bytes > STREAMS_BYTES_MAX {
            let mut heard: Vec<u64> = self.table.iter().map(|known| known.heard).collect();
            let nth = heard.len() / FORGOTTEN_SHARE;
            let upto = *heard.select_nth_unstable(nth).1;
            self.table.retain(|known| known.heard > upto);
            self.bytes = self.table.iter().map(|known| known.memory.bytes()).sum();
            self.forgotten += (heard.len() - self.table.len()) as u64;
            self.know_from(now);
        }
    }

    fn know_from(&mut self, now: Now) {
        self.since = now;
        self.since_of.clear();
    }

    /// Hears where the slots of all series are now.
    pub(super) fn renew(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        for Stream { memory: Memory { place, .. }, .. } in &mut self.table {
            *place = place.and_then(|place| place.moved(&moved));
        }
    }
}

#[cfg(test)]
mod tests;
