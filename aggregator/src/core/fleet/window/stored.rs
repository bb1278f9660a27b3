//! The windows of one operation as a checkpoint holds them: slots packed, whatever they were.

use std::sync::Arc;

use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::carried::Carried;
use super::dispersion::Dispersion;
use super::recent::RecentCounts;
use super::ring::Ring;
use super::slot::Slot;
use super::tally::{Limits, Since, Tally};

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StoredWindows {
    pub(super) exact: StoredFigures,
    pub(super) settled: Packed,
    /// Stored as `tiers`, as every version has named them.
    #[serde(rename = "tiers")]
    pub(super) rings: Vec<Vec<StoredSlot>>,
    pub(super) newest: Wall,
    /// When samples first arrived; 0 if a former program stored it.
    #[serde(default)]
    pub(super) began: Wall,
    pub(super) limits: Limits,
    pub(super) since: Since,
    pub(super) recent: RecentCounts,
    /// Nothing, if a former program stored it.
    #[serde(default)]
    pub(super) dispersion: Dispersion,
    #[serde(default, skip_serializing_if = "Carried::is_empty")]
    pub(super) carried: Carried,
}

/// Count, halves of the sum, smallest, largest.
pub(super) type StoredFigures = (u64, u64, u64, u64, u64);
/// Number, samples over each limit, samples.
pub(super) type StoredSlot = (u64, Tally, Packed);

#[derive(Serialize, Deserialize)]
pub struct StoredRing(pub(super) Vec<StoredSlot>);

pub(super) fn stored(ring: &Ring) -> Vec<StoredSlot> {
    ring.slots.iter().map(|slot| (slot.number, slot.tally.clone(), slot.packed())).collect()
}

pub(super) fn restored(slots: Vec<StoredSlot>) -> Arc<Ring> {
    let restored = |(number, tally, packed)| Slot::restored(number, tally, packed);
    Arc::new(Ring::restored(slots.into_iter().map(restored).collect()))
}
