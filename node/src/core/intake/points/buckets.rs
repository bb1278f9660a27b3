//! The buckets of one point, validated: a point with inconsistent buckets is rejected alone.

use std::hash::{BuildHasher, Hasher};

use crate::limits::POINT_BUCKETS_MAX;
use foldhash::fast::FixedState;
use plimsoll_schemas::histogram::layout::MAX_NS;
use plimsoll_schemas::histogram::{Histogram, ProducerBucket};

use super::edges::{Edge, sum_ns};
use super::known_edges::KnownEdges;
use super::point::{Buckets, Latencies};
use crate::core::intake::reject::Reject;

/// Valid scales, as in OpenTelemetry.
const SCALES: std::ops::RangeInclusive<i32> = -10..=20;

/// Samples in the buckets of their producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketCounts<'a> {
    /// A hash of what must be equal to subtract one from the other: unit and bounds, or unit and
    /// zero threshold.
    pub(super) layout: u64,
    /// Doublings of the resolution; zero for explicit bounds.
    pub(super) scale: i32,
    /// Samples in the zero bucket.
    pub(super) zero: u64,
    /// The number of the first bucket.
    pub(super) offset: i64,
    /// Samples in each; the first and the last are not empty.
    pub(super) counts: &'a [u64],
}

impl<'a> BucketCounts<'a> {
    /// Validates the buckets of a point.
    ///
    /// # Errors
    /// When bounds are invalid, counts do not add up, or there are samples below zero.
    pub(super) fn validated(latencies: &Latencies<'a>) -> Result<Self, Reject> {
        if [latencies.sum, latencies.min].into_iter().flatten().any(|least| least < 0.0) {
            return Err(Reject::Negative);
        }
        match latencies.buckets {
            Buckets::Explicit { bounds, counts } => Self::explicit(latencies, bounds, counts),
            Buckets::Exponential { negative: 1.., .. } => Err(Reject::Negative),
            Buckets::Exponential { scale, zero, zero_threshold, offset, positive, .. } => {
                let is_zero = zero_threshold.is_finite() && zero_threshold >= 0.0;
                if !SCALES.contains(&scale) || !is_zero || positive.len() > POINT_BUCKETS_MAX {
                    return Err(Reject::Bounds);
                }
                check_sum(latencies.count, zero, positive)?;
                let layout = layout(latencies, 1, &[zero_threshold]);
                Ok(Self::trimmed(layout, scale, zero, offset.into(), positive))
            }
        }
    }

    fn explicit(
        latencies: &Latencies<'a>,
        bounds: &[f64],
        counts: &'a [u64],
    ) -> Result<Self, Reject> {
        let ascends = bounds.windows(2).all(|pair| pair[0] < pair[1]);
        let is_finite = bounds.iter().all(|bound| bound.is_finite());
        if !ascends || !is_finite || bounds.len() >= POINT_BUCKETS_MAX {
            return Err(Reject::Bounds);
        }

        // Without buckets, samples may have any value.
        if bounds.is_empty() && counts.is_empty() {
            return Ok(Self::trimmed(layout(latencies, 0, bounds), 0, latencies.count, 0, &[]));
        }

        if counts.len() != bounds.len() + 1 {
            return Err(Reject::Counts);
        }
        check_sum(latencies.count, 0, counts)?;
        if bounds.iter().zip(counts).any(|(bound, n)| *bound < 0.0 && *n > 0) {
            return Err(Reject::Negative);
        }
        Ok(Self::trimmed(layout(latencies, 2, bounds), 0, 0, 0, counts))
    }

    /// Buckets of which the first has number `offset`, without empty ones at the ends.
    pub(super) fn trimmed(
        layout: u64,
        scale: i32,
        zero: u64,
        offset: i64,
        counts: &'a [u64],
    ) -> Self {
        let first = counts.iter().position(|n| *n > 0).unwrap_or(counts.len());
        let end = counts.iter().rposition(|n| *n > 0).map_or(first, |last| last + 1);
        #[expect(clippy::cast_possible_wrap, reason = "at most POINT_BUCKETS_MAX")]
        let offset = offset + first as i64;
        Self { layout, scale, zero, offset, counts: &counts[first..end] }
    }

    pub(super) fn samples(&self) -> u64 {
        self.counts.iter().fold(self.zero, |sum, n| sum.saturating_add(*n))
    }

    /// Records these samples in `histogram`, with the bounds, minimum and maximum of `latencies`
    /// and the sum of the argument. Returns how many are above one hour.
    pub(super) fn fill(
        &self,
        latencies: &Latencies<'_>,
        sum: Option<f64>,
        known: &mut KnownEdges,
        histogram: &mut Histogram,
    ) -> u64 {
        let (ends, len) = (SampleRange::of(latencies), self.counts.len());
        let edges = known.of(&latencies.buckets, latencies.unit, self.scale, self.offset, len);
        let zero = (Edge::FIRST, zero_edge(latencies), self.zero);
        let positive = edges.windows(2).zip(self.counts).map(|(edge, n)| (edge[0], edge[1], *n));
        let used = [zero].into_iter().chain(positive).filter(|(_, _, n)| *n > 0);

        let rows = used.map(|(lower, upper, samples)| {
            let (over_ns, upto_ns) = ends.narrowed(lower, upper);
            ProducerBucket { over_ns, upto_ns, samples }
        });

        let sum = sum.filter(|sum| sum.is_finite()).map(|sum| sum_ns(sum, latencies.unit));
        // What all samples together are above the lower ends of their buckets.
        let least = |sum: u128, row: ProducerBucket| {
            sum.saturating_add(u128::from(row.over_ns) * u128::from(row.samples))
        };

        let above = sum.and_then(|sum| sum.checked_sub(rows.clone().fold(0, least)));
        let above_ns = above.map(|above| u64::try_from(above).unwrap_or(u64::MAX));

        histogram.record_all_within(rows.clone().flat_map(|row| parts(row, above_ns)), len + 1);
        if let Some(sum) = sum {
            histogram.state_sum(sum);
        }
        rows.filter(|row| row.over_ns >= MAX_NS).map(|row| row.samples).sum()
    }
}

/// A bucket; one without an end in parts that have ends. The sum bounds its samples: the i-th
/// largest of them has i that are as large, so it is at most an i-th of `above_ns` over the lower
/// end.
fn parts(bucket: ProducerBucket, above_ns: Option<u64>) -> impl Iterator<Item = ProducerBucket> {
    let above_ns = above_ns.filter(|_| bucket.upto_ns >= MAX_NS);
    let mut larger = 0;

    std::iter::from_fn(move || {
        let left = bucket.samples.checked_sub(larger).filter(|left| *left > 0)?;

        let Some(above_ns) = above_ns else {
            larger = bucket.samples;
            return Some(bucket);
        };

        // One, two, four and so on: as many parts as the number of samples has digits.
        let samples = left.min(larger + 1);
        let end_ns = bucket.over_ns.saturating_add((above_ns / (larger + 1)).max(1));
        larger += samples;
        Some(ProducerBucket { upto_ns: bucket.upto_ns.min(end_ns), samples, ..bucket })
    })
}

/// The range of all samples. That of a cumulative point holds for earlier samples too, and so for
/// the new ones.
struct SampleRange {
    over_ns: u64,
    upto_ns: u64,
}

impl SampleRange {
    fn of(latencies: &Latencies<'_>) -> Self {
        let edge = |value: Option<f64>| {
            value.filter(|value| value.is_finite()).map(|value| Edge::of(value, latencies.unit))
        };
        // The minimum is itself a sample, so the exclusive lower end is below it.
        let least = edge(latencies.min).map_or(0, |edge| match edge.over_ns == edge.upto_ns {
            true => edge.over_ns.saturating_sub(1),
            false => edge.over_ns,
        });
        Self { over_ns: least, upto_ns: edge(latencies.max).map_or(u64::MAX, |edge| edge.upto_ns) }
    }

    /// The range of a bucket, narrowed unless it would be empty.
    fn narrowed(&self, lower: Edge, upper: Edge) -> (u64, u64) {
        let over_ns = lower.over_ns.max(self.over_ns);
        let upto_ns = upper.upto_ns.min(self.upto_ns);
        match over_ns < upto_ns {
            true => (over_ns, upto_ns),
            false => (lower.over_ns, upper.upto_ns),
        }
    }
}

/// The upper end of the zero bucket, or of all samples without buckets.
fn zero_edge(latencies: &Latencies<'_>) -> Edge {
    match latencies.buckets {
        Buckets::Explicit { .. } => Edge::LAST,
        Buckets::Exponential { zero_threshold, .. } => Edge::of(zero_threshold, latencies.unit),
    }
}

fn layout(latencies: &Latencies<'_>, kind: u8, bounds: &[f64]) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    hasher.write_u8(kind);
    hasher.write_usize(latencies.unit.decimals());
    bounds.iter().for_each(|bound| hasher.write_u64(bound.to_bits()));
    hasher.finish()
}

fn check_sum(count: u64, zero: u64, counts: &[u64]) -> Result<(), Reject> {
    let sum = counts.iter().try_fold(zero, |sum, n| sum.checked_add(*n));
    if sum == Some(count) { Ok(()) } else { Err(Reject::Counts) }
}
