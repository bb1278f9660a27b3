//! What is compared of an operation: quantiles, as logarithms, and the share over its limit.

use plimsoll_schemas::histogram::layout::highest;
use plimsoll_schemas::histogram::{Over, Packed};
use plimsoll_schemas::random::SplitMix64;

use crate::blocks::Blocks;
use crate::grid::{Range, Rows, middle, uncertainty};

/// Quantiles that are compared.
pub(crate) const QUANTILES: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999];
/// Resamples of a side. The 99th percentile of 2 000 has a standard error of 0.2 percentage points.
pub(crate) const RESAMPLES: usize = 2_000;
/// Samples that must lie beyond a quantile, or over a limit, before it is judged: with fewer, the
/// spread of resamples is a poor measure of that of runs.
pub(crate) const BEYOND_MIN: f64 = 10.0;

/// The estimates of one side and their deviations in its resamples.
pub(crate) struct Estimates {
    /// One for each quantile and one more with a limit.
    pub(crate) values: Vec<Estimate>,
    pub(crate) blocks: usize,
    pub(crate) samples: u64,
}

pub(crate) struct Estimate {
    /// The logarithm of a quantile in nanoseconds, or a share.
    pub(crate) value: f64,
    /// By how much buckets leave it open, to either side.
    pub(crate) uncertainty: f64,
    /// What each resample has more; corrected for the number and length of blocks.
    pub(crate) deviations: Vec<f64>,
    /// The standard deviation of these.
    pub(crate) spread: f64,
    /// Samples beyond the quantile or over the limit.
    pub(crate) beyond: f64,
    /// The upper end of the quantile's bucket, as all of the mesh shows it; 0 for a share.
    pub(crate) shown_ns: u64,
}

/// The rows of one side, and its samples over the limit.
pub(crate) struct Counted {
    rows: Rows,
    over: Option<Vec<Over>>,
    samples: Vec<f64>,
    max_ns: u64,
    /// What corrects deviations for blocks that are few and end somewhere.
    scale: f64,
}

impl Counted {
    pub(crate) fn of(blocks: &Blocks, range: Range, limit_ns: Option<u64>) -> Self {
        let parts = &blocks.parts;
        let over = |limit_ns| parts.iter().map(|part: &Packed| part.over(limit_ns)).collect();
        let len = parts.len() as f64;
        Self {
            rows: Rows::of(parts, range),
            over: limit_ns.map(over),
            samples: parts.iter().map(|part| part.exact().count as f64).collect(),
            max_ns: parts.iter().map(|part| part.exact().max_ns).max().unwrap_or_default(),
            // Resamples of n blocks vary by (n - 1) / n of what the blocks vary by, and blocks by
            // what they show of the variance over long times.
            scale: (len / (len - 1.0) / blocks.seen).sqrt(),
        }
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.rows.fingerprint()
    }

    /// Estimates, and their deviations in resamples drawn from `seed`.
    pub(crate) fn estimates(&self, seed: u64) -> Estimates {
        let blocks = self.rows.len();
        let samples: f64 = self.samples.iter().sum();
        let mut values = self.plain(samples);
        let mut rng = SplitMix64(seed);
        let mut weights = vec![0.0; blocks];

        for _ in 0..RESAMPLES {
            weights.fill(0.0);
            (0..blocks).for_each(|_| weights[drawn(blocks, rng.bits())] += 1.0);
            for (estimate, value) in values.iter_mut().zip(self.weighted(&weights)) {
                estimate.deviations.push((value - estimate.value) * self.scale);
            }
        }

        values.iter_mut().for_each(|estimate| estimate.spread = spread(&estimate.deviations));

        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a sum of counts"
        )]
        Estimates { values, blocks, samples: samples as u64 }
    }

    /// Estimates of all blocks, without deviations.
    fn plain(&self, samples: f64) -> Vec<Estimate> {
        let estimate = |value, uncertainty, beyond, shown_ns| {
            let deviations = Vec::with_capacity(RESAMPLES);
            Estimate { value, uncertainty, deviations, spread: 0.0, beyond, shown_ns }
        };

        let buckets = self.rows.quantiles(&vec![1.0; self.rows.len()], &QUANTILES);
        let quantiles = QUANTILES.iter().zip(buckets).map(|(quantile, bucket)| {
            let beyond = quantile.min(1.0 - quantile) * samples;
            // As everywhere in the mesh, a quantile is at most the exact maximum.
            let shown_ns = highest(bucket).min(self.max_ns);
            estimate(middle(bucket).ln(), uncertainty(bucket), beyond, shown_ns)
        });

        let share = self.over.as_ref().map(|over| {
            let sum = |of: fn(&Over) -> u64| over.iter().map(|over| of(over) as f64).sum::<f64>();
            let (over, uncertain) = (sum(|over| over.over), sum(|over| over.uncertain));
            // Samples in the bucket that the limit divides: half of them
            // count, and the other half is what the share may be off by.
            let half = 0.5 * uncertain;
            estimate((over + half) / samples, half / samples, over + half, 0)
        });

        quantiles.chain(share).collect()
    }

    /// The estimates of a resample.
    fn weighted(&self, weights: &[f64]) -> impl Iterator<Item = f64> {
        let buckets = self.rows.quantiles(weights, &QUANTILES);
        let share = self.over.as_ref().map(|over| {
            let of = |over: &Over| over.over as f64 + 0.5 * over.uncertain as f64;
            let over: f64 = over.iter().zip(weights).map(|(over, weight)| of(over) * weight).sum();
            over / self.samples.iter().zip(weights).map(|(n, weight)| n * weight).sum::<f64>()
        });
        buckets.into_iter().map(|bucket| middle(bucket).ln()).chain(share)
    }
}

/// A number below `len`, at most 2^32, from the upper half of random bits.
pub(crate) fn drawn(len: usize, bits: u64) -> usize {
    usize::try_from(((bits >> 32) * len as u64) >> 32).unwrap_or_default()
}

/// Around the estimate, not around the mean of resamples: their bias counts too.
pub(crate) fn spread(deviations: &[f64]) -> f64 {
    let squares: f64 = deviations.iter().map(|deviation| deviation * deviation).sum();
    (squares / deviations.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_drawn_evenly() {
        let (mut rng, mut times) = (SplitMix64(0), [0_u32; 7]);
        (0..7_000).for_each(|_| times[drawn(7, rng.bits())] += 1);
        assert!(times.iter().all(|n| (850..1_150).contains(n)), "{times:?}");
    }
}
