//! The buckets of the previous point of a cumulative stream, to subtract from the next one.

use super::buckets::BucketCounts;

/// The buckets of a stream's previous point.
#[derive(Debug, Default)]
pub(crate) struct PreviousBuckets {
    layout: u64,
    scale: i32,
    zero: u64,
    offset: i64,
    counts: Vec<u64>,
    /// The sum of its samples.
    pub(crate) sum: Option<f64>,
}

/// Why two points cannot be subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketMismatch {
    Layout,
    /// A bucket holds less than before.
    Decreased,
}

/// New samples, in buckets of the lower resolution of the two points.
#[derive(Debug, Default)]
pub(crate) struct BucketDifference {
    layout: u64,
    scale: i32,
    zero: u64,
    offset: i64,
    counts: Vec<u64>,
}

impl PreviousBuckets {
    /// No samples, in buckets like these.
    pub(crate) fn nothing(like: &BucketCounts<'_>) -> Self {
        let BucketCounts { layout, scale, .. } = *like;
        Self { layout, scale, sum: Some(0.0), ..Self::default() }
    }

    pub(crate) fn replace(&mut self, current: &BucketCounts<'_>, sum: Option<f64>) {
        let BucketCounts { layout, scale, zero, offset, counts } = *current;
        (self.layout, self.scale, self.zero, self.offset) = (layout, scale, zero, offset);
        self.sum = sum;
        self.counts.clear();
        self.counts.reserve_exact(counts.len());
        self.counts.extend_from_slice(counts);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }
}

impl BucketDifference {
    /// Subtracts the previous point from the current one; afterwards this holds the difference.
    pub(crate) fn subtract(
        &mut self,
        current: &BucketCounts<'_>,
        previous: &PreviousBuckets,
    ) -> Result<(), BucketMismatch> {
        if current.layout != previous.layout {
            return Err(BucketMismatch::Layout);
        }
        (self.layout, self.scale) = (current.layout, current.scale.min(previous.scale));
        self.zero = current.zero.checked_sub(previous.zero).ok_or(BucketMismatch::Decreased)?;
        self.widen(current);
        match self.subtract_counts(previous) {
            true => Ok(()),
            false => Err(BucketMismatch::Decreased),
        }
    }

    /// Starts with the current point, at a lower resolution if needed.
    fn widen(&mut self, current: &BucketCounts<'_>) {
        self.counts.clear();
        // A producer halves its resolution when its values spread, also between two points.
        let by = current.scale - self.scale;
        self.offset = current.offset >> by;
        if by == 0 {
            return self.counts.extend_from_slice(current.counts);
        }
        for (index, n) in (current.offset..).zip(current.counts) {
            let at = at(index >> by, self.offset);
            self.counts.resize(self.counts.len().max(at + 1), 0);
            self.counts[at] += n;
        }
    }

    /// Subtracts bucket by bucket; false if a bucket decreased.
    fn subtract_counts(&mut self, previous: &PreviousBuckets) -> bool {
        let by = previous.scale - self.scale;
        let first = previous.offset >> by;
        if previous.counts.is_empty() {
            return true;
        }
        // The lowest bucket of the earlier point is gone, although its samples are still counted.
        if first < self.offset {
            return false;
        }
        let counts = self.counts.get_mut(at(first, self.offset)..).unwrap_or_default();
        if by == 0 {
            return previous.counts.len() <= counts.len() && subtracted(counts, &previous.counts);
        }

        (previous.offset..).zip(&previous.counts).all(|(index, n)| {
            counts
                .get_mut(at(index >> by, first))
                .is_some_and(|count| subtracted(std::slice::from_mut(count), &[*n]))
        })
    }

    pub(crate) fn counts(&self) -> BucketCounts<'_> {
        BucketCounts::trimmed(self.layout, self.scale, self.zero, self.offset, &self.counts)
    }
}

fn at(index: i64, first: i64) -> usize {
    // Cannot fail: buckets are checked against `first` before they are compared.
    usize::try_from(index - first)
        .expect("the index is not below the first, and at most some thousand above it")
}

/// Subtracts without a branch; false if any count decreased.
fn subtracted(counts: &mut [u64], previous: &[u64]) -> bool {
    counts.iter_mut().zip(previous).fold(true, |holds, (count, previous)| {
        let (rest, is_less) = count.overflowing_sub(*previous);
        *count = rest;
        holds & !is_less
    })
}

#[cfg(test)]
mod tests;
