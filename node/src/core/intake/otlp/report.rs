//! Collects what one request is answered, what the operator is warned of, and the statistics.

use std::collections::BTreeSet;

use super::request::Outcome;
use super::stats::OtlpStats;
use crate::core::intake::reject::Reject;

/// The report on all requests so far.
#[derive(Default)]
pub(super) struct OtlpReport {
    pub(super) stats: OtlpStats,
    /// The outcome of the current request.
    outcome: Outcome,
    /// Reasons that the operator was warned of.
    warned: BTreeSet<Reject>,
    warnings: Vec<String>,
}

impl OtlpReport {
    /// A point or a span was rejected: the producer gets the text of the first rejection, the
    /// operator a warning once for each reason.
    pub(super) fn on_rejected(&mut self, reason: Reject, text: impl Fn(Reject) -> String) {
        self.outcome.refused += 1;
        self.outcome.message.get_or_insert_with(|| text(reason));
        if self.warned.insert(reason) {
            self.warnings.push(text(reason));
        }
    }

    /// Ends the current request.
    pub(super) fn take_outcome(&mut self) -> Outcome {
        std::mem::take(&mut self.outcome)
    }

    /// New warnings for the operator.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}
