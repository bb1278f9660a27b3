//! The page about stragglers: active alerts, and how far each cohort can be judged.

use serde::{Deserialize, Serialize};

use crate::alert::{DataStatus, StragglerEvidence};
use crate::ids::{Labels, NodeName, Operation, RuleName};

/// `/api/v1/blame`: which peers are slow, and why none is named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BlamePage {
    /// Names of the rules about stragglers in force.
    pub rules: Vec<RuleName>,
    /// Alerts that fire, in order of rule, node and operation.
    pub alerts: Vec<StragglerRow>,
    /// Every cohort whose steps have been seen within ten minutes.
    pub cohorts: Vec<CohortRow>,
    /// What was not judged since the start.
    pub refused: Vec<RefusedRow>,
}

/// An alert about a straggler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StragglerRow {
    /// The rule.
    pub rule: RuleName,
    /// The node of the slow peer.
    pub node: NodeName,
    /// The operation that spans a step.
    pub operation: Operation,
    /// Whether there is enough to judge it now.
    pub data: DataStatus,
    /// The evidence in one sentence.
    pub sentence: String,
    /// The evidence; that of the last notification while the peer is not named now.
    pub evidence: StragglerEvidence,
}

/// Peers that do the same work, as they were last judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CohortRow {
    /// The rule that judges them.
    pub rule: RuleName,
    /// The operation that spans a step.
    pub operation: Operation,
    /// The labels that all of them share.
    pub cohort: Labels,
    /// The label whose values are the peers.
    pub by: String,
    /// Whether one of them can be named.
    pub state: CohortState,
    /// Peers that report.
    pub peers: u64,
    /// Those with fewer than half of the median peer's steps.
    pub abstained: u64,
    /// Peers that are named.
    pub named: u64,
}

/// Whether a peer of a cohort can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CohortState {
    /// How much steps vary is not known yet.
    Learning,
    /// One can be named.
    Judged,
    /// Of fewer than three peers none is the slow one.
    TooFewPeers,
    /// Two nodes report one peer at once, so several jobs are mixed.
    SharedPeers,
}

/// What was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RefusedRow {
    /// The rule.
    pub rule: RuleName,
    /// `unlabelled`, `full`, `shared_peer`, `late` or `ahead`; or `evicted`, of cohorts that have
    /// made room.
    pub reason: String,
    /// Samples that name no peer; of other reasons peers' reports of one message.
    pub reports: u64,
}
