//! The summary page of the API, `/metrics/summary`, and the events page.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::freshness::Freshness;
use super::ledger::Ledger;
use super::rules::RulesState;
use crate::alert::{AlertState, Notification, Scope};
use crate::budget::Window;
use crate::ids::Labels;
use crate::rule::Severity;
use crate::wire::{AlertType, EventSource};

/// The state of the mesh at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The mesh.
    pub mesh: String,
    /// The aggregator's version.
    pub version: String,
    /// Time of the page, in seconds since 1970.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// `jetstream`, `core`, `silent` or `disconnected`.
    pub broker: String,
    /// Up to when anything of the mesh is known.
    #[serde(default, flatten)]
    pub freshness: Freshness,
    /// Number of nodes by presence, including nodes that are not listed.
    #[serde(default)]
    pub presence: BTreeMap<Presence, u64>,
    /// Sum of the ledger entries of all nodes, including nodes that are not listed.
    #[serde(default)]
    pub ledger: Ledger,
    /// Samples of all operations of the fleet; absent on a page without the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<SampleTotals>,
    /// The worst nodes, up to the configured number; without one, all nodes by name.
    pub nodes: Vec<NodeRow>,
    /// Every operation, for the fleet and for each listed node.
    pub operations: Vec<OperationRow>,
    /// Every group of every roll-up.
    #[serde(default)]
    pub rollups: Vec<RollupRow>,
    /// Every budget, evaluated for the fleet and for each listed node.
    pub budgets: Vec<BudgetRow>,
    /// The latest notifications, oldest first.
    pub changes: Vec<Notification>,
    /// State of the rule files.
    #[serde(default, flatten)]
    pub rules: RulesState,
}

/// Samples ever merged, of all operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SampleTotals {
    /// Samples of jobs.
    pub jobs: u64,
    /// Samples of the system's own operations.
    pub own: u64,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NodeRow {
    /// Its name.
    pub node: String,
    /// Whether it sends messages.
    pub presence: Presence,
    /// When its last message was received, in seconds since 1970 on the aggregator's clock.
    pub last_seen_seconds: f64,
    /// Its ledger entry over all incarnations.
    pub ledger: Ledger,
    /// Samples missing below its newest message for longer than a resend takes.
    #[serde(default)]
    pub gap_samples: u64,
    /// Messages in its outbox, as last reported.
    pub outbox_depth: u64,
    /// Maximum in the last reported interval.
    pub outbox_depth_max: u64,
    /// Messages it sent in the emergency lane.
    #[serde(default)]
    pub rerouted: u64,
    /// Messages it had to drop.
    pub dropped: u64,
    /// Version of its software; empty when it does not report it.
    #[serde(default)]
    pub version: String,
    /// Operations of which it suspects that their values are in another unit than it assumes.
    #[serde(default)]
    pub suspect_units: u64,
}

/// Whether a node sends messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// Its messages arrive.
    Up,
    /// No message for longer than its interval allows, and no final message.
    Silent,
    /// It sent its final message.
    Left,
}

impl Presence {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Up, Self::Silent, Self::Left];

    /// The value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Silent => "silent",
            Self::Left => "left",
        }
    }
}

/// The events page of the API, `/api/v1/events`: the newest events of the fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EventsPage {
    /// The mesh.
    pub mesh: String,
    /// Time of the page, in seconds since 1970.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// Newest first, in the order in which they were merged.
    pub events: Vec<EventRow>,
}

/// One event or service check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "Event"))]
pub struct EventRow {
    /// The node that sent it.
    pub node: String,
    /// When it was merged, in seconds since 1970; when the broker stored it if it was read from
    /// the past.
    pub merged_at_seconds: f64,
    /// When it happened, by its sender's clock or the node's.
    pub at_seconds: f64,
    /// An event or a service check.
    pub source: EventSource,
    /// Its title, or the check's name.
    pub title: String,
    /// Its text, or the check's message.
    pub text: String,
    /// Its severity; `success`, `warning`, `error` and `info` of a check are ok, warning,
    /// critical and unknown.
    pub alert_type: AlertType,
    /// True for an event of low priority.
    pub low_priority: bool,
    /// The host that its sender named, or nothing.
    pub host: String,
    /// Events with the same key belong together.
    pub aggregation_key: String,
    /// Its tags.
    pub labels: Labels,
}

/// One operation in one scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct OperationRow {
    /// The fleet or a node.
    pub scope: Scope,
    /// The operation.
    pub operation: String,
    /// What its whole numbers (`.._ns`) are where they are no nanoseconds: `picoseconds`, `bytes`
    /// or `thousandths` of a count, by the name of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// True for an operation that the system records of itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// Up to when its figures are known.
    #[serde(default, flatten)]
    pub freshness: Freshness,
    /// All samples ever merged.
    pub total: Quantiles,
    /// The samples of each window.
    pub windows: BTreeMap<Window, WindowRow>,
}

/// One operation in one group of a roll-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RollupRow {
    /// The roll-up.
    pub rollup: String,
    /// The operation.
    pub operation: String,
    /// What its whole numbers (`.._ns`) are where they are no nanoseconds: `picoseconds`, `bytes`
    /// or `thousandths` of a count, by the name of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Each of the roll-up's labels with the group's value, in the order of its definition.
    pub labels: Vec<(String, String)>,
    /// Up to when its figures are known; stale only with the whole mesh.
    #[serde(default, flatten)]
    pub freshness: Freshness,
    /// All samples ever merged.
    pub total: Quantiles,
    /// The samples of each window.
    pub windows: BTreeMap<Window, Quantiles>,
}

/// One operation in one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WindowRow {
    /// Its figures.
    #[serde(flatten)]
    pub quantiles: Quantiles,
    /// Nodes whose samples are in it.
    pub nodes: u64,
    /// Nodes that have not left and ever had a sample of the operation.
    pub nodes_expected: u64,
    /// Expected nodes last seen within the window's span whose newest sample is older than it.
    #[serde(default)]
    pub nodes_late: u64,
}

/// Figures of one distribution, in nanoseconds or the row's `unit`; quantiles are `None` without
/// samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// Number of samples, exact.
    pub count: u64,
    /// Their mean in nanoseconds, rounded down.
    pub mean_ns: u64,
    /// The smallest, exact.
    pub min_ns: u64,
    /// The largest, exact.
    pub max_ns: u64,
    /// Median: the upper end of its bucket.
    pub p50_ns: Option<u64>,
    /// 99th percentile: the upper end of its bucket.
    pub p99_ns: Option<u64>,
    /// Present if only the producers' wide buckets are known for some samples: then the smallest,
    /// the largest and the quantiles are approximate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approximate: Option<QuantileBounds>,
}

/// Certain bounds of approximate figures: the lowest and the highest value of each, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct QuantileBounds {
    /// The median.
    pub p50_ns: (u64, u64),
    /// The 99th percentile.
    pub p99_ns: (u64, u64),
}

/// The burn rate of an error budget over one window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BurnRow {
    /// The window.
    pub window: Window,
    /// The rate; 1 spends all of the budget in thirty days. `None` without samples.
    pub rate: Option<f64>,
}

/// One budget judged in one scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BudgetRow {
    /// The budget.
    pub budget: String,
    /// Its operation.
    pub operation: String,
    /// What its whole numbers (`.._ns`) are where they are no nanoseconds: `picoseconds`, `bytes`
    /// or `thousandths` of a count, by the name of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The fleet or a node.
    pub scope: Scope,
    /// The quantile that is judged.
    pub quantile: f64,
    /// The limit in nanoseconds.
    pub limit_ns: u64,
    /// The window.
    pub window: Window,
    /// Samples in the window.
    pub samples: u64,
    /// The quantile's value, when there are samples.
    pub value_ns: Option<u64>,
    /// Where producers' wide buckets leave that open: the least and the most that it may be. The
    /// confidence bounds are widened by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ns: Option<(u64, u64)>,
    /// Its lower confidence bound.
    pub lower_ns: Option<u64>,
    /// Its upper confidence bound, where the samples allow for one.
    #[serde(default)]
    pub upper_ns: Option<u64>,
    /// Samples over the limit.
    #[serde(default)]
    pub over: u64,
    /// Samples that may be over the limit too: in the limit's own bucket, recorded before the limit
    /// was watched, or in a producer's bucket that the limit divides.
    #[serde(default)]
    pub uncertain: u64,
    /// How many times as much the number of samples over the limit varies as that of independent
    /// samples would; 1 or more.
    #[serde(default)]
    pub overdispersion: f64,
    /// Whether the overdispersion is still assumed, since too few samples were seen to know it.
    #[serde(default)]
    pub learning: bool,
    /// Nodes whose samples are in the window, and nodes expected there.
    #[serde(default)]
    pub completeness: (u64, u64),
    /// Expected nodes that were last seen within the window's span and whose newest sample is
    /// older.
    #[serde(default)]
    pub nodes_late: u64,
    /// Of the expected nodes, those that send messages now.
    #[serde(default)]
    pub nodes_reporting: u64,
    /// Up to when its figures are known.
    #[serde(default, flatten)]
    pub freshness: Freshness,
    /// Samples since the budget has this limit, and those of them that are over it; `None`
    /// beyond the first limits of one operation, which are not summed.
    #[serde(default)]
    pub since_limit: Option<(u64, u64)>,
    /// The share of samples that must stay within the limit over thirty days; `None` without an
    /// error budget.
    #[serde(default)]
    pub objective: Option<f64>,
    /// What is left of the error budget, 1 being all and below 0 overdrawn; of the fleet alone.
    #[serde(default)]
    pub budget_remaining: Option<f64>,
    /// How many times as fast as it may be the error budget is spent, over each window that an
    /// alert watches, the shortest first; of the fleet alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub burns: Vec<BurnRow>,
    /// The verdict.
    pub verdict: Verdict,
    /// State of the alert.
    pub alert: AlertState,
}

/// The verdict of one window's samples on one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No sample, or none of its nodes sends messages and no breach was shown before; never read as
    /// "fine".
    NoData,
    /// Too few samples for a verdict; never read as "fine".
    Insufficient,
    /// Not shown to be above the limit.
    Within,
    /// The quantile lies in a producer's bucket that has the limit inside it.
    Uncertain,
    /// Above the limit, with the confidence that the budget requires.
    Breach,
}

impl Verdict {
    /// All values.
    pub const ALL: [Self; 5] =
        [Self::NoData, Self::Insufficient, Self::Within, Self::Uncertain, Self::Breach];

    /// The verdict as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoData => "no_data",
            Self::Insufficient => "insufficient",
            Self::Within => "within",
            Self::Uncertain => "uncertain",
            Self::Breach => "breach",
        }
    }
}

/// What pages that stay open need to know once a second: whether to request more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Pulse {
    /// Time of the aggregator, in seconds since 1970.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// State of the connection to the broker.
    pub broker: String,
    /// Up to when anything of the mesh is known.
    #[serde(default, flatten)]
    pub freshness: Freshness,
    /// Alerts that fire.
    pub firing: u64,
    /// The worst severity of these; `None` if none fires.
    #[serde(default)]
    pub firing_severity: Option<Severity>,
    /// Alerts that are pending.
    pub pending: u64,
    /// When an alert last changed; `None` if none has.
    pub changed_at_seconds: Option<f64>,
}
