//! The answers of `/api/v1/runs`: runs, and the latencies of one of them from its begin to its end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::history::{OverLimit, QuantileValue};
use crate::ids::{Labels, NodeName, Operation, RuleName, RunName};
use crate::limits::api::{OVERFLOW, ROLLUP_GROUPS_MAX};

/// Operations that [`RunRow::not_kept`] names.
const NAMED_MAX: usize = 5;

/// Runs, newest first. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RunsPage {
    /// The mesh.
    pub mesh: String,
    /// Time of the page.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// Runs.
    pub runs: Vec<RunRow>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "Run"))]
pub struct RunRow {
    /// Its name, which its samples have as label `run`.
    pub name: RunName,
    /// Whether it has ended.
    pub state: RunState,
    /// When it began.
    pub begun_seconds: f64,
    /// When it ended; `None` while it runs, and where no end was reported.
    pub ended_seconds: Option<f64>,
    /// The highest exit code of its commands that was reported.
    pub exit_code: Option<u8>,
    /// Who began it.
    pub origin: RunOrigin,
    /// The operator whom the client named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Its further labels.
    pub labels: Labels,
    /// Commands of `plimsoll run` that have begun.
    pub commands: u32,
    /// Nodes that reported it or sent samples with its label.
    pub nodes: Vec<NodeName>,
    /// Whether there are further nodes, for which there was no room.
    pub has_more_nodes: bool,
    /// Samples with its label that are not kept by its name, by operation: they are in the group
    /// `other` of the roll-up `run`, with those of other runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub folded: BTreeMap<Operation, u64>,
}

/// Whether a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It has begun, and not all of it has ended.
    Running,
    /// It has ended.
    Ended,
    /// Nothing was received of it for long, and no end was reported.
    NoEnd,
}

/// Who began a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunOrigin {
    /// A client of the API.
    Client,
    /// `plimsoll run`.
    Command,
}

/// A run with the latencies of its own window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RunPage {
    /// The mesh.
    pub mesh: String,
    /// Time of the page.
    pub at_seconds: f64,
    /// The run, as fields of the page.
    #[serde(flatten)]
    pub run: RunRow,
    /// Whether the samples are those with the run's label; otherwise those of the whole fleet
    /// between its begin and its end. A run with samples that are not kept by its name is never
    /// shown as the fleet.
    pub by_label: bool,
    /// That samples of the run are not kept by its name, with how many and the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
    /// The share of the nodes' time that was received; `None` when nothing is known of what was
    /// expected.
    pub completeness: Option<f64>,
    /// Its operations with samples.
    pub operations: Vec<RunOperation>,
    /// Operations beyond those that one page has.
    pub operations_omitted: usize,
    /// Why there are no operations, if not for lack of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_history: Option<String>,
}

/// The latencies of one operation, in `unit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RunOperation {
    /// The operation.
    pub operation: String,
    /// Unit of every latency.
    pub unit: String,
    /// Begin of its window, widened to whole slots.
    pub from_seconds: f64,
    /// End of its window, widened likewise.
    pub to_seconds: f64,
    /// Length of the slots to which it was widened.
    pub resolution: String,
    /// Number of samples, exact.
    pub count: u64,
    /// Their sum divided by their number, both exact.
    pub mean: Option<f64>,
    /// The largest, exact.
    pub max: Option<f64>,
    /// p50, p90, p99 and p99.9, each with the bounds between which it lies.
    pub quantiles: Vec<QuantileValue>,
    /// True if only the producers' wide buckets are known for some samples.
    pub approximate: bool,
    /// Samples over the limits of the operation's budgets.
    pub over_budget: Vec<OverBudget>,
    /// The share of the nodes' time that was received in this window.
    pub completeness: Option<f64>,
}

/// Samples over a budget's limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct OverBudget {
    /// The budget.
    pub budget: RuleName,
    /// The samples over its limit.
    #[serde(flatten)]
    pub over: OverLimit,
    /// Their share of all: at least this.
    pub share: f64,
}

impl RunRow {
    /// That samples of these operations are not kept by the run's name; `None` if all are.
    #[must_use]
    pub fn not_kept(&self, is_asked: impl Fn(&Operation) -> bool) -> Option<String> {
        let folded = || self.folded.iter().filter(|(operation, _)| is_asked(operation));
        folded().next()?;
        let samples = folded().fold(0_u64, |sum, (_, samples)| sum.saturating_add(*samples));
        let named = folded().map(|(operation, _)| operation.as_str()).take(NAMED_MAX);
        let named = named.collect::<Vec<_>>().join(", ");

        let more = match folded().count().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };

        Some(format!(
            "run {:?} is not kept by itself: {ROLLUP_GROUPS_MAX} groups of one run and one \
             operation are, and {samples} of its samples are in the group {OVERFLOW:?} with those of other \
             runs (of {named}{more})",
            self.name.as_str()
        ))
    }
}

impl RunState {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Running, Self::Ended, Self::NoEnd];

    /// The state as a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::NoEnd => "no_end",
        }
    }
}

impl RunOrigin {
    /// Who began it, as a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Command => "command",
        }
    }
}
