//! The ledger of orders: each is in exactly one outcome, or active.

use std::collections::BTreeMap;

use plimsoll_schemas::wire::capture::{CaptureRefusal, CaptureState};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureStats {
    pub ordered: u64,
    /// By outcome and reason, as [`CaptureState::labels`] has them.
    pub outcomes: BTreeMap<(&'static str, &'static str), u64>,
    /// Orders that wait or run: one at most.
    pub active: u64,
    /// Payloads that were no request.
    pub undecodable: u64,
}

impl CaptureStats {
    pub(super) fn end(&mut self, state: CaptureState) {
        *self.outcomes.entry(state.labels()).or_default() += 1;
    }

    /// An order of which nothing is kept.
    pub(super) fn refuse(&mut self, refusal: CaptureRefusal) {
        self.ordered += 1;
        self.end(CaptureState::Refused(refusal));
    }
}
