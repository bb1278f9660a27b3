//! What is added to the store at once: samples by pool and slot of the finest tier, and what each
//! tier makes of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Wall, nanos};
use serde::{Deserialize, Serialize};

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
    /// The samples of the requested pools, by slot of the finest tier.
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

/// Of one slot or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Lengths of all intervals of nodes that were merged, in nanoseconds.
    pub received_ns: u64,
    /// For how long nodes were present, each node by itself, while an aggregator ran.
    pub expected_ns: u64,
    /// For how long an aggregator ran.
    pub observed_ns: u64,
}

impl Coverage {
    pub fn add(&mut self, other: Self) {
        self.received_ns = self.received_ns.saturating_add(other.received_ns);
        self.expected_ns = self.expected_ns.saturating_add(other.expected_ns);
        self.observed_ns = self.observed_ns.saturating_add(other.observed_ns);
    }

    /// The share of what was expected that was received in so long a stretch, at most 1; `None`
    /// when nothing was expected, or no aggregator ran for more than a tenth of it: what streams
    /// bring of that time later must not pay for what is missing of the rest.
    pub fn ratio(self, length: Duration) -> Option<f64> {
        // Nine tenths, divided on both sides so that nothing overflows.
        let is_observed = self.observed_ns / 9 >= nanos(length) / 10;
        let ratio = self.received_ns as f64 / self.expected_ns as f64;
        (is_observed && self.expected_ns > 0).then_some(ratio.min(1.0))
    }
}

/// So much time of this many nodes, in nanoseconds.
pub(super) fn node_time(span: Duration, nodes: usize) -> u64 {
    nanos(span).saturating_mul(u64::try_from(nodes).unwrap_or(u64::MAX))
}
