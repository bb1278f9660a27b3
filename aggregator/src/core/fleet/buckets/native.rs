//! A distribution as a native histogram of Prometheus: exponential buckets, each this many times as
//! wide as the one before, whose factor a schema names: `2^(2^-schema)`.
//!
//! Each of our own buckets goes as a whole to the exponential one that holds its upper end, so a
//! quantile interpolated from them is off by the schema's factor and the width of one own bucket.
//! The schema is the finest of which at most [`NATIVE_BUCKETS_MAX`] buckets are in use. It follows
//! from the buckets in use alone, and since counts only grow it never becomes finer again: a
//! rising schema would look like a reset to Prometheus.

use std::sync::LazyLock;

use crate::limits::exposition::NATIVE_BUCKETS_MAX;
use plimsoll_schemas::histogram::layout::{self, highest};

/// The finest schema: neighbouring buckets differ by 2.2 %.
const SCHEMA_MAX: i8 = 5;
/// The coarsest; its buckets for 1 us to 1 h number less than [`NATIVE_BUCKETS_MAX`].
const SCHEMA_MIN: i8 = 2;
/// Everything in the first of our own buckets counts as zero: up to 511 ns.
const ZERO_NS: u64 = highest(0);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Native {
    /// How fine the buckets are.
    pub schema: i8,
    pub zero_count: u64,
    /// Buckets in use: (index, samples), ascending. Bucket `i` ends at `2^(i * 2^-schema)` seconds.
    pub buckets: Vec<(i32, u64)>,
}

/// The bucket of [`SCHEMA_MAX`] to which each of our own goes.
static FINEST: LazyLock<Vec<i32>> = LazyLock::new(|| (0..layout::LEN).map(finest).collect());

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "an hour in nanoseconds is far below 2^53, and its logarithm small"
)]
fn finest(index: usize) -> i32 {
    let seconds = highest(index) as f64 / 1e9;
    (seconds.log2() * f64::from(1 << SCHEMA_MAX)).ceil() as i32
}

impl Native {
    /// Converts our own buckets: (index, samples), ascending.
    pub fn of(own: impl Iterator<Item = (usize, u64)>) -> Self {
        let mut native = Self { schema: SCHEMA_MAX, zero_count: 0, buckets: Vec::new() };
        for (index, n) in own {
            if index == 0 {
                native.zero_count = n;
            } else {
                native.add(FINEST[index.min(layout::LEN - 1)], n);
            }
        }
        while native.buckets.len() > NATIVE_BUCKETS_MAX && native.schema > SCHEMA_MIN {
            native.halve();
        }
        native.buckets.shrink_to_fit();
        native
    }

    /// Joins neighbours in pairs.
    fn halve(&mut self) {
        self.schema -= 1;
        let finer = std::mem::take(&mut self.buckets);
        // Bucket i holds what the finer ones 2 i - 1 and 2 i held.
        finer.into_iter().for_each(|(index, n)| self.add((index + 1) >> 1, n));
    }

    /// Adds to the last bucket in use, or to a new one behind it.
    fn add(&mut self, index: i32, n: u64) {
        match self.buckets.last_mut() {
            Some((last, sum)) if *last == index => *sum = sum.saturating_add(n),
            _ => self.buckets.push((index, n)),
        }
    }

    /// Up to where samples count as zero, in seconds.
    #[expect(clippy::cast_precision_loss, reason = "a small constant")]
    pub fn zero_threshold(&self) -> f64 {
        ZERO_NS as f64 / 1e9
    }

    /// Unbroken runs of buckets in use: the gap before each, from bucket 0 on for the first, and
    /// its length.
    pub fn spans(&self) -> impl Iterator<Item = (i32, u64)> {
        let runs = self.buckets.chunk_by(|before, after| before.0 + 1 == after.0);
        let mut next = 0;
        runs.filter_map(move |run| {
            let (first, last) = (run.first()?.0, run.last()?.0);
            let gap = first - std::mem::replace(&mut next, last + 1);
            Some((gap, run.len() as u64))
        })
    }

    /// Counts of the buckets in use, each as the difference to the one before.
    pub fn deltas(&self) -> impl Iterator<Item = i64> {
        let mut before = 0;
        self.buckets.iter().map(move |(_, n)| {
            let n = i64::try_from(*n).unwrap_or(i64::MAX);
            n - std::mem::replace(&mut before, n)
        })
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::histogram::{Histogram, layout::MAX_NS, rank};
    use proptest::prelude::*;

    use super::*;

    fn native(values: &[u64]) -> Native {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value));
        Native::of(histogram.counts().iter())
    }

    /// The quantile as Prometheus finds it: linear within the bucket of that rank.
    fn interpolated(native: &Native, quantile: f64) -> f64 {
        let zero = [(0.0, native.zero_threshold(), native.zero_count)];
        let end = |index: i32| (f64::from(index) / f64::from(1 << native.schema)).exp2();
        let rows = native.buckets.iter().map(|(index, n)| (end(index - 1), end(*index), *n));
        let all: Vec<_> = zero.into_iter().chain(rows).collect();
        let count: u64 = all.iter().map(|(.., n)| n).sum();
        let wanted = quantile * count as f64;
        let mut below = 0.0;
        for (lower, upper, n) in all {
            // A product such as 0.68 * 400 is a rounding error above a whole rank.
            if n > 0 && below + n as f64 >= wanted - 1e-9 {
                return lower + (upper - lower) * (wanted - below) / n as f64;
            }
            below += n as f64;
        }
        f64::NAN
    }

    #[test]
    fn buckets_are_those_that_prometheus_defines() {
        let one = native(&[0, 511, 1_000_000_000, 1_000_400_000, 2_000_000_000]);
        // 2^0 is the upper end of bucket 0; our bucket around one second ends above it.
        assert_eq!((one.schema, one.zero_count), (5, 2));
        assert_eq!(one.buckets, [(1, 2), (33, 1)]);
        assert_eq!(one.spans().collect::<Vec<_>>(), [(1, 1), (31, 1)]);
        assert_eq!(one.deltas().collect::<Vec<_>>(), [2, -1]);
        let joined = native(&[1_000_000_000, 1_030_000_000, 1_060_000_000]);
        assert_eq!(joined.spans().collect::<Vec<_>>(), [(1, 3)]);
        assert_eq!(joined.deltas().collect::<Vec<_>>(), [1, 0, 0]);
    }

    #[test]
    fn the_widest_distribution_fits_into_the_coarsest_schema() {
        let all = Native::of((0..layout::LEN).map(|index| (index, 1)));
        assert_eq!(all.schema, SCHEMA_MIN);
        assert!(all.buckets.len() <= NATIVE_BUCKETS_MAX, "{}", all.buckets.len());
    }

    /// As likely in every doubling from a microsecond on, so that no schema is too coarse for them.
    fn anywhere() -> impl Strategy<Value = u64> {
        (10..41_u32, any::<u64>()).prop_map(|(doubling, noise)| {
            let begin = 1 << doubling;
            begin + noise % begin
        })
    }

    fn latencies() -> impl Strategy<Value = Vec<u64>> {
        let narrow = prop_oneof![0..2_000_u64, 1_000_000..40_000_000_u64, 0..=MAX_NS];
        let narrow = prop::collection::vec(narrow, 1..400);
        prop_oneof![narrow, prop::collection::vec(anywhere(), 1..800)]
    }

    proptest! {
        #[test]
        #[expect(clippy::cast_precision_loss, reason = "an hour in nanoseconds is below 2^53")]
        fn an_interpolated_quantile_is_off_by_the_schemas_factor_and_one_own_bucket(
            mut values in latencies(), permille in 1..=1000_u32,
        ) {
            let native = native(&values);
            values.sort_unstable();
            let quantile = f64::from(permille) / 1000.0;
            let position = rank(quantile, values.len() as u64) - 1;
            let exact = values[usize::try_from(position).unwrap()];
            let width = 512.max(exact / 1000) as f64 / 1e9;
            let factor = (1.0 / f64::from(1 << native.schema)).exp2();
            let (found, exact) = (interpolated(&native, quantile), exact as f64 / 1e9);
            prop_assert!(found <= (exact + width) * factor, "{found} of {exact}");
            prop_assert!(found >= exact / factor - width, "{found} of {exact}");
        }

        #[test]
        fn a_schema_never_rises_while_counts_grow(values in latencies()) {
            let mut before = SCHEMA_MAX;
            let mut all = Histogram::default();
            for some in values.chunks(25) {
                some.iter().for_each(|value| all.record(*value));
                let native = Native::of(all.counts().iter());
                prop_assert!(native.schema <= before && native.buckets.len() <= NATIVE_BUCKETS_MAX);
                let count = native.zero_count + native.buckets.iter().map(|(_, n)| n).sum::<u64>();
                prop_assert_eq!(count, all.count());
                before = native.schema;
            }
        }
    }
}
