//! What became of captures: each that was ordered has exactly one outcome, or runs.

use std::collections::BTreeMap;

use plimsoll_schemas::labelled;
use plimsoll_schemas::summary::ProfileState;

labelled! {
    /// How a capture ended.
    pub enum CaptureOutcome {
        /// The profile is stored, whole.
        Kept = "kept",
        /// A profile of a part of the time is stored.
        Torn = "torn",
        /// There is no profile.
        Failed = "failed",
        /// The node refused.
        Refused = "refused",
        /// The node received the order too late.
        Expired = "expired",
    }
}

/// How a capture ended, and why, in one word; empty if a profile is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaptureEnd {
    pub outcome: CaptureOutcome,
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
        Self { outcome: CaptureOutcome::Failed, reason }
    }
}

impl CaptureOutcome {
    pub const fn state(self) -> ProfileState {
        match self {
            Self::Kept => ProfileState::Kept,
            Self::Torn => ProfileState::Torn,
            Self::Failed => ProfileState::Failed,
            Self::Refused => ProfileState::Refused,
            Self::Expired => ProfileState::Expired,
        }
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
