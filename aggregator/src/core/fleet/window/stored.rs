//! The windows of one operation as a checkpoint holds them: slots packed, whatever they were.

use std::sync::Arc;

use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::carried::Carried;
use super::dispersion::Dispersion;
use super::recent::RecentCounts;
use super::slot::Slot;
use super::tally::{Limits, Since, Tally};
use super::tier::Tier;

/// The windows of one operation.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) exact: StoredFigures,
    pub(super) settled: Packed,
    pub(super) tiers: Vec<Vec<StoredSlot>>,
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

/// One tier by itself.
#[derive(Serialize, Deserialize)]
pub struct StoredTier(pub(super) Vec<StoredSlot>);

pub(super) fn stored(tier: &Tier) -> Vec<StoredSlot> {
    tier.slots().iter().map(|slot| (slot.number, slot.tally().clone(), slot.packed())).collect()
}

pub(super) fn restored(slots: Vec<StoredSlot>) -> Arc<Tier> {
    let restored = |(number, tally, packed)| Slot::restored(number, tally, packed);
    Arc::new(Tier::restored(slots.into_iter().map(restored).collect()))
}
