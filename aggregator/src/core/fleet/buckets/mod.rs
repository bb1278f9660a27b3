//! Samples of all time counted by bucket, as Prometheus takes them: classic buckets with fixed
//! ends, and the exponential ones of a native histogram.

mod native;

use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::histogram::layout;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::unit::Unit;

pub use native::Native;

use crate::core::fleet::window::Merged;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const SECOND: u64 = 1_000 * MS;

/// Upper ends of classic buckets, of bytes from 100 kB to 10 GB; the limits of an operation's
/// budgets come in between.
const LADDER_NS: [u64; 16] = [
    100 * US,
    250 * US,
    500 * US,
    MS,
    2_500 * US,
    5 * MS,
    10 * MS,
    25 * MS,
    50 * MS,
    100 * MS,
    250 * MS,
    500 * MS,
    SECOND,
    2_500 * MS,
    5 * SECOND,
    10 * SECOND,
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    pub count: u64,
    pub sum_ns: u128,
    /// Upper ends as whole numbers of the unit and how many samples are not above them, ascending,
    /// without the last one, which holds all; empty where classic buckets are not wanted.
    pub classic: Vec<(u64, u64)>,
    /// Of times in nanoseconds alone.
    pub native: Option<Native>,
}

impl Buckets {
    /// Counts the samples below each of `ends`, ascending, and in exponential buckets if `native`.
    pub fn of(samples: &Merged, ends: &[u64], native: bool, unit: Unit) -> Self {
        let native = native && unit == Unit::Nanoseconds;
        let exact = samples.exact();
        let mut own = samples.buckets().peekable();
        let mut below = 0_u64;

        let classic = ends.iter().map(|end| {
            // A bucket of ours that the end lies in counts as below it, as it does for budgets.
            let last = layout::index_of((*end).min(layout::MAX_NS));
            while let Some((_, n)) = own.next_if(|(index, _)| *index <= last) {
                below = below.saturating_add(n);
            }
            (*end, below)
        });

        Self {
            count: exact.count,
            sum_ns: exact.sum_ns,
            classic: classic.collect(),
            native: native.then(|| Native::of(samples.buckets())),
        }
    }
}

/// The ends of an operation's classic buckets: a fixed ladder, and what its budgets allow, so that
/// the share of samples over a limit can be asked for.
pub fn ends(operation: &Operation, budgets: &[Budget]) -> Vec<u64> {
    let judged = budgets.iter().filter(|budget| budget.operation == *operation);
    let ladder = LADDER_NS.map(|end| match Unit::of(operation.as_str()) {
        Unit::Nanoseconds | Unit::Bytes => end,
        // From 1 ns to 100 us, and from 1 to 100 000.
        Unit::Picoseconds | Unit::Count => end / 100,
    });
    let mut ends: Vec<u64> = judged.map(|budget| budget.limit_ns).chain(ladder).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::histogram::Histogram;

    use super::*;

    #[test]
    fn classic_buckets_count_what_is_not_above_their_ends() {
        let mut samples = Histogram::default();
        [0, 99 * US, 18 * MS, 19 * MS, 60 * SECOND].into_iter().for_each(|ns| samples.record(ns));
        let budgets = plimsoll_schemas::rule::file::effective(&[]).unwrap();
        let ends = ends(&Operation::new("epoch_hook").unwrap(), &budgets);
        assert!(ends.is_sorted() && ends.contains(&(18 * MS)) && ends.len() == LADDER_NS.len() + 1);
        let buckets = Buckets::of(&Merged::from(&samples), &ends, false, Unit::Nanoseconds);
        let at = |end| buckets.classic.iter().find(|(at, _)| *at == end).unwrap().1;
        assert_eq!([100 * US, 10 * MS, 18 * MS, 25 * MS, 10 * SECOND].map(at), [2, 2, 3, 4, 4]);
        assert_eq!((buckets.count, buckets.native), (5, None));
    }
}
