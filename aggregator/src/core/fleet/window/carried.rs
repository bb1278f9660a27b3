//! Counts of samples that an error budget's record kept, where the samples themselves could not be
//! read: they count in their place, up to when the record was taken.
//!
//! DESIGN A166.

use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::tally::Limits;

/// Counts of one slot for one limit; stored as a list of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(Wall, u64, u64)", into = "(Wall, u64, u64)")]
pub struct CarriedSlot {
    pub begin: Wall,
    pub samples: u64,
    pub over: u64,
}

impl From<(Wall, u64, u64)> for CarriedSlot {
    fn from((begin, samples, over): (Wall, u64, u64)) -> Self {
        Self { begin, samples, over }
    }
}

impl From<CarriedSlot> for (Wall, u64, u64) {
    fn from(CarriedSlot { begin, samples, over }: CarriedSlot) -> Self {
        (begin, samples, over)
    }
}

/// Counts by limit, in nanoseconds; almost always none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Carried {
    /// When the record was taken.
    until: Wall,
    limits: Vec<(u64, Vec<CarriedSlot>)>,
}

impl Carried {
    pub(super) fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// Takes the counts for one limit, in place of those it has.
    pub(super) fn take(&mut self, until: Wall, limit_ns: u64, slots: Vec<CarriedSlot>) {
        self.until = until;
        self.limits.retain(|(limit, _)| *limit != limit_ns);
        self.limits.push((limit_ns, slots));
    }

    /// The slots for one limit, and up to when they count.
    pub(super) fn of(&self, limit_ns: u64) -> Option<(Wall, &[CarriedSlot])> {
        let of = self.limits.iter().find(|(limit, _)| *limit == limit_ns)?;
        Some((self.until, &of.1))
    }

    pub(super) fn oldest(&self) -> Option<Wall> {
        let slots = self.limits.iter().flat_map(|(_, slots)| slots);
        slots.map(|slot| slot.begin).min()
    }

    /// Drops slots that begin before `from`.
    pub(super) fn expire(&mut self, from: Wall) {
        self.limits.iter_mut().for_each(|(_, slots)| slots.retain(|slot| slot.begin >= from));
        self.limits.retain(|(_, slots)| !slots.is_empty());
    }

    /// Drops what counts for other limits.
    pub(super) fn keep(&mut self, limits: &Limits) {
        self.limits.retain(|(limit, _)| limits.place(*limit).is_some());
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let slots: usize = self.limits.iter().map(|(_, slots)| slots.capacity()).sum();
        slots * size_of::<CarriedSlot>()
    }
}
