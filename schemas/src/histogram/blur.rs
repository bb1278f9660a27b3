//! What is not known of where samples lie: a producer's wide bucket says how many there are in it
//! and no more. Such samples are counted at a few places inside; beside that stands in which
//! bucket each would be if it were as small, and if it were as large, as its producer allows.
//!
//! The r-th smallest of all samples lies between the r-th smallest of the one and of the other,
//! and no closer bound is right: all samples may be at their least, or all at their most. Says
//! nothing of samples that came one by one, and costs nothing where there are no others.

use std::cmp::Ordering;

use super::{Over, layout};

/// At most so many places for the samples of one producer's bucket.
const PLACES_MAX: u64 = 16;
/// Buckets for each place at least: 3 to 6 % of a value above 1 ms.
const PLACE_BUCKETS: u64 = 64;

/// Samples that lie somewhere between two ends, beside the counts that they are part of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Blur {
    /// Where they are counted.
    placed: Row,
    /// Where the least that each may be would be counted.
    low: Row,
    /// Where the most that each may be would be counted.
    high: Row,
}

/// Samples in few buckets, in ascending order: (bucket, samples).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row(Vec<(usize, u64)>);

/// Where samples are counted of which each lies within `least_ns..=most_ns`, at most
/// [`PLACES_MAX`]: as many in each part of the buckets between, as (value, samples).
pub(super) fn places(least_ns: u64, most_ns: u64, n: u64) -> impl Iterator<Item = (u64, u64)> {
    let first = layout::index_of(least_ns) as u64;
    let span = layout::index_of(most_ns) as u64 + 1 - first;
    let places = span.div_ceil(PLACE_BUCKETS).min(PLACES_MAX).min(n);
    let upto = move |place: u64| u128::from(n) * u128::from(place) / u128::from(places);
    (0..places).map(move |place| {
        #[expect(clippy::cast_possible_truncation, reason = "a bucket between those of two values")]
        let index = (first + span * (2 * place + 1) / (2 * places)) as usize;
        #[expect(clippy::cast_possible_truncation, reason = "a part of the samples")]
        let share = (upto(place + 1) - upto(place)) as u64;
        let middle = layout::lowest(index).midpoint(layout::highest(index));
        (middle.clamp(least_ns, most_ns), share)
    })
}

impl Blur {
    /// Says of samples that are counted at a value that each lies within `least_ns..=most_ns`.
    pub(super) fn add(&mut self, value_ns: u64, least_ns: u64, most_ns: u64, n: u64) {
        self.placed.add(layout::index_of(value_ns), n);
        self.low.add(layout::index_of(least_ns), n);
        self.high.add(layout::index_of(most_ns), n);
    }

    /// Adds what is said of other samples.
    pub(super) fn merge(&mut self, other: &Self) {
        self.placed.merge(&other.placed);
        self.low.merge(&other.low);
        self.high.merge(&other.high);
    }

    /// The least and the most, in nanoseconds, that the sample of `rank` (1 = smallest) may be
    /// among all of `counts`.
    pub(super) fn at_rank<I>(&self, counts: impl Fn() -> I, rank: u64) -> Option<(u64, u64)>
    where
        I: Iterator<Item = (usize, u64)>,
    {
        let find = |ends| {
            let reached = |seen: &mut i128, (index, n)| {
                *seen += n;
                Some((index, *seen >= i128::from(rank)))
            };
            let mut row = self.moved(counts(), ends).scan(0, reached);
            row.find_map(|(index, is_reached)| is_reached.then_some(index))
        };
        Some((layout::lowest(find(&self.low)?), highest(find(&self.high)?)))
    }

    /// Samples over a limit as far as buckets tell, of which `beside` gives the samples in one
    /// and in all above it.
    pub(super) fn over(&self, limit_ns: u64, beside: impl Fn(usize) -> (u64, u64)) -> Over {
        let own = layout::index_of(limit_ns.min(layout::MAX_NS));
        let above = |all: (u64, u64), placed: (u64, u64), ends: (u64, u64)| {
            let certain = all.1.saturating_sub(placed.1).saturating_add(ends.1);
            let within = all.0.saturating_sub(placed.0).saturating_add(ends.0);
            (certain, certain.saturating_add(if highest(own) <= limit_ns { 0 } else { within }))
        };
        let (all, placed) = (beside(own), self.placed.beside(own));
        let over = above(all, placed, self.low.beside(own)).0;
        let most = above(all, placed, self.high.beside(own)).1;
        Over { over, unsure: most.saturating_sub(over) }
    }

    /// The least and the most, in nanoseconds, that all samples of `counts` may sum up to.
    pub(super) fn sums<I>(&self, counts: impl Fn() -> I) -> (u128, u128)
    where
        I: Iterator<Item = (usize, u64)>,
    {
        let sum = |ends, value: fn(usize) -> u64| {
            let sum = |sum: u128, (index, n): (usize, i128)| {
                let n = n.max(0).unsigned_abs();
                sum.saturating_add(n.saturating_mul(value(index).into()))
            };
            self.moved(counts(), ends).fold(0, sum)
        };
        (sum(&self.low, layout::lowest), sum(&self.high, highest))
    }

    /// All buckets of `counts`, with the samples that are in them if those spoken of here are at
    /// one of their ends.
    fn moved(
        &self,
        counts: impl Iterator<Item = (usize, u64)>,
        ends: &Row,
    ) -> impl Iterator<Item = (usize, i128)> {
        let mut counts = counts.peekable();
        let (mut placed, mut ends) = (self.placed.iter().peekable(), ends.iter().peekable());
        std::iter::from_fn(move || {
            let next = [counts.peek(), placed.peek(), ends.peek()];
            let index = next.into_iter().flatten().map(|(index, _)| *index).min()?;
            let is_next = |(at, _): &(usize, u64)| *at == index;
            let [all, placed, ends] =
                [counts.next_if(is_next), placed.next_if(is_next), ends.next_if(is_next)]
                    .map(|bucket| bucket.map_or(0, |(_, n)| i128::from(n)));
            Some((index, all - placed + ends))
        })
    }
}

/// The largest value of a bucket that is a sample's.
fn highest(index: usize) -> u64 {
    layout::highest(index).min(layout::MAX_NS)
}

impl Row {
    fn add(&mut self, index: usize, n: u64) {
        match self.0.binary_search_by_key(&index, |(at, _)| *at) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(n),
            Err(at) => self.0.insert(at, (index, n)),
        }
    }

    fn merge(&mut self, other: &Self) {
        let mut merged = Vec::with_capacity(self.0.len().max(other.0.len()));
        let (mut ours, mut theirs) = (self.iter().peekable(), other.iter().peekable());
        while let (Some((one, n)), Some((two, more))) = (ours.peek(), theirs.peek()) {
            merged.push(match one.cmp(two) {
                Ordering::Less => (*one, *n),
                Ordering::Equal => (*one, n.saturating_add(*more)),
                Ordering::Greater => (*two, *more),
            });
            let (is_ours, is_theirs) = (one <= two, two <= one);
            ours.next_if(|_| is_ours);
            theirs.next_if(|_| is_theirs);
        }
        merged.extend(ours);
        merged.extend(theirs);
        self.0 = merged;
    }

    fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied()
    }

    /// Samples in one bucket, and in all above it.
    fn beside(&self, index: usize) -> (u64, u64) {
        let sum = |sum: u64, (_, n): &(usize, u64)| sum.saturating_add(*n);
        let from = self.0.partition_point(|(at, _)| *at < index);
        let above = self.0.partition_point(|(at, _)| *at <= index);
        (self.0[from..above].iter().fold(0, sum), self.0[above..].iter().fold(0, sum))
    }
}

#[cfg(test)]
mod tests;
