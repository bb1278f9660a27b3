//! Handles of distributions of values that are no times: sizes, rows, tokens, batches.
//!
//! DESIGN S91.

use plimsoll_schemas::ids::Series;
use plimsoll_schemas::unit::Unit;

use crate::directory::{self, NO_LABELS};
use crate::{process, recording};

/// The values of an operation whose name ends with `:bytes` or `:count`, perhaps with labels. Made
/// once, cheap to copy, used from any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distribution {
    index: u32,
    raw_per_value: u64,
}

impl Distribution {
    /// The distribution of this name, such as `shard_size:bytes` or `batch:count`.
    ///
    /// A name that is not valid or has no such end, or one beyond 1 024 series, folds into
    /// `other:bytes` or `other:count` and counts as [`Stats::folded`](crate::Stats::folded).
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::with_labels(name, NO_LABELS)
    }

    /// A distribution with labels, as [`Operation::with_labels`](crate::Operation::with_labels).
    #[must_use]
    pub fn with_labels<K: AsRef<str>, V: AsRef<str>>(
        name: &str,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let unit = if Unit::of(name) == Unit::Bytes { Unit::Bytes } else { Unit::Count };
        let wanted = directory::series(name, labels).ok();
        let wanted = wanted.filter(|Series { operation, .. }| Unit::of(operation.as_str()) == unit);
        let index = process::state().directory.operation(wanted, unit);
        Self { index, raw_per_value: if unit == Unit::Count { 1_000 } else { 1 } }
    }

    /// Records one value. Above 3.6 TB, or 3.6 billion, it counts as that much, and as
    /// [`Stats::clamped`](crate::Stats::clamped).
    #[inline]
    pub fn record(&self, value: u64) {
        recording::record(self.index, value.saturating_mul(self.raw_per_value));
    }
}
