//! The answer of `/api/v1/bottlenecks`: where the time of a run or a range goes, and what is too
//! much of it. Times are seconds, those of sums exact to the nanosecond.

use serde::{Deserialize, Serialize};

use super::NodeHistory;
use crate::ids::{NodeName, RuleName};
use crate::labelled;
use crate::rule::BottleneckSeverity;

/// Where the time goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BottlenecksPage {
    /// The mesh.
    pub mesh: String,
    /// The run; absent for a range of the fleet or of a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// False if no sample has the run's label: the samples are the fleet's from its start to its
    /// end then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_label: Option<bool>,
    /// The roll-up; absent for the fleet and for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollup: Option<String>,
    /// The values of the roll-up's labels, in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// The node whose own history was read, and what is missing of it; absent for all else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeHistory>,
    /// Begin of the range, widened to whole slots.
    pub from_seconds: f64,
    /// Its end, widened likewise.
    pub to_seconds: f64,
    /// Length of the slots.
    pub resolution: String,
    /// Since when the history keeps samples.
    pub kept_from_seconds: f64,
    /// The share of the nodes' time that was received; `None` where nothing is known of what was
    /// expected.
    pub completeness: Option<f64>,
    /// The time in which the samples were taken.
    pub wall: WallTime,
    /// Steps with phases, and the operation that was named as a cycle: the longest first.
    pub cycles: Vec<CycleShares>,
    /// Classes of time of all operations, by their share of the time of the nodes.
    pub classes: Vec<ClassShare>,
    /// All operations of jobs, by their share of the time of the nodes. The time of an operation
    /// includes that of others within it, unless they are phases of one step.
    pub operations: Vec<OperationShare>,
    /// Operations and counters beyond those that one page has.
    pub operations_omitted: usize,
    /// What the rules found, the most severe first; then what is within, and what was not measured.
    pub bottlenecks: Vec<BottleneckRow>,
}

/// The time in which samples were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WallTime {
    /// Length of the range up to now, or of the run.
    pub seconds: f64,
    /// The time of all nodes together: of a range what was received of them, of a run its length
    /// times its nodes. `None` for a group, whose nodes are not known.
    pub node_seconds: Option<f64>,
}

/// The shares of the time of one operation that spans a cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CycleShares {
    /// The operation.
    pub operation: String,
    /// Cycles that ended in the range.
    pub count: u64,
    /// Their time.
    pub seconds: f64,
    /// Their mean; `None` if none has ended.
    pub mean: Option<f64>,
    /// p99 of them.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// Classes of time, the largest first.
    pub classes: Vec<ClassShare>,
    /// Phases, the largest first.
    pub phases: Vec<OperationShare>,
    /// Whether the phases take more than the cycles: threads run side by side, or an operation runs
    /// within itself. Their shares add up to more than 1 then.
    pub parallel: bool,
}

/// The share of a class of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ClassShare {
    /// The class; `mixed` for operations of a run or group that had several in the range.
    pub class: String,
    /// Its time.
    pub seconds: f64,
    /// Its share; `None` if the whole is not known, as of cycles that have not ended.
    pub share: Option<f64>,
}

/// The share of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct OperationShare {
    /// The operation.
    pub operation: String,
    /// Its class of time, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Samples.
    pub count: u64,
    /// Their sum.
    pub seconds: f64,
    /// Its share; `None` if the whole is not known. More than 1 if threads run side by side.
    pub share: Option<f64>,
}

labelled! {
    /// What became of a rule.
    #[derive(Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum BottleneckState {
        /// A limit is passed.
        Found = "found",
        /// No limit is passed.
        Within = "within",
        /// There is too little to judge.
        NotMeasured = "not_measured",
    }
}

/// What one rule found of one cycle or node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "Bottleneck"))]
pub struct BottleneckRow {
    /// The rule.
    pub rule: RuleName,
    /// What became of it.
    pub state: BottleneckState,
    /// How severe it is; `None` unless it is found.
    pub severity: Option<BottleneckSeverity>,
    /// The cycle that it is about; `None` for a node, and for the time of all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<String>,
    /// The node that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// What was measured, in the unit of the rule; ratios are 0 to 1.
    pub value: Option<f64>,
    /// The limit that is passed, or else the nearest one.
    pub limit: Option<f64>,
    /// The value in words with what it was measured from, or why it was not measured.
    pub evidence: String,
    /// What the rule is about, in one sentence.
    pub summary: String,
    /// The section of the runbook.
    pub runbook: String,
}
