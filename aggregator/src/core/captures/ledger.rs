//! What became of captures: each that was ordered has exactly one outcome, or runs.

use std::collections::BTreeMap;

use plimsoll_schemas::summary::ProfileState;

/// How a capture ended, and why, in one word; empty if a profile is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaptureEnd {
    pub outcome: ProfileState,
    pub reason: &'static str,
}

/// Ordered equals the sum of all ends and those that run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureLedger {
    pub ordered: u64,
    pub ended: BTreeMap<CaptureEnd, u64>,
}

impl CaptureEnd {
    pub const fn failed(reason: &'static str) -> Self {
        Self { outcome: ProfileState::Failed, reason }
    }
}

impl CaptureLedger {
    pub(super) fn count(&mut self, end: CaptureEnd) {
        *self.ended.entry(end).or_default() += 1;
    }

    /// Captures without an end.
    pub fn running(&self) -> u64 {
        self.ordered - self.ended.values().sum::<u64>()
    }
}
