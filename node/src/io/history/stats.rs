//! Counts of a history, which the driver's end and the thread share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_schemas::time::Wall;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryStats {
    /// Intervals written since the start.
    pub written: u64,
    pub bytes: u64,
    /// End of the earliest interval.
    pub earliest: Option<Wall>,
    /// Messages that are not kept, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    pub requests: BTreeMap<&'static str, u64>,
}

/// Counts that both ends share; each holds the lock for a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedStats(Arc<Mutex<HistoryStats>>);

impl SharedStats {
    pub(super) fn lock(&self) -> MutexGuard<'_, HistoryStats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn drop_one(&self, reason: &'static str) {
        *self.lock().dropped.entry(reason).or_default() += 1;
    }

    pub(super) fn count_request(&self, outcome: &'static str) {
        *self.lock().requests.entry(outcome).or_default() += 1;
    }
}
