//! The answer of `/api/v1/statistics`: summary statistics of one operation in one scope and window.

use serde::{Deserialize, Serialize};

use super::freshness::Freshness;
use crate::budget::Window;
use crate::scope::Scope;

/// The statistics page of the API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StatisticsPage {
    /// The mesh.
    pub mesh: String,
    /// Time of the page, in seconds since 1970.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// The operation.
    pub operation: String,
    /// The fleet or a node.
    pub scope: Scope,
    /// The window that ends at this time; `None` for all samples ever merged.
    pub window: Option<Window>,
    /// Unit of every statistic but the count: `seconds`, `bytes` or `count`, by the operation's
    /// name.
    pub unit: String,
    /// True if only the producers' wide buckets are known for some samples: then all but `count`
    /// and `mean` are approximate.
    pub approximate: bool,
    /// Up to when they are known.
    #[serde(default, flatten)]
    pub freshness: Freshness,
    /// The statistics, as fields of the page.
    #[serde(flatten)]
    pub stats: SummaryStats,
}

/// Summary statistics of an operation, in the unit of the page, under the names that
/// `get_summary_stats` of the Python client has. All but `count` are `None` without samples. `std`
/// and the percentiles are `None` too if there was no room for the buckets of some samples, rather
/// than those of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SummaryStats {
    /// Number of samples, exact.
    pub count: u64,
    /// Their sum divided by their number, both exact.
    pub mean: Option<f64>,
    /// Standard deviation of the population, from the middles of buckets.
    pub std: Option<f64>,
    /// The smallest, exact.
    pub min: Option<f64>,
    /// The largest, exact.
    pub max: Option<f64>,
    /// Median: the upper end of its bucket, as the other percentiles are.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
}
