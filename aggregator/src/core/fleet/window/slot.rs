//! Samples that are held together: those of one slot, or all that have settled. Packed while little
//! is merged into them, opened into a row of counts while much is. A slot has no clock.
//!
//! DESIGN A18.

use std::sync::Arc;

use plimsoll_schemas::histogram::{Distribution, ExactFigures, Histogram, Over, Packed};
use plimsoll_schemas::time::Wall;

use super::merged::Merged;
use super::tally::{LimitPlace, Limits, Overs, Tally};
use crate::limits::PACKED_MERGES_MAX;

/// Samples that arrive, with what is summed of them.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Without the message's own counts over limits: `overs` holds those that are needed.
    samples: Packed,
    pub(super) limits: Limits,
    /// How many lie over each limit.
    pub(super) overs: Overs,
}

impl Batch {
    /// Samples of an operation whose budgets have these limits.
    pub fn new(samples: &Packed, limits: &Limits) -> Self {
        Self { samples: samples.without_overs(), limits: *limits, overs: limits.over(samples) }
    }

    /// The same samples where other limits count.
    pub fn under(&self, limits: &Limits) -> Self {
        Self::new(&self.samples, limits)
    }

    /// What is known exactly of them.
    pub fn exact(&self) -> ExactFigures {
        self.samples.exact()
    }
}

/// The samples of one slot, or of many that are no longer distinguished.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    /// Time divided by the slot's length.
    pub(super) number: u64,
    pub(super) tally: Tally,
    samples: Samples,
    /// Merged into it since it was packed; past [`PACKED_MERGES_MAX`] it is open.
    merges: u8,
}

#[derive(Clone, Debug)]
enum Samples {
    Packed(Packed),
    /// Shared with read views and checkpoints; copied when it changes meanwhile.
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

    pub(super) fn restored(number: u64, tally: Tally, packed: Packed) -> Self {
        Self { number, tally, samples: Samples::Packed(packed), merges: 0 }
    }

    pub(super) fn add(&mut self, batch: &Batch) {
        self.tally.add(&batch.overs);
        self.merge(&batch.samples);
    }

    fn merge(&mut self, samples: &Packed) {
        match &mut self.samples {
            // The message's own bytes, checked when it was
            // decoded and shared with all who read them.
            Samples::Packed(packed) if packed.is_empty() => *packed = samples.clone(),
            Samples::Packed(packed) if self.merges < PACKED_MERGES_MAX => {
                packed.merge(samples);
                self.merges += 1;
            }
            // To merge packed samples is a pass over all their buckets. With more merges a row of
            // counts is cheaper, and takes more memory (A18).
            Samples::Packed(_) => {
                let mut histogram = Histogram::default();
                self.merge_into(&mut histogram);
                histogram.merge_packed(samples);
                self.samples = Samples::Open(Arc::new(histogram));
            }
            Samples::Open(histogram) => Arc::make_mut(histogram).merge_packed(samples),
        }
    }

    /// Adds the samples of a slot whose time lies within its own.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.tally.add(&other.tally.overs());
        self.merge(&other.packed());
    }

    pub(super) fn united(number: u64, slots: &[Self]) -> Self {
        let mut united = Self::new(number);
        slots.iter().for_each(|slot| united.tally.add(&slot.tally.overs()));
        let parts: Vec<Packed> = slots.iter().map(Self::packed).collect();
        united.samples = Samples::Packed(Packed::united(&parts));
        united
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

    pub(super) fn count(&self) -> u64 {
        match &self.samples {
            Samples::Packed(packed) => packed.count(),
            Samples::Open(histogram) => histogram.count(),
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

    /// Samples over a limit: as they were summed, else counted from the buckets.
    #[inline]
    pub(super) fn over(&self, limit: LimitPlace) -> Over {
        limit.place.map_or_else(|| self.count_over(limit.ns), |place| self.tally.at(place))
    }

    fn count_over(&self, limit_ns: u64) -> Over {
        self.packed().over(limit_ns)
    }

    /// Sums anew what lies over limits that were not known before.
    pub(super) fn reckon(&mut self, before: &Limits, limits: &Limits) {
        self.tally = self.tally.under(before, limits, |limit| self.count_over(limit));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let samples = match &self.samples {
            Samples::Packed(packed) => packed.heap_bytes(),
            Samples::Open(histogram) => histogram.heap_bytes(),
        };
        samples + self.tally.heap_bytes()
    }
}

/// When samples were taken, and as of when they are added.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Windows that end before this are never shown again; the present, or, while catching up,
    /// what has been judged of the past.
    pub shown: Wall,
    /// When the samples arrived.
    pub now: Wall,
    /// When they were taken, no later than `now`.
    pub taken: Wall,
}
