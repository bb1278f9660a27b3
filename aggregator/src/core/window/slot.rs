//! Samples that are kept together: those of one slot, or all that have settled. Packed while
//! little is merged into them, opened into a row of counts while much is. Knows no time.

use std::sync::Arc;

use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::histogram::{ExactFigures, Histogram, Packed, layout};
use plimsoll_schemas::limits::aggregator::{LIMITS_SUMMED_MAX, PACKED_MERGES_MAX};
use serde::{Deserialize, Serialize};

use super::merged::Merged;

/// Samples above each of an operation's [`Limits`].
pub(super) type Over = [u64; LIMITS_SUMMED_MAX];

/// The limits of one operation's budgets: how many samples lie above them is summed as samples
/// come, so that a verdict needs no buckets. What finds no place here is counted when asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits([u64; LIMITS_SUMMED_MAX]);

/// Nothing lies above it.
const UNUSED: u64 = u64::MAX;

impl Default for Limits {
    fn default() -> Self {
        Self([UNUSED; LIMITS_SUMMED_MAX])
    }
}

impl Limits {
    /// The different limits of budgets, which should be those of one operation.
    #[must_use]
    pub fn of<'a>(budgets: impl IntoIterator<Item = &'a Budget>) -> Self {
        let mut limits = Self::default();
        for budget in budgets {
            let known = limits.place(budget.limit_ns).is_some();
            let free = limits.0.iter_mut().find(|limit| **limit == UNUSED);
            if let (false, Some(free)) = (known, free) {
                *free = budget.limit_ns;
            }
        }
        limits
    }

    /// Where samples above a limit are summed.
    pub(super) fn place(&self, limit_ns: u64) -> Option<usize> {
        self.0.iter().position(|limit| *limit == limit_ns)
    }
}

/// Samples that arrive, with what is summed of them.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    samples: &'a Packed,
    over: Over,
}

impl<'a> Batch<'a> {
    /// Samples of an operation whose budgets have these limits.
    #[must_use]
    pub fn new(samples: &'a Packed, limits: &Limits) -> Self {
        Self { samples, over: limits.0.map(|limit| samples.over(limit).over) }
    }

    /// The same samples where other limits count.
    #[must_use]
    pub fn under(&self, limits: &Limits) -> Self {
        Self::new(self.samples, limits)
    }

    /// What is known exactly of them.
    #[must_use]
    pub fn exact(&self) -> ExactFigures {
        self.samples.exact()
    }
}

/// The samples of one slot, or of many that are no longer told apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    /// Time divided by the slot's length.
    pub(super) number: u64,
    over: Over,
    samples: Samples,
    /// Merged into it since it was packed; past [`PACKED_MERGES_MAX`] it is open.
    merges: u8,
}

#[derive(Clone, Debug)]
enum Samples {
    Packed(Packed),
    /// Shared with whoever looks at it; copied when it changes meanwhile.
    Open(Arc<Histogram>),
}

impl Default for Samples {
    fn default() -> Self {
        Self::Packed(Packed::default())
    }
}

impl Slot {
    pub(super) fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    pub(super) fn restored(number: u64, over: Over, packed: Packed) -> Self {
        Self { number, over, samples: Samples::Packed(packed), merges: 0 }
    }

    /// Adds samples.
    pub(super) fn add(&mut self, batch: &Batch<'_>) {
        self.add_over(&batch.over);
        match &mut self.samples {
            Samples::Packed(packed) if packed.is_empty() => *packed = batch.samples.clone(),
            Samples::Packed(packed) if self.merges < PACKED_MERGES_MAX => {
                packed.merge(batch.samples);
                self.merges += 1;
            }
            Samples::Packed(_) => {
                let mut histogram = Histogram::default();
                self.merge_into(&mut histogram);
                histogram.merge_packed(batch.samples);
                self.samples = Samples::Open(Arc::new(histogram));
            }
            Samples::Open(histogram) => Arc::make_mut(histogram).merge_packed(batch.samples),
        }
    }

    /// Adds the samples of a slot whose time lies within its own.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.add(&Batch { samples: &other.packed(), over: other.over });
    }

    /// The samples of several slots as one.
    pub(super) fn united(number: u64, slots: &[Self]) -> Self {
        let mut united = Self::new(number);
        slots.iter().for_each(|slot| united.add_over(&slot.over));
        let parts: Vec<Packed> = slots.iter().map(Self::packed).collect();
        united.samples = Samples::Packed(Packed::united(&parts));
        united
    }

    fn add_over(&mut self, over: &Over) {
        for (ours, theirs) in self.over.iter_mut().zip(over) {
            *ours = ours.saturating_add(*theirs);
        }
    }

    /// Little will be merged into it from now on.
    pub(super) fn pack(&mut self) {
        self.merges = 0;
        if let Samples::Open(histogram) = &self.samples {
            self.samples = Samples::Packed(Packed::from(&**histogram));
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.samples, Samples::Open(_))
    }

    pub(super) fn packed(&self) -> Packed {
        match &self.samples {
            Samples::Packed(packed) => packed.clone(),
            Samples::Open(histogram) => Packed::from(&**histogram),
        }
    }

    pub(super) fn exact(&self) -> ExactFigures {
        match &self.samples {
            Samples::Packed(packed) => packed.exact(),
            Samples::Open(histogram) => histogram.exact(),
        }
    }

    pub(super) fn merge_into(&self, histogram: &mut Histogram) {
        match &self.samples {
            Samples::Packed(packed) => histogram.merge_packed(packed),
            Samples::Open(samples) => histogram.merge(samples),
        }
    }

    pub(super) fn add_to(&self, merged: &mut Merged) {
        match &self.samples {
            Samples::Packed(packed) => merged.add_packed(packed),
            Samples::Open(samples) => merged.add_histogram(samples),
        }
    }

    pub(super) fn over(&self) -> &Over {
        &self.over
    }

    /// Samples above any limit, counted from the buckets.
    pub(super) fn count_over(&self, limit_ns: u64) -> u64 {
        match &self.samples {
            Samples::Packed(packed) => packed.over(limit_ns).over,
            Samples::Open(histogram) => {
                let last_within = layout::index_of(limit_ns.min(layout::MAX_NS));
                let over = histogram.counts().iter().rev().take_while(|(i, _)| *i > last_within);
                over.fold(0, |sum, (_, n)| sum.saturating_add(n))
            }
        }
    }

    /// Sums anew what lies above limits that are others now.
    pub(super) fn reckon(&mut self, limits: &Limits) {
        self.over = limits.0.map(|limit| self.count_over(limit));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match &self.samples {
            Samples::Packed(packed) => packed.heap_bytes(),
            Samples::Open(histogram) => histogram.counts().heap_bytes(),
        }
    }
}
