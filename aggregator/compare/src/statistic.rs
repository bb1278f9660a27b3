//! What is compared of an operation: quantiles, as logarithms, and the share over its limit.

use plimsoll_schemas::histogram::layout::highest;
use plimsoll_schemas::histogram::{Over, Packed};

use crate::blocks::Blocks;
use crate::grid::{Range, Rows, middle, uncertainty};
use crate::resample::{Freedom, Levels, RunBlocks, spread};

/// Quantiles that are compared.
pub(crate) const QUANTILES: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999];
/// Samples that must lie beyond a quantile, or over a limit, before it is judged: with fewer, the
/// spread of resamples is a poor measure of that of runs.
pub(crate) const BEYOND_MIN: f64 = 10.0;

/// The estimates of one side and their deviations in its resamples.
pub(crate) struct Estimates {
    /// One for each quantile and one more with a limit.
    pub(crate) values: Vec<Estimate>,
    pub(crate) freedom: Freedom,
    pub(crate) samples: u64,
}

pub(crate) struct Estimate {
    /// The logarithm of a quantile in nanoseconds, or a share.
    pub(crate) value: f64,
    /// By how much buckets leave it open, to either side.
    pub(crate) uncertainty: f64,
    /// What each resample has more; corrected for the number and length of blocks, and of runs.
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
    levels: Levels,
}

impl Counted {
    /// Of the blocks of each run of a side.
    pub(crate) fn of(runs: &[Blocks], range: Range, limit_ns: Option<u64>) -> Self {
        let parts: Vec<&Packed> = runs.iter().flat_map(|run| &run.parts).collect();
        let over = |limit_ns| parts.iter().map(|part| part.over(limit_ns)).collect();
        let blocks = |run: &Blocks| RunBlocks { blocks: run.parts.len(), seen: run.seen };
        Self {
            over: limit_ns.map(over),
            samples: parts.iter().map(|part| part.exact().count as f64).collect(),
            max_ns: parts.iter().map(|part| part.exact().max_ns).max().unwrap_or_default(),
            levels: Levels::of(runs.iter().map(blocks)),
            rows: Rows::of(&parts, range),
        }
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.rows.fingerprint()
    }

    /// Estimates, and their deviations in resamples drawn from `seed`.
    pub(crate) fn estimates(&self, seed: u64) -> Estimates {
        let samples: f64 = self.samples.iter().sum();
        let mut values = self.plain(samples);
        let plain: Vec<f64> = values.iter().map(|estimate| estimate.value).collect();
        let weighted = |weights: &[f64]| Some(self.weighted(weights).collect());

        let deviations = self.levels.deviations(seed, &plain, weighted).unwrap_or_default();
        for (estimate, deviations) in values.iter_mut().zip(deviations) {
            (estimate.spread, estimate.deviations) = (spread(&deviations), deviations);
        }

        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a sum of counts"
        )]
        Estimates { values, freedom: self.levels.freedom(), samples: samples as u64 }
    }

    /// Estimates of all blocks, without deviations.
    fn plain(&self, samples: f64) -> Vec<Estimate> {
        let estimate = |value, uncertainty, beyond, shown_ns| {
            let deviations = Vec::new();
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
