//! Summary statistics of one operation in one scope and window, for the API.
//!
//! DESIGN A63.

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::{ExactFigures, layout, rank};
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::summary::{StatisticsPage, SummaryStats};
use plimsoll_schemas::time::seconds;
use plimsoll_schemas::unit::{Unit, is_overflow};
use thiserror::Error;

use super::freshness;
use super::read_view::{ReadView, UnknownNode};
use crate::core::fleet::{Completeness, Merged, ReportingNode, Windows};

/// Where samples may be of an operation that is not there: of 256 operations those of further ones.
const OTHERS: &str = " by its name (samples of operations beyond the bound are in \"other\")";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatisticsQuery {
    pub operation: Operation,
    /// The node; the fleet without one.
    pub node: Option<NodeName>,
    /// The window; all samples ever merged without one.
    pub window: Option<Window>,
}

/// Why there are no statistics: what is not there, and the fix.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NoStatistics {
    #[error(transparent)]
    Node(#[from] UnknownNode),
    #[error(
        "no samples of {operation:?} from {scope}{others}; /metrics lists \
         the operations as plimsoll_latency_samples_total. Check its spelling, that its job runs with \
         its client enabled, and /readyz after a start"
    )]
    Operation {
        operation: String,
        /// The fleet or a node.
        scope: Scope,
        /// Where its samples may be, if the scope has any that it does not keep by their operation.
        others: &'static str,
    },
    #[error(
        "window={0} of this operation is not kept for nodes; leave node or window out, choose a \
         shorter window, or set windows.nodes_up_to in the settings"
    )]
    Window(Window),
}

impl ReadView {
    pub fn statistics(&self, query: &StatisticsQuery) -> Result<StatisticsPage, NoStatistics> {
        let StatisticsQuery { operation, node, window } = query;

        let (scope, operations) = match node {
            None => (Scope::Fleet, &*self.fleet),
            Some(name) => (Scope::Node(name.clone()), &self.node(name)?.operations),
        };

        let has_others = || operations.iter().any(|(name, _)| is_overflow(name.as_str()));
        let windows = operations.get(operation).ok_or_else(|| NoStatistics::Operation {
            operation: operation.to_string(),
            scope: scope.clone(),
            others: if has_others() { OTHERS } else { "" },
        })?;

        if let Some(window) = window.filter(|window| !windows.keeps(*window)) {
            return Err(NoStatistics::Window(window));
        }
        let mut completeness = Completeness::default();

        for (_, of) in self.shown().filter(|(name, _)| node.as_ref().is_none_or(|of| of == *name)) {
            let Some(windows) = of.operations.get(operation) else { continue };
            completeness.add(self.at, &ReportingNode::new(self.at, of), windows);
        }

        let (exact, samples) = self.samples(windows, *window);
        let unit = Unit::of(operation.as_str());

        Ok(StatisticsPage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(self.at.0),
            ready: self.ready,
            operation: operation.to_string(),
            freshness: freshness::of_scope(self.is_silent, &scope, &completeness, Some(windows)),
            scope,
            window: *window,
            unit: unit.shown_as().to_owned(),
            approximate: samples.is_approximate(),
            stats: stats(exact, &samples, unit),
        })
    }

    fn samples(&self, windows: &Windows, window: Option<Window>) -> (ExactFigures, Merged) {
        let Some(window) = window else {
            return (windows.total_exact(), Merged::from(&windows.total()));
        };
        let mut samples = Merged::default();
        windows.show(self.at, window, &mut samples);
        (samples.exact(), samples)
    }
}

/// Statistics of samples of which these figures are exact. Where the buckets lack some, nothing is
/// taken from them.
fn stats(exact: ExactFigures, samples: &Merged, unit: Unit) -> SummaryStats {
    let ExactFigures { count, sum_ns, min_ns, max_ns } = exact;
    if count == 0 {
        return SummaryStats::default();
    }
    let mean_ns = sum_ns as f64 / count as f64;

    let figures = SummaryStats {
        count,
        mean: Some(mean_ns / unit.raw_per_shown()),
        min: Some(unit.shown(min_ns)),
        max: Some(unit.shown(max_ns)),
        ..SummaryStats::default()
    };

    if samples.exact().count != count {
        return figures;
    }
    let mut ranks = samples.ranks();
    let mut at =
        |quantile| ranks.find(rank(quantile, count)).map(|found| unit.shown(found.value_ns));

    SummaryStats {
        std: Some(deviation_ns(samples, mean_ns) / unit.raw_per_shown()),
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        ..figures
    }
}

/// Standard deviation of the population: each sample counts as the middle of its bucket, of which
/// only what lies between the smallest and the largest sample can hold one.
fn deviation_ns(samples: &Merged, mean_ns: f64) -> f64 {
    let ExactFigures { count, min_ns, max_ns, .. } = samples.exact();
    let squares = samples.buckets().map(|(index, n)| {
        let lowest = layout::lowest(index).clamp(min_ns, max_ns);
        let highest = layout::highest(index).clamp(min_ns, max_ns);
        let (middle, n) = ((lowest as f64).midpoint(highest as f64), n as f64);
        n * (middle - mean_ns).powi(2)
    });
    (squares.sum::<f64>() / count as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::histogram::Histogram;
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> SummaryStats {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value));
        stats(histogram.exact(), &Merged::from(&histogram), Unit::Nanoseconds)
    }

    #[test]
    fn without_samples_there_is_the_count_alone_and_equal_samples_do_not_deviate() {
        assert_eq!(of(&[]), SummaryStats::default());
        let second = Some(1.0);
        let equal = SummaryStats {
            count: 3,
            mean: second,
            std: Some(0.0),
            min: second,
            max: second,
            p50: second,
            p90: second,
            p95: second,
            p99: second,
            p999: second,
        };
        assert_eq!(of(&[1_000_000_000; 3]), equal);
    }

    #[test]
    fn samples_that_no_bucket_has_leave_neither_percentiles_nor_deviation() {
        let mut histogram = Histogram::default();
        histogram.record_n(4, 2);
        let exact = ExactFigures { count: 3, sum_ns: 12, ..histogram.exact() };
        let stats = stats(exact, &Merged::from(&histogram), Unit::Nanoseconds);
        let known = (stats.count, stats.mean, stats.min, stats.max);
        assert_eq!(known, (3, Some(4e-9), Some(4e-9), Some(4e-9)));
        assert_eq!((stats.std, stats.p50, stats.p999), (None, None, None));
    }

    proptest! {
        /// As a naive calculation over the samples themselves has them, within a bucket's width.
        #[test]
        fn statistics_are_those_of_the_samples_within_a_bucket(
            mut values in prop::collection::vec(1_000..60_000_000_000_u64, 1..2_000),
        ) {
            let stats = of(&values);
            values.sort_unstable();
            let n = values.len();
            let floats: Vec<f64> = values.iter().map(|value| *value as f64 / 1e9).collect();
            let count = n as f64;
            let mean = floats.iter().sum::<f64>() / count;
            let squares: f64 = floats.iter().map(|value| (value - mean).powi(2)).sum();
            let near = |found: Option<f64>, expected: f64, most: f64| {
                found.is_some_and(|found| (found - expected).abs() <= most)
            };
            prop_assert_eq!(stats.count, u64::try_from(n).unwrap());
            prop_assert!(near(stats.mean, mean, mean * 1e-9), "{:?} {}", stats, mean);
            prop_assert_eq!((stats.min, stats.max), (Some(floats[0]), Some(floats[n - 1])));
            // No sample is further than half a bucket from its bucket's middle: 0.05 % or 256 ns.
            let (std, most) = ((squares / count).sqrt(), floats[n - 1] * 0.0005 + 256e-9);
            prop_assert!(near(stats.std, std, most), "{stats:?} {std}");
            let percentiles = [
                (stats.p50, 500), (stats.p90, 900), (stats.p95, 950), (stats.p99, 990),
                (stats.p999, 999),
            ];
            for (found, permille) in percentiles {
                let expected = floats[(n * permille).div_ceil(1_000) - 1];
                let most = expected * 0.001 + 512e-9;
                prop_assert!(near(found, expected, most), "{permille} {found:?} {expected}");
            }
        }
    }
}
