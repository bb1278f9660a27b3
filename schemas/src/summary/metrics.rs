//! The answers of `/api/v1/query?metric=` and `/api/v1/metrics`: a job's counters and gauges, of
//! the fleet or of a group of a roll-up. Times are seconds since 1970.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{HistoryGroup, HistoryTier, NodeHistory};

/// What a job's metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Increments, which add up.
    Counter,
    /// A value that is set; each interval in which it is set counts once.
    Gauge,
}

impl MetricKind {
    /// The word in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// One metric by time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MetricHistoryPage {
    /// The mesh.
    pub mesh: String,
    /// The metric.
    pub metric: String,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// The operation whose time `per_operation_second` divides by; absent where none has the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The counters whose sum `ratio` divides by; none unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per: Vec<String>,
    /// The roll-up; absent for the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollup: Option<String>,
    /// The values of the roll-up's labels, in their order; absent for the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// Begin of the first point: the requested one, widened to whole slots.
    pub from_seconds: f64,
    /// End of the last point, widened likewise.
    pub to_seconds: f64,
    /// Length of the slots to which the range was widened.
    pub resolution: String,
    /// Length of a point.
    pub step_seconds: f64,
    /// Since when the history keeps samples; what is older is unknown.
    pub kept_from_seconds: f64,
    /// The nodes that were asked for their own histories; absent where the fleet's was read. Their
    /// samples are values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeHistory>>,
    /// Labels that a series or its node must have; absent where none are required.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Point by point, in the order of time, those without values among them.
    pub points: Vec<MetricPoint>,
}

/// Several metrics by time, all read at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MetricHistoryPages {
    /// A page for each, in the order of the query.
    pub pages: Vec<MetricHistoryPage>,
}

/// One stretch of time: the values of intervals that ended in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MetricPoint {
    /// Its begin.
    pub from_seconds: f64,
    /// Its end; not part of it.
    pub to_seconds: f64,
    /// Intervals of nodes that have a value.
    pub count: u64,
    /// The exact sum of all values, rounded once: what a counter grew by.
    pub sum: f64,
    /// The mean of a gauge's values; absent for a counter and without values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// The least value of a gauge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The highest value of a gauge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Of a gauge in nodes' own histories: the mean of the latest values over series and nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<f64>,
    /// A counter's sum by wall time: by the length of the point, or by what has passed of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// The time that the operation took, summed over its samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_seconds: Option<f64>,
    /// A counter's sum by that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_operation_second: Option<f64>,
    /// A counter's sum by the sum of the counters in `per`; absent where that is not above zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The share of the nodes' time that was received; `None` when nothing is known of what was
    /// expected.
    pub completeness: Option<f64>,
}

/// The metrics that jobs send, and those that the history has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MetricsPage {
    /// The mesh.
    pub mesh: String,
    /// When the figures of now are of.
    pub at_seconds: f64,
    /// Since when the history keeps samples; absent where none is kept.
    pub kept_from_seconds: Option<f64>,
    /// The tiers of the history, from the finest on.
    pub tiers: Vec<HistoryTier>,
    /// Metrics of the fleet by their names.
    pub metrics: Vec<MetricRow>,
    /// The groups of roll-ups of which the history has metrics; `operation` is the metric.
    pub groups: Vec<HistoryGroup>,
}

/// One metric of the fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MetricRow {
    /// Its name.
    pub metric: String,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// Whether the history has it.
    pub is_kept: bool,
    /// What nodes that report have of it now; absent where none has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<MetricNow>,
}

/// A metric over the nodes that report it now: of a gauge the latest value of each series while its
/// job sends it, of a counter the sum since its node's first message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MetricNow {
    /// Nodes that have it.
    pub nodes: u64,
    /// Series of these nodes.
    pub series: u64,
    /// The exact sum over series, rounded once.
    pub sum: f64,
    /// The mean over series.
    pub mean: f64,
    /// The least value of a series.
    pub min: f64,
    /// The highest value of a series.
    pub max: f64,
}

impl MetricsPage {
    /// Metrics of which the history has values with this value of a roll-up of one label.
    #[must_use]
    pub fn of_group(&self, rollup: &str, value: &str) -> BTreeSet<&str> {
        let groups = self.groups.iter().filter(|group| {
            group.rollup == rollup && matches!(group.values.as_slice(), [only] if only == value)
        });
        groups.map(|group| group.operation.as_str()).collect()
    }
}
