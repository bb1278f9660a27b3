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
use crate::histogram::row::{Row, difference};

/// At most so many places for the samples of one producer's bucket.
const PLACES_MAX: u64 = 16;
/// Buckets for each place at least: 3 to 6 % of a value above 1 ms.
const PLACE_BUCKETS: u64 = 64;

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

/// Where samples are counted of which each lies within `least_ns..=most_ns`, at most
/// [`PLACES_MAX`]: as many in each part of the buckets between, as (value, samples).
pub(in crate::histogram) fn places(
    least_ns: u64,
    most_ns: u64,
    n: u64,
) -> impl Iterator<Item = (u64, u64)> {
    let first = layout::index_of(least_ns) as u64;
    let span = layout::index_of(most_ns) as u64 + 1 - first;
    let places = span.div_ceil(PLACE_BUCKETS).min(PLACES_MAX).min(n);
    // n * place / places, which might not fit.
    let upto = move |place: u64| n / places * place + n % places * place / places;
    (0..places).map(move |place| {
        #[expect(clippy::cast_possible_truncation, reason = "a bucket between those of two values")]
        let index = (first + span * (2 * place + 1) / (2 * places)) as usize;
        let share = upto(place + 1) - upto(place);
        let middle = layout::lowest(index).midpoint(layout::highest(index));
        (middle.clamp(least_ns, most_ns), share)
    })
}

impl BucketUncertainty {
    /// Adds `n` samples that are counted at `value_ns` and each lie within `least_ns..=most_ns`.
    pub(in crate::histogram) fn add(&mut self, value_ns: u64, least_ns: u64, most_ns: u64, n: u64) {
        self.placed.add(layout::index_of(value_ns), n);
        self.low.add(layout::index_of(least_ns), n);
        self.high.add(layout::index_of(most_ns), n);
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
        beside: impl Fn(usize) -> (u64, u64),
    ) -> Over {
        let own = layout::index_of(limit_ns.min(MAX_NS));
        let above = |all: (u64, u64), placed: (u64, u64), ends: (u64, u64)| {
            let certain = all.1.saturating_sub(placed.1).saturating_add(ends.1);
            let within = all.0.saturating_sub(placed.0).saturating_add(ends.0);
            (certain, certain.saturating_add(if highest(own) <= limit_ns { 0 } else { within }))
        };
        let (all, placed) = (beside(own), self.placed.beside(own));
        let over = above(all, placed, self.low.beside(own)).0;
        let most = above(all, placed, self.high.beside(own)).1;
        Over { over, uncertain: most.saturating_sub(over) }
    }

    /// The least and the most, in nanoseconds, that all `count` samples may sum up to, of which
    /// `counts` are the buckets.
    pub(in crate::histogram) fn sums(
        &self,
        count: u64,
        counts: &(impl Iterator<Item = (usize, u64)> + Clone),
    ) -> (u128, u128) {
        let sum = |ends, value: fn(usize) -> u64| {
            let sum = |sum: u128, (index, n): (usize, i128)| {
                let n = n.max(0).unsigned_abs();
                sum.saturating_add(n.saturating_mul(value(index).into()))
            };
            self.moved(count, counts.clone(), ends).fold(0, sum)
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
