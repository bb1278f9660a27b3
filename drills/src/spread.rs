//! A distribution of times in a drill's report.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::time::seconds;
use serde::Serialize;

/// A distribution of times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub count: u64,
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl From<&Histogram> for Spread {
    fn from(histogram: &Histogram) -> Self {
        let at = |quantile| histogram.quantile(quantile).map_or(0, |found| found.value_ns);
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|quantile| seconds(at(quantile)));
        Self { count: histogram.count(), p50, p95, p99, max: seconds(histogram.max_ns()) }
    }
}
