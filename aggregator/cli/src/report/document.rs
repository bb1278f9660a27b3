//! The report as data, which is its JSON. Latencies and times are in seconds, times since 1970.
//!
//! `version` changes when a field changes its meaning or goes; new fields do not change it.
//!
//! DESIGN A85.

use std::collections::BTreeMap;

use plimsoll_compare::Comparison;
use plimsoll_schemas::alert::{AlertState, DataStatus, Evidence, Scope};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::summary::{
    Band, BottlenecksPage, BucketCount, EventRow, Freshness, Ledger, MachineDescription,
    MetricKind, MetricPoint, OverLimit, QuantileValue, Verdict,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The name of the format, which is in each file.
pub(super) const FORMAT: &str = "plimsoll-report";
/// The version that is written and read.
pub(super) const VERSION: u32 = 1;

#[derive(Serialize)]
pub(super) struct Document {
    pub(super) format: &'static str,
    pub(super) version: u32,
    pub(super) mesh: String,
    /// What it is of.
    pub(super) subject: Subject,
    /// The time zone of the texts; fields named `_seconds` need none.
    pub(super) time_zone: String,
    /// When the aggregator was asked.
    pub(super) asked_at_seconds: f64,
    /// Version of the command.
    pub(super) plimsoll_version: &'static str,
    pub(super) range: Range,
    /// One sentence: what is over its budget, where and since when, or that all is within.
    pub(super) summary: String,
    /// What a reader must know before reading on, such as what is missing.
    pub(super) notes: Vec<String>,
    /// The comparison with another run, which is A.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) beside: Option<Beside>,
    pub(super) budgets: Vec<BudgetResult>,
    /// Jobs' operations first.
    pub(super) operations: Vec<OperationResult>,
    /// Shares of the time, and what is too much of it; absent from an aggregator without the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bottlenecks: Option<BottlenecksPage>,
    /// Why they are absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bottlenecks_left_out: Option<String>,
    /// Counters and gauges of jobs over the range.
    pub(super) metrics: Vec<MetricResult>,
    pub(super) where_the_time_goes: TimeRanking,
    pub(super) hardware: Machines,
    pub(super) alerts: Vec<AlertResult>,
    pub(super) alert_changes: Vec<ChangeResult>,
    pub(super) events: Vec<EventRow>,
    pub(super) ledger: LedgerResult,
    pub(super) drills: Vec<DrillResult>,
    /// The operation that the two following keys are about: one named like an epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) epoch_operation: Option<String>,
    /// How each time is known, and in what order they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) epoch_source: Option<String>,
    /// Each epoch's time in milliseconds, as recorded or as far as slots have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) epoch_time_ms: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) epoch_time_ms_avg: Option<f64>,
    /// The most resident memory of one process of the run, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peak_resident_bytes: Option<f64>,
    /// The samples of each slot, as a baseline of `plimsoll compare` has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) samples: Option<Box<RawValue>>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) samples_left_out: Option<String>,
}

/// The report beside another run.
#[derive(Clone, Serialize)]
pub(super) struct Beside {
    /// What the report is compared with.
    pub(super) a: String,
    /// What it is of.
    pub(super) b: String,
    #[serde(flatten)]
    pub(super) comparison: Comparison,
}

/// A counter or gauge over the range.
#[derive(Serialize)]
pub(super) struct MetricResult {
    pub(super) metric: String,
    pub(super) kind: MetricKind,
    /// The operation by whose time `per_operation_second` divides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) operation: Option<String>,
    #[serde(flatten)]
    pub(super) point: MetricPoint,
}

/// What a report is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Subject {
    /// A run, by its name.
    Run(String),
    /// All samples of the fleet in a range.
    Fleet,
}

/// The range, and how well it is known.
#[derive(Serialize)]
pub(super) struct Range {
    pub(super) requested_from_seconds: f64,
    pub(super) requested_to_seconds: f64,
    /// Widened to whole slots.
    pub(super) from_seconds: f64,
    pub(super) to_seconds: f64,
    /// Length of the slots; absent if the history has no operation.
    pub(super) resolution: Option<String>,
    /// The share of the nodes' time that was received; absent where it is unknown.
    pub(super) completeness: Option<f64>,
    pub(super) kept_from_seconds: Option<f64>,
    /// By how much a quantile may be off: the share of its value, and no less than these seconds.
    pub(super) quantile_error_ratio: f64,
    pub(super) quantile_error_min_seconds: f64,
}

/// A budget of the fleet, judged over the range and as the aggregator last judged it.
#[derive(Serialize)]
pub(super) struct BudgetResult {
    pub(super) budget: String,
    pub(super) operation: String,
    /// What values are where they are no seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<&'static str>,
    pub(super) quantile: f64,
    pub(super) limit_seconds: f64,
    pub(super) count: u64,
    /// The quantile over the range.
    pub(super) value: Option<QuantileValue>,
    pub(super) over: u64,
    pub(super) uncertain: u64,
    /// The share of samples that may be over the limit.
    pub(super) allowed_ratio: f64,
    /// Compares the shares; chance is not considered.
    pub(super) verdict: Verdict,
    pub(super) latest: LatestVerdict,
}

/// What the aggregator found last, which considers chance.
#[derive(Serialize)]
pub(super) struct LatestVerdict {
    pub(super) verdict: Verdict,
    pub(super) window: Window,
    pub(super) alert: AlertState,
    /// Up to when it is known.
    #[serde(flatten)]
    pub(super) freshness: Freshness,
}

/// One operation over the range.
#[derive(Serialize)]
pub(super) struct OperationResult {
    pub(super) operation: String,
    /// What values are where they are no seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<&'static str>,
    /// True for what the system measures of itself.
    pub(super) own: bool,
    pub(super) count: u64,
    pub(super) mean: Option<f64>,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    /// True if only producers' wide buckets are known of some samples.
    pub(super) approximate: bool,
    pub(super) quantiles: Vec<QuantileValue>,
    pub(super) completeness: Option<f64>,
    /// Of the budget that is named like the operation, or the first one of it.
    pub(super) limit_seconds: Option<f64>,
    pub(super) over: Vec<OverLimit>,
    pub(super) distribution: Vec<BucketCount>,
    pub(super) over_time: OverTime,
}

/// One operation by column of time.
#[derive(Serialize)]
pub(super) struct OverTime {
    pub(super) step_seconds: f64,
    pub(super) columns: Vec<Column>,
    pub(super) bands: Vec<Band>,
    /// Samples by column, then by band.
    pub(super) counts: Vec<Vec<u64>>,
}

/// One column of time.
#[derive(Serialize)]
pub(super) struct Column {
    pub(super) from_seconds: f64,
    pub(super) to_seconds: f64,
    pub(super) count: u64,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) max: Option<f64>,
    /// Samples over the operation's limit.
    pub(super) over: Option<OverLimit>,
    pub(super) completeness: Option<f64>,
}

/// Operations and nodes by their share of the time over budget.
#[derive(Serialize)]
pub(super) struct TimeRanking {
    /// How the time is summed, and how far it may be off.
    pub(super) formula: String,
    pub(super) operations: Vec<RankedOperation>,
    /// What the nodes are ranked by.
    pub(super) nodes_by: String,
    pub(super) nodes: Vec<RankedNode>,
}

/// The time of one operation above its limit, as far as its budget forbids it.
#[derive(Serialize)]
pub(super) struct RankedOperation {
    pub(super) operation: String,
    pub(super) limit_seconds: f64,
    /// The quantile that the budget limits: samples beyond it may be above the limit.
    pub(super) limit_quantile: f64,
    pub(super) over_seconds: f64,
    /// It is off by at most this.
    pub(super) over_error_seconds: f64,
    /// Its share of all operations' time over budget.
    pub(super) share: f64,
    /// Its share of the operation's own time.
    pub(super) share_of_own_time: f64,
    pub(super) advice: String,
}

/// The part of one node in the samples over limits.
#[derive(Default, Serialize)]
pub(super) struct RankedNode {
    pub(super) node: String,
    /// Whether an alert about one of the operations fires for it.
    pub(super) firing: bool,
    pub(super) samples: u64,
    pub(super) over: u64,
    /// Of these, samples in the windows of budgets that the budgets forbid.
    #[serde(skip)]
    pub(super) forbidden: f64,
    /// Time over budget in the range, if the node keeps its own past.
    pub(super) over_seconds: Option<f64>,
    /// It is off by at most this.
    pub(super) over_error_seconds: Option<f64>,
    /// Its share of the listed nodes' time over budget, or else of their samples over limits.
    pub(super) share: f64,
    pub(super) machine: BTreeMap<String, Value>,
    pub(super) advice: String,
}

/// The latest known state of machines.
#[derive(Default, Serialize)]
pub(super) struct Machines {
    /// Where the readings are from, or why there are none.
    pub(super) source: String,
    pub(super) nodes: BTreeMap<String, BTreeMap<String, Value>>,
    /// What each of these machines is, as far as its node states it.
    pub(super) described: BTreeMap<String, NodeMachine>,
}

/// What machine a node runs on, and its own version.
#[derive(Clone, Default, Serialize)]
pub(super) struct NodeMachine {
    #[serde(flatten)]
    pub(super) machine: MachineDescription,
    pub(super) plimsoll_version: String,
}

/// An alert that was active in the range.
#[derive(Serialize)]
pub(super) struct AlertResult {
    pub(super) rule: String,
    pub(super) scope: Scope,
    pub(super) operation: String,
    pub(super) state: AlertState,
    pub(super) severity: Severity,
    pub(super) since_seconds: f64,
    pub(super) firing_since_seconds: Option<f64>,
    pub(super) summary: String,
    /// Whether there was enough data at the last evaluation.
    pub(super) data: DataStatus,
    pub(super) evidence: Option<Evidence>,
}

/// A change of an alert within the range.
#[derive(Serialize)]
pub(super) struct ChangeResult {
    pub(super) at_seconds: f64,
    pub(super) rule: String,
    pub(super) scope: Scope,
    pub(super) operation: String,
    pub(super) from: AlertState,
    pub(super) to: AlertState,
    pub(super) summary: String,
    pub(super) evidence: Evidence,
}

/// The ledger, which is of all time and not of the range.
#[derive(Serialize)]
pub(super) struct LedgerResult {
    pub(super) at_seconds: f64,
    /// True while a stream holds messages that were not read yet.
    pub(super) behind: bool,
    /// The sum of all nodes and of those that are no longer listed.
    pub(super) fleet: Ledger,
    /// The sum of the nodes that are no longer listed.
    pub(super) evicted: Ledger,
    /// Nodes with samples that are not merged first.
    pub(super) nodes: Vec<NodeResult>,
    pub(super) nodes_left_out: usize,
}

/// The ledger of one node.
#[derive(Serialize)]
pub(super) struct NodeResult {
    pub(super) node: String,
    pub(super) ledger: Ledger,
}

/// The outcome of a drill.
#[derive(Clone, Serialize)]
pub(super) struct DrillResult {
    pub(super) file: String,
    pub(super) drill: String,
    pub(super) passed: bool,
    pub(super) seconds: f64,
    pub(super) expectations: Vec<Expectation>,
    pub(super) expectations_left_out: usize,
}

/// One expectation of a drill.
#[derive(Clone, Serialize, serde::Deserialize)]
pub(super) struct Expectation {
    pub(super) name: String,
    pub(super) expected: String,
    pub(super) seen: String,
    pub(super) took_seconds: f64,
    /// `met`, `missed` or `skipped`.
    pub(super) verdict: String,
}
