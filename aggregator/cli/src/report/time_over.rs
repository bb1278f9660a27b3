//! The time above a limit, summed over samples, from a distribution.
//!
//! DESIGN A86.

use plimsoll_schemas::summary::BucketCount;

/// The formula, for the text of a report.
pub(super) const FORMULA: &str = "Time over budget: the sum of (latency - limit) over all samples \
    above the limit. It is computed from the distribution. A sample of a bucket from a to b \
    contributes between max(0, a - limit) and max(0, b - limit); the middle of both sums is shown, \
    and half of their difference is the bound of its error. A bucket is 0.1 % of its value wide, \
    and at least 512 ns.";

/// A sum of time above a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimeOver {
    /// The middle of what is possible.
    pub(super) seconds: f64,
    /// It is off by at most this.
    pub(super) error_seconds: f64,
}

impl TimeOver {
    /// The sum over samples by bucket, none of which exceeds `max`.
    pub(super) fn of(buckets: &[BucketCount], limit: f64, max: f64) -> Self {
        let (mut least, mut most) = (0.0, 0.0);
        for bucket in buckets {
            let samples = bucket.count as f64;
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

    proptest! {
        #[test]
        fn the_exact_sum_is_within_the_bound(
            values in prop::collection::vec(0_u64..100_000_000, 1..100),
            limit in 0_u64..100_000_000,
        ) {
            let mut samples = Histogram::default();
            values.iter().for_each(|value| samples.record(*value));
            let buckets: Vec<BucketCount> = samples.counts().iter().map(|(index, count)| {
                let end = |ns: u64| ns as f64 / 1e9;
                let (lower, upper) = (layout::lowest(index), layout::highest(index));
                BucketCount { lower: end(lower), upper: end(upper), count }
            }).collect();
            let exact: u64 = values.iter().map(|value| value.saturating_sub(limit)).sum();
            let exact = exact as f64 / 1e9;
            let found = TimeOver::of(&buckets, limit as f64 / 1e9, samples.max_ns() as f64 / 1e9);
            let difference = (found.seconds - exact).abs();
            prop_assert!(difference <= found.error_seconds + 1e-9, "{:?} {}", found, exact);
            let width: u64 = values.iter().map(|value| 512.max(value / 1_000)).sum();
            prop_assert!(found.error_seconds <= 0.5 * width as f64 / 1e9 + 1e-9, "{:?}", found);
        }
    }
}
