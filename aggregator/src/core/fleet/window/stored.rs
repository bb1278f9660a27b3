//! The windows of one operation as a checkpoint holds them: slots packed, whatever they were.

use std::sync::Arc;

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::{ExactFigures, Packed};
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::slot::Slot;
use super::tally::{Limits, Since, Tally};
use super::tier::Tier;
use super::{SETTLED_FROM, Windows};

/// The windows of one operation.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Stored {
    exact: StoredFigures,
    settled: Packed,
    tiers: Vec<Vec<StoredSlot>>,
    newest: Wall,
    limits: Limits,
    since: Since,
}

/// Count, halves of the sum, smallest, largest.
type StoredFigures = (u64, u64, u64, u64, u64);
/// Number, samples over each limit, samples.
type StoredSlot = (u64, Tally, Packed);

/// One tier by itself.
#[derive(Serialize, Deserialize)]
pub struct StoredTier(Vec<StoredSlot>);

impl From<Windows> for Stored {
    fn from(windows: Windows) -> Self {
        let tiers = windows.tiers.iter().map(|tier| stored(tier)).collect();
        Self { tiers, ..Self::without_slots(&windows) }
    }
}

fn stored(tier: &Tier) -> Vec<StoredSlot> {
    tier.slots().iter().map(|slot| (slot.number, slot.tally().clone(), slot.packed())).collect()
}

fn restored(slots: Vec<StoredSlot>) -> Arc<Tier> {
    let restored = |(number, tally, packed)| Slot::restored(number, tally, packed);
    Arc::new(Tier::restored(slots.into_iter().map(restored).collect()))
}

impl Stored {
    /// What there is beside slots, and as many tiers as there are.
    #[expect(clippy::cast_possible_truncation, reason = "taking halves is the point")]
    fn without_slots(windows: &Windows) -> Self {
        let ExactFigures { count, sum_ns, min_ns, max_ns } = windows.exact;
        Self {
            exact: (count, (sum_ns >> 64) as u64, sum_ns as u64, min_ns, max_ns),
            settled: windows.settled.packed(),
            tiers: vec![Vec::new(); windows.tiers.len()],
            newest: windows.newest,
            limits: windows.limits,
            since: windows.since.clone(),
        }
    }
}

/// Where tiers are stored each by itself, since few of them change.
impl Windows {
    /// What is stored beside the tiers.
    #[must_use]
    pub fn head(&self) -> impl Serialize + use<> {
        Stored::without_slots(self)
    }

    /// What is stored of one tier.
    #[must_use]
    pub fn tier(&self, number: usize) -> Option<StoredTier> {
        Some(StoredTier(stored(self.tiers.get(number)?)))
    }

    /// Number of tiers.
    #[must_use]
    pub fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// The tiers that have changed since `before`, a copy that is still held: what is shared
    /// with it is what it was.
    #[must_use]
    pub fn tiers_changed_since(&self, before: Option<&Self>) -> Vec<usize> {
        let former = |number| before.and_then(|before| before.tiers.get(number));
        let is_former =
            |number| former(number).is_some_and(|f| Arc::ptr_eq(f, &self.tiers[number]));
        (0..self.tiers.len()).filter(|number| !is_former(*number)).collect()
    }

    /// Whether all that is stored beside the tiers is what it was, where no tier has changed.
    #[must_use]
    pub fn has_head_of(&self, before: &Self) -> bool {
        let head = |of: &Self| (of.exact, of.newest, of.limits);
        head(self) == head(before) && self.since == before.since
    }

    /// Takes one tier as it was stored, if there is such a tier.
    pub fn restore_tier(&mut self, number: usize, StoredTier(slots): StoredTier) {
        if let Some(tier) = self.tiers.get_mut(number) {
            *tier = restored(slots);
        }
    }
}

impl From<Stored> for Windows {
    fn from(stored: Stored) -> Self {
        let (count, high, low, min_ns, max_ns) = stored.exact;
        let sum_ns = (u128::from(high) << 64) | u128::from(low);
        let mut tiers: Vec<Arc<Tier>> = stored.tiers.into_iter().map(restored).collect();
        tiers.resize_with(tiers.len().clamp(SETTLED_FROM, Window::ALL.len()), Arc::default);
        Self {
            exact: ExactFigures { count, sum_ns, min_ns, max_ns },
            settled: Slot::restored(0, Tally::default(), stored.settled),
            tiers,
            newest: stored.newest,
            limits: stored.limits,
            since: stored.since,
            expired: 0,
        }
    }
}
