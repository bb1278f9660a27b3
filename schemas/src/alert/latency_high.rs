//! The event `latency_high`: one evaluation has found a budget exceeded. An alert fires only after
//! several in a row, so this is the earlier word, for those who want to see each overrun.

use serde::{Deserialize, Serialize};

use super::{AlertKey, LatencyEvidence, Scope};
use crate::ids::{MeshName, Operation, RuleName};

/// Said each time that a budget's alert begins anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyHigh {
    /// What this is.
    pub event: EventName,
    /// The mesh it happened in.
    pub mesh: MeshName,
    /// The budget.
    pub budget: RuleName,
    /// Its operation.
    pub operation: Operation,
    /// Whose samples they are.
    pub scope: Scope,
    /// The budget's quantile.
    pub value_seconds: f64,
    /// What it was compared with.
    pub limit_seconds: f64,
    /// Samples in the budget's window.
    pub samples: u64,
    /// When it was found, in seconds since 1970.
    pub at_seconds: f64,
}

/// The event's name, so that no reader takes it for a notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventName {
    /// `latency_high`.
    #[default]
    LatencyHigh,
}

impl LatencyHigh {
    /// What an evaluation found out about a budget.
    #[must_use]
    pub fn new(mesh: MeshName, key: AlertKey, at_seconds: f64, found: &LatencyEvidence) -> Self {
        Self {
            event: EventName::LatencyHigh,
            mesh,
            budget: key.rule,
            operation: key.operation,
            scope: key.scope,
            value_seconds: found.value_seconds,
            limit_seconds: found.limit_seconds,
            samples: found.samples,
            at_seconds,
        }
    }
}
