//! The windows of one operation as a checkpoint holds them: slots packed, whatever they were.
//!
//! A former program kept overlapping rings beside the total. Of its records the total is taken
//! up; the windows begin empty, which no alert takes for an answer.

use std::sync::Arc;

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::{ExactFigures, Histogram, Packed};
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::slot::{Limits, Over, Slot};
use super::tier::Tier;
use super::{SETTLED_FROM, Windows};

/// The windows of one operation.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Stored {
    exact: StoredFigures,
    settled: Packed,
    tiers: Vec<Vec<StoredSlot>>,
    newest: Wall,
    limits: Limits,
    /// All samples, by a former program.
    #[serde(skip_serializing)]
    total: Histogram,
}

/// Count, halves of the sum, smallest, largest.
type StoredFigures = (u64, u64, u64, u64, u64);
/// Number, samples above each limit, samples.
type StoredSlot = (u64, Over, Packed);

impl From<Windows> for Stored {
    #[expect(clippy::cast_possible_truncation, reason = "taking halves is the point")]
    fn from(windows: Windows) -> Self {
        let ExactFigures { count, sum_ns, min_ns, max_ns } = windows.exact;
        let slot = |slot: &Slot| (slot.number, *slot.over(), slot.packed());
        let tiers = windows.tiers.iter().map(|tier| tier.slots().iter().map(slot).collect());
        Self {
            exact: (count, (sum_ns >> 64) as u64, sum_ns as u64, min_ns, max_ns),
            settled: windows.settled.packed(),
            tiers: tiers.collect(),
            newest: windows.newest,
            limits: windows.limits,
            total: Histogram::default(),
        }
    }
}

impl From<Stored> for Windows {
    fn from(stored: Stored) -> Self {
        let (count, high, low, min_ns, max_ns) = stored.exact;
        let sum_ns = (u128::from(high) << 64) | u128::from(low);
        let mut exact = ExactFigures { count, sum_ns, min_ns, max_ns };
        let mut settled = stored.settled;
        if !stored.total.is_empty() {
            exact = stored.total.exact();
            settled = Packed::from(&stored.total);
        }
        let restored = |(number, over, packed)| Slot::restored(number, over, packed);
        let tier = |slots: Vec<StoredSlot>| {
            Arc::new(Tier::restored(slots.into_iter().map(restored).collect()))
        };
        let mut tiers: Vec<Arc<Tier>> = stored.tiers.into_iter().map(tier).collect();
        tiers.resize_with(tiers.len().clamp(SETTLED_FROM, Window::ALL.len()), Arc::default);
        Self {
            exact,
            settled: Slot::restored(0, Over::default(), settled),
            tiers,
            newest: stored.newest,
            limits: stored.limits,
            expired: 0,
        }
    }
}
