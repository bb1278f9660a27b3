//! The time above a limit that a budget forbids, summed over samples, from a distribution.
//!
//! DESIGN A86.

use plimsoll_schemas::histogram::rank;
use plimsoll_schemas::summary::BucketCount;

/// The formula, for the text of a report.
pub(super) const FORMULA: &str = "Time over budget: the sum of (latency - limit) over the samples \
    above the limit that the budget forbids. A budget of p99 allows the slowest 1 % of all samples \
    to be above it, one of p50 the slower half, so these do not count. It is computed from the \
    distribution. A sample of a bucket from a to b \
    contributes between max(0, a - limit) and max(0, b - limit); the middle of both sums is shown, \
    and half of their difference is the bound of its error. A bucket is 0.1 % of its value wide, \
    and at least 512 ns, of operations below a microsecond (:ps) 0.512 ns.";

/// A quantile of an operation that a budget limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LimitedQuantile {
    pub(super) quantile: f64,
    pub(super) seconds: f64,
}

/// A sum of time above a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimeOver {
    /// The middle of what is possible.
    pub(super) seconds: f64,
    /// It is off by at most this.
    pub(super) error_seconds: f64,
}

impl TimeOver {
    /// The sum over samples by bucket, ascending, none of which exceeds `max`; without the slowest,
    /// as many as the budget allows above its limit.
    pub(super) fn of(buckets: &[BucketCount], budget: LimitedQuantile, max: f64) -> Self {
        let LimitedQuantile { quantile, seconds: limit } = budget;
        let (mut least, mut most) = (0.0, 0.0);
        let mut left = rank(quantile, buckets.iter().map(|bucket| bucket.count).sum());
        for bucket in buckets {
            let limited = bucket.count.min(left);
            left -= limited;
            let samples = limited as f64;
            least += samples * (bucket.lower - limit).max(0.0);
            most += samples * (bucket.upper.min(max) - limit).max(0.0);
        }
        Self { seconds: 0.5 * (least + most), error_seconds: 0.5 * (most - least) }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::histogram::{Histogram, layout};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_budget_allows_is_not_over_it() {
        let bucket = |ms: f64, count| BucketCount { lower: ms / 1e3, upper: ms / 1e3, count };
        let buckets = [bucket(5.0, 60), bucket(20.0, 30), bucket(110.0, 10)];
        for (quantile, wanted) in [(0.5, 0.0), (0.8, 0.2), (0.99, 1.2), (1.0, 1.3)] {
            let budget = LimitedQuantile { quantile, seconds: 0.01 };
            let found = TimeOver::of(&buckets, budget, 1.0).seconds;
            assert!((found - wanted).abs() < 1e-9, "{quantile}: {found}");
        }
    }

    proptest! {
        #[test]
        fn the_exact_sum_is_within_the_bound(
            values in prop::collection::vec(0_u64..100_000_000, 1..100),
            limit in 0_u64..100_000_000,
            quantile in prop::sample::select(vec![0.5, 0.9, 0.99, 1.0]),
        ) {
            let mut samples = Histogram::default();
            values.iter().for_each(|value| samples.record(*value));
            let buckets: Vec<BucketCount> = samples.counts().iter().map(|(index, count)| {
                let end = |ns: u64| ns as f64 / 1e9;
                let (lower, upper) = (layout::lowest(index), layout::highest(index));
                BucketCount { lower: end(lower), upper: end(upper), count }
            }).collect();
            let mut sorted = values.clone();
            sorted.sort_unstable();
            sorted.truncate(usize::try_from(rank(quantile, values.len() as u64)).unwrap());
            let exact: u64 = sorted.iter().map(|value| value.saturating_sub(limit)).sum();
            let exact = exact as f64 / 1e9;
            let budget = LimitedQuantile { quantile, seconds: limit as f64 / 1e9 };
            let found = TimeOver::of(&buckets, budget, samples.max_ns() as f64 / 1e9);
            let difference = (found.seconds - exact).abs();
            prop_assert!(difference <= found.error_seconds + 1e-9, "{:?} {}", found, exact);
            let width: u64 = values.iter().map(|value| 512.max(value / 1_000)).sum();
            prop_assert!(found.error_seconds <= 0.5 * width as f64 / 1e9 + 1e-9, "{:?}", found);
        }
    }
}
