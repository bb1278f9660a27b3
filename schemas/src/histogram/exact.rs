//! The exact figures of a distribution: count, sum, smallest and largest sample.

use super::layout::{self, MAX_NS};

/// The first and the last bucket with samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketSpan {
    pub(super) first: usize,
    pub(super) last: usize,
}

/// Figures of a distribution that are exact, whatever its buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExactFigures {
    /// Number of samples.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u128,
    /// The smallest, in nanoseconds.
    pub min_ns: u64,
    /// The largest, in nanoseconds.
    pub max_ns: u64,
}

impl ExactFigures {
    /// Adds the figures of other samples.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// The figures with a sum that agrees with the buckets, for a reader that does not support
    /// uncertainty and assumes every sample in the bucket that counts it.
    pub(super) fn as_counted(self) -> Self {
        let least = u128::from(self.min_ns) * u128::from(self.count);
        let most = u128::from(self.max_ns) * u128::from(self.count);
        Self { sum_ns: self.sum_ns.clamp(least, most), ..self }
    }

    /// Checks the figures against buckets that hold `total` samples in the span `edges`.
    ///
    /// # Errors
    /// Names the figure that the buckets contradict.
    pub(super) fn check(&self, total: u64, edges: Option<BucketSpan>) -> Result<(), &'static str> {
        let Self { count, sum_ns, min_ns, max_ns } = *self;
        let Some(BucketSpan { first, last }) = edges else {
            return if *self == Self::default() { Ok(()) } else { Err("count") };
        };
        let n = u128::from(count);

        let agrees = [
            ("count", count == total),
            ("min", min_ns <= MAX_NS && layout::index_of(min_ns) == first),
            ("max", max_ns <= MAX_NS && layout::index_of(max_ns) == last),
            ("min", min_ns <= max_ns),
            ("sum", sum_ns >= u128::from(min_ns) * n && sum_ns <= u128::from(max_ns) * n),
        ];

        match agrees.into_iter().find(|(_, right)| !right) {
            Some((figure, _)) => Err(figure),
            None => Ok(()),
        }
    }
}
