//! The figures of each run of a side that has several, beside those of all of them.

use plimsoll_schemas::histogram::layout::highest;
use plimsoll_schemas::histogram::{Over, Packed};
use serde::Serialize;

use crate::blocks::bucket_of;
use crate::runs::Named;
use crate::side::Measured;
use crate::statistic::QUANTILES;

/// What one run of a side has of an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RunFigures {
    /// The run.
    pub run: String,
    /// Its samples.
    pub samples: u64,
    /// The quantiles that are compared, each as the upper end of its bucket.
    pub quantiles: Vec<RunQuantile>,
    /// The share over the limit, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_limit: Option<f64>,
}

/// A quantile of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RunQuantile {
    /// Which quantile, 0 to 1.
    pub quantile: f64,
    /// Its value in nanoseconds.
    pub value_ns: u64,
}

/// What each of several runs has.
pub(crate) fn figures(runs: &[Named<Measured>], limit_ns: Option<u64>) -> Vec<RunFigures> {
    let of_run = |run: &Named<Measured>| {
        let samples = run.of.slots.iter().map(|slot| &slot.samples);
        let all = Packed::united(&samples.collect::<Vec<_>>());
        let (count, max_ns) = (all.exact().count, all.exact().max_ns);
        let quantiles = QUANTILES.map(|quantile| RunQuantile {
            quantile,
            value_ns: highest(bucket_of(&all, quantile)).min(max_ns),
        });
        let share = |limit_ns| {
            let Over { over, uncertain, .. } = all.over(limit_ns);
            (over as f64 + 0.5 * uncertain as f64) / count.max(1) as f64
        };
        RunFigures {
            run: run.name.to_owned(),
            samples: count,
            quantiles: quantiles.to_vec(),
            over_limit: limit_ns.map(share),
        }
    };
    if runs.len() > 1 { runs.iter().map(of_run).collect() } else { Vec::new() }
}
