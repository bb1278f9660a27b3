//! What is added to the store at once: samples by pool and slot of the finest tier, and what each
//! tier makes of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::coverage::Coverage;
use super::resolution::Resolution;
use crate::core::fleet::Pool;
use crate::core::ingest::Position;

/// Which batch a store holds last. An attempt that failed may have been written or not: the next
/// one has the same generation and replaces it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BatchId {
    /// Batches before it that are stored, and this one.
    pub generation: u64,
    /// Attempts to store this generation before it.
    pub attempt: u32,
}

/// Samples and coverage by slot of the finest tier.
#[derive(Clone, Debug, Default)]
pub struct SlotSamples {
    /// By pool, then by number of the slot.
    pub pools: BTreeMap<Pool, BTreeMap<u64, Histogram>>,
    /// By number of the slot.
    pub coverage: BTreeMap<u64, Coverage>,
}

/// What a query adds to what the store holds after a batch.
#[derive(Clone, Debug, Default)]
pub struct Unstored {
    /// The samples of the pool, by slot of the finest tier.
    pub samples: SlotSamples,
}

/// What a checkpoint adds to the history.
#[derive(Clone, Debug, Default)]
pub struct HistoryBatch {
    pub id: BatchId,
    /// When it was taken.
    pub at: Wall,
    /// How far each lane had been read: everything up to there is in it or in one before.
    pub positions: BTreeMap<Lane, Position>,
    pub samples: SlotSamples,
}

impl SlotSamples {
    /// Adds what another one holds.
    pub fn add(&mut self, other: Self) {
        for (pool, slots) in other.pools {
            let ours = self.pools.entry(pool).or_default();
            for (number, samples) in slots {
                match ours.entry(number) {
                    Entry::Vacant(slot) => drop(slot.insert(samples)),
                    Entry::Occupied(slot) => slot.into_mut().merge(&samples),
                }
            }
        }
        for (number, coverage) in other.coverage {
            self.coverage.entry(number).or_default().add(coverage);
        }
    }

    /// Slots of all pools.
    pub fn slots(&self) -> usize {
        self.pools.values().map(BTreeMap::len).sum()
    }

    /// True when it adds nothing.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.coverage.is_empty()
    }
}

/// Slots of the finest tier by the slots of another one.
pub fn by_slot<V>(slots: &BTreeMap<u64, V>, resolution: Resolution) -> BTreeMap<u64, Vec<&V>> {
    let mut grouped: BTreeMap<u64, Vec<&V>> = BTreeMap::new();
    for (number, value) in slots {
        let at = Resolution::TenSeconds.begin(*number);
        grouped.entry(resolution.number(at)).or_default().push(value);
    }
    grouped
}
