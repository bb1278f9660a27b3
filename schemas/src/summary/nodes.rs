//! The answers of `/api/v1/nodes` and `/api/v1/hardware`: the state of each node, and the newest
//! readings of its sensors. Both list nodes by name, page by page.

use serde::{Deserialize, Serialize};

use super::backpressure::NodeOutbox;
use super::ledger::NodeLedger;
use super::machine::MachineDescription;
use super::page::{BudgetRow, NodeRow, OperationRow, Presence, SampleTotals, Verdict};
use crate::alert::AlertState;
use crate::hardware::SensorState;
use crate::ids::Labels;
use crate::rule::Severity;

/// Nodes of the mesh that have sent a message and have not expired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NodesPage {
    /// The mesh.
    pub mesh: String,
    /// Time of the page, in seconds since 1970.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// By name.
    pub nodes: Vec<NodeStatus>,
    /// The value of `after` for the next page; `None` on the last one.
    pub next: Option<String>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NodeStatus {
    /// Its row of the summary.
    #[serde(flatten)]
    pub row: NodeRow,
    /// Its own labels.
    pub labels: Labels,
    /// Samples of all its operations ever merged.
    pub samples: SampleTotals,
    /// When its newest sample was taken, in seconds since 1970; `None` without samples.
    pub newest_sample_seconds: Option<f64>,
    /// Offset of its clock from the broker's, negative when its clock is behind; `None` while
    /// unknown or not up.
    pub clock_ahead_seconds: Option<f64>,
    /// Its latest round trip to the broker; `None` while unknown or not up.
    pub round_trip_seconds: Option<f64>,
    /// How much longer its latest message was under way than its fastest one of some minutes;
    /// `None` while not up.
    pub delay_seconds: Option<f64>,
    /// Its latest incarnations, those with a ledger of their own: when they started, in
    /// nanoseconds since 1970.
    pub incarnations: Vec<u64>,
    /// What is wrong with it, as `plimsoll_nodes_in_trouble` counts it; the worst last.
    pub troubles: Vec<String>,
    /// The machine that it runs on; `None` if it states nothing of it.
    #[serde(default)]
    pub machine: Option<MachineDescription>,
}

/// The newest sensor readings of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct HardwarePage {
    /// The mesh.
    pub mesh: String,
    /// Time of the page, in seconds since 1970.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// By name, those without readings among them.
    pub nodes: Vec<NodeHardware>,
    /// The value of `after` for the next page; `None` on the last one.
    pub next: Option<String>,
}

/// The newest readings of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NodeHardware {
    /// Its name.
    pub node: String,
    /// Whether it sends messages. Readings of a node that is not up are those of its last message.
    pub presence: Presence,
    /// When the readings were received, in seconds since 1970 on the aggregator's clock; `None`
    /// before there were any.
    pub received_at_seconds: Option<f64>,
    /// True if newer readings were sent as changes of readings that have not arrived.
    pub outdated: bool,
    /// In the order in which the node sends them, those without a value among them.
    pub readings: Vec<ReadingRow>,
}

/// One reading of one sensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "Reading"))]
pub struct ReadingRow {
    /// The sensor; its metric is `plimsoll_node_<sensor>`.
    pub sensor: String,
    /// Which one, if a machine has several.
    pub labels: Labels,
    /// The unit of the value; `None` for a plain number, such as a count.
    pub unit: Option<String>,
    /// Whether there is a value, and if not, why.
    pub state: SensorState,
    /// The value; `None` exactly when the state is not `ok`.
    pub value: Option<f64>,
    /// Why there is no value, if the node states it.
    pub reason: Option<String>,
}

/// One node: its state, its latencies, its budgets and its ledger entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NodePage {
    /// The mesh.
    pub mesh: String,
    /// Time of the page, in seconds since 1970.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// Its state.
    pub status: NodeStatus,
    /// Its operations, with all windows that are kept.
    pub operations: Vec<OperationRow>,
    /// The budgets that are evaluated on it.
    pub budgets: Vec<BudgetRow>,
    /// Its outbox.
    pub outbox: NodeOutbox,
    /// Its ledger entry by incarnation.
    pub entry: NodeLedger,
}

/// How much room each node has below its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct HeadroomPage {
    /// The mesh.
    pub mesh: String,
    /// Time of the page, in seconds since 1970.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// By name.
    pub nodes: Vec<HeadroomRow>,
}

/// One node among all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct HeadroomRow {
    /// Its name.
    pub node: String,
    /// Whether it reports.
    pub presence: Presence,
    /// Its labels.
    pub labels: Labels,
    /// When its newest message was received, in seconds since 1970.
    pub last_seen_seconds: f64,
    /// Messages in its outbox.
    pub outbox_depth: u64,
    /// Messages it rerouted, ever.
    pub rerouted: u64,
    /// Messages it dropped, ever.
    pub dropped: u64,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
    /// The worst state of its alerts, but for those about the system's own operations.
    pub alert: AlertState,
    /// The worst severity of those in that state; `None` without an active alert.
    #[serde(default)]
    pub alert_severity: Option<Severity>,
    /// The budget of jobs with the least headroom; `None` without samples in the window of one.
    pub least: Option<LeastHeadroom>,
}

/// The budget of a node that is nearest to its limit, or farthest above it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct LeastHeadroom {
    /// The budget.
    pub budget: String,
    /// Its operation.
    pub operation: String,
    /// Its limit.
    pub limit_ns: u64,
    /// The value of its quantile over its window.
    pub value_ns: u64,
    /// The free share of the limit: 1 is all, 0 none; below 0 the value is above the limit.
    pub headroom: f64,
    /// Samples in its window.
    pub samples: u64,
    /// Its verdict.
    pub verdict: Verdict,
}
