//! A quantile of a distribution, and its rank.

use super::layout::{self, MAX_NS};

/// A value read from a histogram, with the bucket that bounds it.
///
/// The sample of that rank lies in `lower_ns..=upper_ns`. `value_ns` is the upper end of its
/// bucket, as in every HdrHistogram library, but never above the largest sample; and so is
/// `upper_ns`, unless only the wide buckets of some samples are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantile {
    /// Best estimate of the sample at this rank.
    pub value_ns: u64,
    /// Lower bound of the sample at this rank.
    pub lower_ns: u64,
    /// Upper bound of the sample at this rank.
    pub upper_ns: u64,
}

impl Quantile {
    /// Where a producer's wide buckets leave open in which of ours the sample lies: the least and
    /// the most that it may be.
    #[must_use]
    pub fn within(&self) -> Option<(u64, u64)> {
        let index = |ns: u64| layout::index_of(ns.min(MAX_NS));
        let is_open = index(self.lower_ns) != index(self.upper_ns);
        is_open.then_some((self.lower_ns, self.upper_ns))
    }
}

/// The nearest-rank position of `quantile` among `count` samples: `ceil(quantile * count)`,
/// at least 1.
#[must_use]
pub fn rank(quantile: f64, count: u64) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts stay far below 2^53 and the quantile is clamped to 0..=1"
    )]
    // A product such as 0.07 * 100 comes out one ulp above 7 and must not round up to 8.
    let rank = {
        let exact = quantile.clamp(0.0, 1.0) * count as f64;
        (exact - exact * f64::EPSILON * 2.0).ceil() as u64
    };
    rank.clamp(1, count.max(1))
}
