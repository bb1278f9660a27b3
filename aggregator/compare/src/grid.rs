//! Blocks as rows of counts over the buckets that either side uses. A weighted sum of rows is a
//! resample; its quantiles are found in two steps, so that a resample does not sum every bucket.

use std::borrow::Borrow;

use plimsoll_schemas::histogram::{Packed, layout, rank};
use plimsoll_schemas::random::mixed;

/// Buckets in one cell of the coarse row.
const CELL: usize = 16;

/// The buckets that both sides' rows cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    first: usize,
    cells: usize,
}

impl Range {
    /// All buckets of these samples; there is at least one.
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = &'a Packed>) -> Self {
        let exact = parts.into_iter().map(Packed::exact).filter(|exact| exact.count > 0);
        let ends = exact.fold((layout::MAX_NS, 0), |(low, high), exact| {
            (exact.min_ns.min(low), exact.max_ns.max(high))
        });
        // Whole cells from the layout's own start, so that a cell
        // of the coarse row is the same buckets in every row.
        let first = layout::index_of(ends.0) / CELL * CELL;
        Self { first, cells: (layout::index_of(ends.1) - first) / CELL + 1 }
    }
}

/// The counts of all blocks of one side.
pub(crate) struct Rows {
    range: Range,
    fine: Vec<f64>,
    coarse: Vec<f64>,
    totals: Vec<f64>,
}

/// Position of a bucket in the layout.
pub(crate) type Bucket = usize;

impl Rows {
    pub(crate) fn of(parts: &[impl Borrow<Packed>], range: Range) -> Self {
        let width = range.cells * CELL;
        let mut fine = vec![0.0; parts.len() * width];
        for (row, part) in fine.chunks_exact_mut(width).zip(parts) {
            let part = part.borrow();
            part.buckets().for_each(|(index, n)| row[index - range.first] = n as f64);
        }
        let coarse: Vec<f64> = fine.chunks_exact(CELL).map(|cell| cell.iter().sum()).collect();
        let totals = coarse.chunks_exact(range.cells).map(|row| row.iter().sum()).collect();
        Self { range, fine, coarse, totals }
    }

    pub(crate) fn len(&self) -> usize {
        self.totals.len()
    }

    /// A number that depends on the counts alone, neither on their order nor on their buckets.
    pub(crate) fn fingerprint(&self) -> u64 {
        let counts = self.fine.iter().filter(|n| **n > 0.0);
        counts.fold(0, |sum: u64, n| sum.wrapping_add(mixed(n.to_bits())))
    }

    /// The bucket of each quantile, which ascend, where each block counts as often as its weight.
    pub(crate) fn quantiles(&self, weights: &[f64], quantiles: &[f64]) -> Vec<Bucket> {
        let sums = self.weighted(&self.coarse, self.range.cells, weights);
        let total: f64 = self.totals.iter().zip(weights).map(|(n, weight)| n * weight).sum();
        let (mut cell, mut below) = (0, 0.0);
        let mut found = Vec::with_capacity(quantiles.len());

        for quantile in quantiles {
            let wanted = rank_of(*quantile, total);
            // Quantiles ascend, so each search goes on where
            // the last one stopped: one pass for all ten.
            while cell + 1 < sums.len() && below + sums[cell] < wanted {
                below += sums[cell];
                cell += 1;
            }
            found.push(self.range.first + cell * CELL + self.within(cell, weights, wanted - below));
        }
        found
    }

    /// Which bucket of a cell has the sample of this rank.
    fn within(&self, cell: usize, weights: &[f64], wanted: f64) -> usize {
        let mut sums = [0.0; CELL];
        // Only the cell with the quantile is summed in full: with 2 000 resamples, the buckets are
        // where the time of a comparison would go.
        let rows = self.fine.chunks_exact(self.range.cells * CELL);
        for (row, weight) in rows.zip(weights).filter(|(_, weight)| **weight > 0.0) {
            let cells = &row[cell * CELL..(cell + 1) * CELL];
            sums.iter_mut().zip(cells).for_each(|(sum, n)| *sum += weight * n);
        }

        let mut below = 0.0;
        let reached = sums.iter().position(|n| {
            below += n;
            below >= wanted
        });
        reached.unwrap_or(CELL - 1)
    }

    fn weighted(&self, rows: &[f64], width: usize, weights: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; width];
        let drawn = rows.chunks_exact(width).zip(weights).filter(|(_, weight)| **weight > 0.0);
        for (row, weight) in drawn {
            sums.iter_mut().zip(row).for_each(|(sum, n)| *sum += weight * n);
        }
        sums
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a sum of counts, below 2^53"
)]
fn rank_of(quantile: f64, total: f64) -> f64 {
    rank(quantile, total as u64) as f64
}

/// The middle of a bucket in nanoseconds: what a resample takes as its value.
pub(crate) fn middle(bucket: Bucket) -> f64 {
    0.5 * (layout::lowest(bucket) as f64 + layout::lowest(bucket + 1) as f64)
}

/// How far a value of this bucket may be from its middle, as a share of that.
pub(crate) fn uncertainty(bucket: Bucket) -> f64 {
    1.0 - layout::lowest(bucket) as f64 / middle(bucket)
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::histogram::Histogram;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_equal_those_of_the_merged_histogram(
            blocks in prop::collection::vec(
                prop::collection::vec(1_u64..5_000_000_000, 1..40), 1..6,
            ),
            weights in prop::collection::vec(0_u32..4, 6),
        ) {
            let mut merged = Histogram::default();
            let parts: Vec<Packed> = blocks.iter().zip(&weights).map(|(block, weight)| {
                let mut part = Histogram::default();
                block.iter().for_each(|value| part.record(*value));
                (0..*weight).for_each(|_| merged.merge(&part));
                Packed::from(&part)
            }).collect();
            prop_assume!(!merged.is_empty());
            let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
            let quantiles = [0.01, 0.1, 0.5, 0.9, 0.99, 0.999];
            let found = Rows::of(&parts, Range::of(&parts)).quantiles(&weights, &quantiles);
            for (quantile, bucket) in quantiles.iter().zip(found) {
                let exact = merged.quantile(*quantile).unwrap().value_ns;
                prop_assert_eq!(bucket, layout::index_of(exact), "{}", quantile);
            }
        }
    }
}
