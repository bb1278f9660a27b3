//! Bounds of samples that are known by a producer's wide bucket only. Such samples are counted at a
//! few places inside it; beside that, two rows count each of them in the bucket of the least and of
//! the greatest value that its producer allows.
//!
//! The r-th smallest of all samples lies between the r-th smallest of the one and of the other, and
//! no closer bound is right: all samples may be at their least, or all at their most. Samples that
//! were recorded one by one are not covered; without other samples there is no cost.
//!
//! DESIGN S4.

use crate::histogram::layout::{self, MAX_NS};
use crate::histogram::over::Over;
use crate::histogram::payload::SamplesBeside;
use crate::histogram::row::{Row, difference};

/// At most this many places for the samples of one producer's bucket.
const PLACES_MAX: usize = 16;
/// Buckets for each place at least: 3 to 6 % of a value above 1 ms.
const PLACE_BUCKETS: usize = 64;

/// Samples that lie somewhere between two ends, beside the counts that they are part of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketUncertainty {
    /// Where they are counted.
    pub(super) placed: Row,
    /// Where the least that each may be would be counted.
    pub(super) low: Row,
    /// Where the most that each may be would be counted.
    pub(super) high: Row,
}

/// Samples of one producer's bucket: each lies within `least_ns..=most_ns`.
#[derive(Clone, Copy, Debug)]
pub(in crate::histogram) struct Within {
    least_ns: u64,
    most_ns: u64,
    /// The buckets of these two.
    first: usize,
    last: usize,
    n: u64,
}

/// Where some of these samples are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::histogram) struct Place {
    pub(in crate::histogram) index: usize,
    /// The middle of that bucket.
    pub(in crate::histogram) value_ns: u64,
    /// Samples.
    pub(in crate::histogram) n: u64,
}

impl Within {
    /// `n` samples, at least one; `least_ns` is not above `most_ns`, and that not above an hour.
    #[inline]
    pub(in crate::histogram) fn new(least_ns: u64, most_ns: u64, n: u64) -> Self {
        let (first, last) = (layout::index_of(least_ns), layout::index_of(most_ns));
        Self { least_ns, most_ns, first, last, n }
    }

    /// Where the samples are counted, in ascending order, at most [`PLACES_MAX`]: as many in each
    /// part of the buckets between.
    #[inline]
    pub(in crate::histogram) fn places(self) -> impl Iterator<Item = Place> {
        let span = self.last + 1 - self.first;
        let most = span.div_ceil(PLACE_BUCKETS).min(PLACES_MAX);
        let places = usize::try_from(self.n).map_or(most, |n| most.min(n));

        // Most buckets of a fine producer have one place, for which nothing has to be divided.
        let (mut parts, mut shares) = match places {
            1 => (Steps::once(span as u64 / 2), Steps::once(self.n)),
            _ => (
                Steps::new(span as u64, 2 * span as u64, 2 * places as u64),
                Steps::new(self.n, self.n, places as u64),
            ),
        };

        let mut counted = 0;
        (0..places).map(move |_| {
            let (part, upto) = (parts.take(), shares.take());
            #[expect(clippy::cast_possible_truncation, reason = "below the span of the buckets")]
            let index = self.first + part as usize;
            let middle = layout::lowest(index).midpoint(layout::highest(index));
            let value_ns = middle.clamp(self.least_ns, self.most_ns);
            Place { index, value_ns, n: upto - std::mem::replace(&mut counted, upto) }
        })
    }
}

/// The whole numbers of a division whose dividend grows by the same amount each time.
struct Steps {
    quotient: u64,
    remainder: u64,
    step: u64,
    step_remainder: u64,
    divisor: u64,
}

impl Steps {
    /// `first / divisor`, `(first + step) / divisor`, and so on. The divisor is at most
    /// 2 * [`PLACES_MAX`].
    fn new(first: u64, step: u64, divisor: u64) -> Self {
        let (quotient, remainder) = (first / divisor, first % divisor);
        let (step, step_remainder) = (step / divisor, step % divisor);
        Self { quotient, remainder, step, step_remainder, divisor }
    }

    fn once(quotient: u64) -> Self {
        Self { quotient, remainder: 0, step: 0, step_remainder: 0, divisor: 1 }
    }

    #[inline]
    fn take(&mut self) -> u64 {
        let quotient = self.quotient;
        self.remainder += self.step_remainder;
        let carry = self.remainder >= self.divisor;
        self.remainder -= if carry { self.divisor } else { 0 };
        // The value after the last one is not used.
        self.quotient = quotient.wrapping_add(self.step).wrapping_add(u64::from(carry));
        quotient
    }
}

impl BucketUncertainty {
    /// Nothing, with room for the samples of this many buckets.
    pub(in crate::histogram) fn with_room(buckets: usize) -> Self {
        let [placed, low, high] = [(); 3].map(|()| Row::with_room(buckets));
        Self { placed, low, high }
    }

    /// Adds the ends of these samples.
    #[inline]
    pub(in crate::histogram) fn add_ends(&mut self, samples: Within) {
        self.low.add(samples.first, samples.n);
        self.high.add(samples.last, samples.n);
    }

    /// Adds some of them where they are counted.
    #[inline]
    pub(in crate::histogram) fn add_placed(&mut self, place: Place) {
        self.placed.add(place.index, place.n);
    }

    /// Adds the bounds of other samples.
    pub fn merge(&mut self, other: &Self) {
        self.placed.merge(&other.placed);
        self.low.merge(&other.low);
        self.high.merge(&other.high);
    }

    /// The sum of several; `None` if there are none.
    pub(in crate::histogram) fn united(parts: impl Iterator<Item = Self>) -> Option<Self> {
        parts.reduce(|mut one, two| {
            one.merge(&two);
            one
        })
    }

    /// The least and the most, in nanoseconds, that the sample of `rank` (1 = smallest) may be
    /// among all `count` samples, of which `counts` are the buckets.
    #[must_use]
    pub fn at_rank(
        &self,
        count: u64,
        counts: &(impl Iterator<Item = (usize, u64)> + Clone),
        rank: u64,
    ) -> Option<(u64, u64)> {
        let find = |ends| {
            let reached = |seen: &mut i128, (index, n)| {
                *seen += n;
                Some((index, *seen >= i128::from(rank)))
            };
            let mut row = self.moved(count, counts.clone(), ends).scan(0, reached);
            row.find_map(|(index, is_reached)| is_reached.then_some(index))
        };
        Some((layout::lowest(find(&self.low)?), highest(find(&self.high)?)))
    }

    /// Samples over a limit, from the bucket counts: `beside` returns the samples in one bucket and
    /// in all above it.
    pub(in crate::histogram) fn over(
        &self,
        limit_ns: u64,
        beside: impl Fn(usize) -> SamplesBeside,
    ) -> Over {
        let own = layout::index_of(limit_ns.min(MAX_NS));
        let (all, placed) = (beside(own), self.placed.beside(own));
        // All samples, with the uncertain ones at one of their ends.
        let moved_to = |ends: SamplesBeside| SamplesBeside {
            within: all.within.saturating_sub(placed.within).saturating_add(ends.within),
            above: all.above.saturating_sub(placed.above).saturating_add(ends.above),
        };

        let least = moved_to(self.low.beside(own));
        let most = moved_to(self.high.beside(own));
        let own_over = if highest(own) <= limit_ns { 0 } else { most.within };
        let over_at_most = most.above.saturating_add(own_over);
        Over { over: least.above, uncertain: over_at_most.saturating_sub(least.above) }
    }

    /// The least and the most, in nanoseconds, that all `count` samples may sum up to, of which
    /// `counts` are the buckets.
    pub(in crate::histogram) fn sums(
        &self,
        count: u64,
        counts: &(impl Iterator<Item = (usize, u64)> + Clone),
    ) -> (u128, u128) {
        let are_all = self.placed.total() == count;
        let sum = |ends: &Row, value: fn(usize) -> u64| {
            let sum = |sum: u128, (index, n): (usize, i128)| {
                let n = n.max(0).unsigned_abs();
                sum.saturating_add(n.saturating_mul(value(index).into()))
            };
            match are_all {
                true => ends.iter().map(|(index, n)| (index, n.into())).fold(0, sum),
                false => self.moved(count, counts.clone(), ends).fold(0, sum),
            }
        };
        (sum(&self.low, layout::lowest), sum(&self.high, highest))
    }

    /// The least and the most, in nanoseconds, that any of `count` samples may be.
    pub(super) fn ends(
        &self,
        count: u64,
        counts: &(impl Iterator<Item = (usize, u64)> + Clone),
    ) -> Option<(u64, u64)> {
        let used = |ends| self.moved(count, counts.clone(), ends).filter(|(_, n)| *n > 0);
        let (first, last) = (used(&self.low).next()?.0, used(&self.high).last()?.0);
        Some((layout::lowest(first), highest(last)))
    }

    /// Whether it may be about samples of `counts`.
    pub(super) fn is_about(&self, counts: impl Iterator<Item = (usize, u64)>) -> bool {
        let none = std::iter::empty();
        self.placed.len() > 0
            && difference(counts, self.placed.iter(), none).all(|(_, n)| n >= 0)
            && self.low.precedes(&self.placed)
            && self.placed.precedes(&self.high)
    }

    /// The buckets of all `count` samples if the uncertain ones are at one of their ends. If all
    /// samples are uncertain, `counts` is not read.
    fn moved(
        &self,
        count: u64,
        counts: impl Iterator<Item = (usize, u64)>,
        ends: &Row,
    ) -> impl Iterator<Item = (usize, i128)> {
        let polled = if self.placed.total() == count { 0 } else { usize::MAX };
        difference(counts.take(polled), self.placed.iter().take(polled), ends.iter())
    }

    /// Buckets in use: places, and least and greatest ends.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.placed.len() + self.low.len() + self.high.len()
    }

    /// Heap bytes in use.
    pub(in crate::histogram) fn heap_bytes(&self) -> usize {
        let rows = [&self.placed, &self.low, &self.high];
        size_of::<Self>() + rows.map(Row::heap_bytes).iter().sum::<usize>()
    }
}

/// The largest value of a bucket that is a sample's.
fn highest(index: usize) -> u64 {
    layout::highest(index).min(MAX_NS)
}
