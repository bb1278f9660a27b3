//! Samples of one operation from one thread: written by that thread, read by the flusher.
//!
//! All counts only ever grow. The flusher remembers what it has read and takes the difference, so
//! no count is lost or doubled, however the two threads interleave. The only thing to synchronise
//! is that one reading covers a whole number of records. For that there is `seq`, odd during a
//! record:
//!
//! - The writer makes `seq` odd, then (release fence) writes, then makes it even (release).
//! - The flusher reads `seq` (acquire), then everything, then (acquire fence) `seq` again. If it
//!   had read anything of a later record, the two fences would make it see that record's odd `seq`
//!   or a later one. The same even number twice therefore means: exactly `seq / 2` records.
//!
//! This is the sequence lock of the C++ memory model and depends on no timing. A thread that
//! records without a pause would never let a reading succeed, so there are two halves, and the
//! flusher reads the half that it has just turned writers away from. A writer that had chosen its
//! half before and was stopped by the scheduler may still write to it. In the middle of a record it
//! makes the reading fail, and a later flush reads that half; after it, the next reading counts the
//! record. Only `min` or `max` of that record may then be reported already, or be mixed with those
//! of the samples before; the edges of the outermost buckets are reported instead, which are within
//! 0.1 %.
//!
//! DESIGN N20.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use plimsoll_schemas::histogram::{Counts, ExactFigures, Histogram, layout};

/// Buckets in one leaf: fewer would make the list of leaves longer, more the leaves themselves.
const LEAF: usize = 128;
const LEAVES: usize = layout::LEN.div_ceil(LEAF);

/// Counts of neighbouring buckets, made when the first sample falls into one of them.
#[repr(align(64))]
struct Leaf {
    counts: [AtomicU64; LEAF],
    /// Values of `counts` at the last reading; only the flusher accesses them.
    taken: [AtomicU64; LEAF],
}

/// Two of these make a recorder; see the head of this file.
#[repr(align(128))]
pub(crate) struct Half {
    /// Twice the records; one more while a record is made.
    seq: AtomicU64,
    sum_ns: AtomicU64,
    /// Of the samples since `taken`.
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    /// Multiples of 2^64 in the sum.
    sum_carry: AtomicU64,
    clamped: AtomicU64,
    /// The `seq` up to which the flush has read, and what it found; written by the flush alone.
    taken: AtomicU64,
    taken_sum: [AtomicU64; 2],
    taken_clamped: AtomicU64,
    leaves: [OnceLock<Box<Leaf>>; LEAVES],
}

/// Samples since the last reading.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Samples {
    pub(crate) histogram: Histogram,
    /// Samples above one hour, in the histogram as one hour.
    pub(crate) clamped: u64,
}

impl Samples {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.histogram.merge(&other.histogram);
        self.clamped += other.clamped;
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.histogram.record(ns);
        self.clamped += u64::from(ns > layout::MAX_NS);
    }
}

/// All values of one reading, before it is known to be consistent.
struct Reading {
    seq: u64,
    sum: [u64; 2],
    min_ns: u64,
    max_ns: u64,
    clamped: u64,
    grown: Vec<GrownBucket>,
}

/// A bucket that has grown since the last reading.
struct GrownBucket {
    index: usize,
    more: u64,
}

impl Half {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            seq: zero(),
            sum_ns: zero(),
            min_ns: zero(),
            max_ns: zero(),
            sum_carry: zero(),
            clamped: zero(),
            taken: zero(),
            taken_sum: [zero(), zero()],
            taken_clamped: zero(),
            leaves: [const { OnceLock::new() }; LEAVES],
        }
    }

    /// Records one sample; only ever called by one thread.
    #[inline]
    pub(crate) fn record(&self, ns: u64) {
        if ns > layout::MAX_NS {
            return self.record_clamped();
        }
        self.write(ns, 0);
    }

    /// A value above one hour counts as one hour.
    #[cold]
    fn record_clamped(&self) {
        self.write(layout::MAX_NS, 1);
    }

    #[inline]
    fn write(&self, value: u64, clamped: u64) {
        let index = layout::index_of(value);
        // Before `seq` is odd: an allocation takes long, and a reading would fail for all of it.
        let leaf = match self.leaf(index) {
            Some(leaf) => leaf,
            None => self.grow(index),
        };

        let seq = self.seq.load(Relaxed);

        // First of all stores, which the fence ensures: a reading that saw any of the counts below
        // sees that `seq` is odd too.
        self.seq.store(seq.wrapping_add(1), Relaxed);
        fence(Release);
        add(&leaf.counts[index % LEAF], 1);

        let (sum, carries) = self.sum_ns.load(Relaxed).overflowing_add(value);
        self.sum_ns.store(sum, Relaxed);
        if carries {
            add(&self.sum_carry, 1);
        }

        // Acquire: what is written from here on cannot be what the flush was still reading.
        let first = self.taken.load(Acquire) == seq;
        if first || value < self.min_ns.load(Relaxed) {
            self.min_ns.store(value, Relaxed);
        }
        if first || value > self.max_ns.load(Relaxed) {
            self.max_ns.store(value, Relaxed);
        }

        if clamped > 0 {
            add(&self.clamped, clamped);
        }
        self.seq.store(seq.wrapping_add(2), Release);
    }

    #[inline]
    fn leaf(&self, index: usize) -> Option<&Leaf> {
        self.leaves.get(index / LEAF)?.get().map(|leaf| &**leaf)
    }

    #[cold]
    fn grow(&self, index: usize) -> &Leaf {
        self.leaves[index / LEAF].get_or_init(|| {
            let zeros = || [const { AtomicU64::new(0) }; LEAF];
            Box::new(Leaf { counts: zeros(), taken: zeros() })
        })
    }

    /// Records that no reading has covered yet.
    pub(crate) fn untaken(&self) -> u64 {
        (self.seq.load(Acquire) / 2).saturating_sub(self.taken.load(Relaxed) / 2)
    }

    /// Samples since the last call; `None` during a record. Only one thread may call it at a time.
    pub(crate) fn take(&self) -> Option<Samples> {
        // Most recorders have nothing new in most flushes, which are 40 ms apart.
        if self.seq.load(Acquire) == self.taken.load(Relaxed) {
            return Some(Samples::default());
        }

        let reading = self.reading()?;
        let taken = self.difference(&reading);
        self.remember(&reading);
        Some(taken)
    }

    fn reading(&self) -> Option<Reading> {
        let seq = self.seq.load(Acquire);
        // A record is being made, so the reading would be thrown away.
        if seq % 2 == 1 {
            return None;
        }
        let mut grown = Vec::new();

        for (number, leaf) in self.leaves() {
            for (at, (count, taken)) in leaf.counts.iter().zip(&leaf.taken).enumerate() {
                // Both only grow, so their difference is right beyond 64 bits too.
                let more = count.load(Relaxed).wrapping_sub(taken.load(Relaxed));
                if more > 0 {
                    grown.push(GrownBucket { index: number * LEAF + at, more });
                }
            }
        }

        let reading = Reading {
            seq,
            sum: [self.sum_ns.load(Relaxed), self.sum_carry.load(Relaxed)],
            min_ns: self.min_ns.load(Relaxed),
            max_ns: self.max_ns.load(Relaxed),
            clamped: self.clamped.load(Relaxed),
            grown,
        };

        // Keeps all loads above before the one below, so that a record between them shows.
        fence(Acquire);
        (self.seq.load(Relaxed) == seq).then_some(reading)
    }

    fn leaves(&self) -> impl Iterator<Item = (usize, &Leaf)> {
        (0..).zip(&self.leaves).filter_map(|(n, leaf)| Some((n, &**leaf.get()?)))
    }

    fn difference(&self, reading: &Reading) -> Samples {
        let count = reading.grown.iter().map(|bucket| bucket.more).sum();
        let before = wide(self.taken_sum.each_ref().map(|part| part.load(Relaxed)));
        let exact = ExactFigures {
            count,
            sum_ns: wide(reading.sum).wrapping_sub(before),
            min_ns: reading.min_ns,
            max_ns: reading.max_ns,
        };
        let clamped = reading.clamped.wrapping_sub(self.taken_clamped.load(Relaxed));
        Samples { histogram: assemble(exact, &reading.grown), clamped }
    }

    fn remember(&self, reading: &Reading) {
        for &GrownBucket { index, more } in &reading.grown {
            let Some(leaf) = self.leaf(index) else { continue };
            add(&leaf.taken[index % LEAF], more);
        }
        self.taken_sum.iter().zip(reading.sum).for_each(|(taken, sum)| taken.store(sum, Relaxed));
        self.taken_clamped.store(reading.clamped, Relaxed);

        // Last: a writer that sees this number starts `min_ns` and `max_ns` anew, which nothing
        // reads any more by then.
        self.taken.store(reading.seq, Release);
    }
}

/// Adds without an atomic addition: there is one writer.
#[inline]
fn add(figure: &AtomicU64, n: u64) {
    figure.store(figure.load(Relaxed).wrapping_add(n), Relaxed);
}

fn wide([low, carry]: [u64; 2]) -> u128 {
    (u128::from(carry) << 64) | u128::from(low)
}

/// The exact figures if they are consistent with the counts, otherwise the edges of the outermost
/// buckets.
fn assemble(exact: ExactFigures, grown: &[GrownBucket]) -> Histogram {
    let counts = || {
        let mut counts = Counts::default();
        grown.iter().for_each(|bucket| counts.add(bucket.index, bucket.more));
        counts
    };
    let exact_histogram = Histogram::try_from_parts(exact, counts(), exact.count);
    exact_histogram.unwrap_or_else(|_| {
        let min_ns = grown.first().map_or(0, |bucket| layout::lowest(bucket.index));
        let max_ns = grown.last().map_or(0, |bucket| layout::highest(bucket.index));
        let edges = ExactFigures { min_ns, max_ns: max_ns.min(layout::MAX_NS), ..exact };
        Histogram::try_from_parts(edges, counts(), exact.count).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests;
