//! The answers of `/api/v1/query`, `/api/v1/heatmap` and `/api/v1/operations`: the past of one
//! operation, of the fleet or of a group of a roll-up, merged from exact counts.

use std::collections::BTreeMap;
use std::io::Write;

use rmp_serde::{decode, encode};
use serde::{Deserialize, Serialize};

use super::distribution;
use crate::wire::messagepack;

/// The media type of an answer in MessagePack.
pub const MESSAGEPACK: &str = "application/vnd.msgpack";

/// What a query is about, and how it was answered. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct HistoryPage {
    /// The mesh.
    pub mesh: String,
    /// The operation.
    pub operation: String,
    /// The roll-up; absent for the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollup: Option<String>,
    /// The values of the roll-up's labels, in their order; absent for the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// Unit of every value in it: `seconds`, `bytes` or `count`, by the operation's name.
    pub unit: String,
    /// Begin of the first point: the requested one, widened to whole slots.
    pub from_seconds: f64,
    /// End of the last point, widened likewise.
    pub to_seconds: f64,
    /// Length of the slots to which the range was widened: that of the finest tier which still
    /// keeps its beginning, or `1s` where nodes were asked.
    pub resolution: String,
    /// Length of a point.
    pub step_seconds: f64,
    /// Since when the history keeps samples; what is older is unknown.
    pub kept_from_seconds: f64,
    /// The nodes that were asked for their own histories; absent where the fleet's was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeHistory>>,
    /// Labels that a series or its node must have; absent where none are required.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Point by point, in the order of time, those without samples among them.
    pub points: Vec<HistoryPoint>,
}

impl HistoryPage {
    /// Writes it as MessagePack, with the names of its fields.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn write_messagepack(&self, writer: &mut impl Write) -> Result<(), encode::Error> {
        encode::write_named(writer, self)
    }

    /// Reads it from MessagePack.
    ///
    /// # Errors
    /// On anything but one page.
    pub fn from_messagepack(bytes: &[u8]) -> Result<Self, decode::Error> {
        let mut rest = bytes;
        let page = messagepack::read(&mut rest)?;
        match rest.len() {
            0 => Ok(page),
            more => Err(decode::Error::Uncategorized(format!("{more} bytes follow it"))),
        }
    }
}

/// What one node contributed to an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NodeHistory {
    /// Its name.
    pub node: String,
    /// Samples.
    pub samples: u64,
    /// Since when its answers cover the range; its end when there was none.
    pub answered_from_seconds: f64,
    /// Since when the node keeps its history; `None` when it has none, or did not say.
    pub kept_from_seconds: Option<f64>,
    /// Intervals, of any time, that its history lacks because its disk was slow or full.
    pub missing: u64,
    /// Why the rest of the range is missing; absent when all was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Hardware readings of nodes by time, from their own histories. Values are in the unit that a
/// sensor's name ends with; times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct HardwareHistoryPage {
    /// The mesh.
    pub mesh: String,
    /// Begin of the first point: the requested one, widened to whole seconds.
    pub from_seconds: f64,
    /// End of the last point.
    pub to_seconds: f64,
    /// Length of a point.
    pub step_seconds: f64,
    /// Each node that was asked.
    pub nodes: Vec<NodeHardwareHistory>,
}

/// The readings of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NodeHardwareHistory {
    /// The node, and what is missing of it; its samples are values.
    #[serde(flatten)]
    pub of: NodeHistory,
    /// Its readings.
    pub readings: Vec<ReadingHistory>,
}

/// One reading by time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ReadingHistory {
    /// The sensor's name.
    pub sensor: String,
    /// Which one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Points with values, in the order of time.
    pub points: Vec<ReadingPoint>,
}

/// The values of a reading in one point; one an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ReadingPoint {
    /// Its begin.
    pub from_seconds: f64,
    /// The least value.
    pub min: f64,
    /// The mean of all.
    pub mean: f64,
    /// The highest value.
    pub max: f64,
    /// Values.
    pub count: u64,
}

/// One stretch of time: the samples of intervals that ended in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct HistoryPoint {
    /// Its begin.
    pub from_seconds: f64,
    /// Its end; not part of it.
    pub to_seconds: f64,
    /// Number of samples, exact.
    pub count: u64,
    /// Their sum divided by their number, both exact.
    pub mean: Option<f64>,
    /// The smallest, exact.
    pub min: Option<f64>,
    /// The largest, exact.
    pub max: Option<f64>,
    /// True if only the producers' wide buckets are known for some samples: then quantiles have
    /// wider bounds.
    pub approximate: bool,
    /// The requested quantiles; none without samples.
    pub quantiles: Vec<QuantileValue>,
    /// Samples over each requested limit: at least `over`, at most `uncertain` more.
    pub over: Vec<OverLimit>,
    /// The share of the nodes' time that was received; `None` when nothing is known of what was
    /// expected, as while no aggregator ran.
    pub completeness: Option<f64>,
    /// Samples by bucket, ascending, if they were requested: a list of [`BucketCount`] in JSON, the
    /// bytes of a V2 histogram in MessagePack.
    ///
    /// [`BucketCount`]: super::BucketCount
    #[serde(default, skip_serializing_if = "Option::is_none", with = "distribution")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<Vec<distribution::BucketCount>>"))]
    pub distribution: Option<distribution::BucketCounts>,
}

/// One quantile with the bounds between which it lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct QuantileValue {
    /// The quantile, 0 to 1.
    pub quantile: f64,
    /// The upper end of its bucket, or the largest sample.
    pub value: f64,
    /// The sample of that rank is at least this.
    pub lower: f64,
    /// The sample of that rank is at most this.
    pub upper: f64,
}

/// Samples over a limit: at least `over` and at most `over + uncertain`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct OverLimit {
    /// The limit.
    pub limit: f64,
    /// Samples certainly over it.
    pub over: u64,
    /// Samples in the limit's own bucket, unless nodes counted over this very limit.
    pub uncertain: u64,
}

/// Samples of one operation by time and by latency, from exact counts: the answer of
/// `/api/v1/heatmap`. Latencies are in `unit`, times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct HeatmapPage {
    /// The mesh.
    pub mesh: String,
    /// The operation.
    pub operation: String,
    /// The roll-up; absent for the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollup: Option<String>,
    /// The values of the roll-up's labels, in their order; absent for the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// Unit of every value in it, by the operation's name.
    pub unit: String,
    /// Begin of the first column.
    pub from_seconds: f64,
    /// End of the last column.
    pub to_seconds: f64,
    /// Length of the slots to which the range was widened.
    pub resolution: String,
    /// Length of a column.
    pub step_seconds: f64,
    /// Bands of latencies, ascending, without gaps; none without samples.
    pub bands: Vec<Band>,
    /// Samples by column, then by band: as many rows as columns, as many numbers as bands.
    pub counts: Vec<Vec<u64>>,
}

/// A band of latencies: whole buckets, so that counts in it are exact.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Band {
    /// The smallest value in it.
    pub lower: f64,
    /// The largest value in it.
    pub upper: f64,
}

/// What the history holds: the answer of `/api/v1/operations`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct OperationsPage {
    /// The mesh.
    pub mesh: String,
    /// Since when the history keeps samples, in seconds since 1970.
    pub kept_from_seconds: f64,
    /// The tiers, from the finest on.
    pub tiers: Vec<HistoryTier>,
    /// The fleet's operations.
    pub operations: Vec<String>,
    /// The groups of roll-ups.
    pub groups: Vec<HistoryGroup>,
}

/// One tier of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct HistoryTier {
    /// Length of its slots.
    pub resolution: String,
    /// Since when it keeps everything, in seconds since 1970.
    pub kept_from_seconds: f64,
    /// Bytes of its slots.
    pub bytes: u64,
}

/// One group of a roll-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct HistoryGroup {
    /// The roll-up.
    pub rollup: String,
    /// The operation.
    pub operation: String,
    /// The values of the roll-up's labels, in their order.
    pub values: Vec<String>,
}
