//! Jobs' counters and gauges now, over the nodes that report them.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::summary::{MetricKind, MetricNow};

use super::read_view::ReadView;
use crate::core::history::MetricTotals;

/// One metric while nodes are added up.
#[derive(Default)]
struct Sum {
    nodes: u64,
    totals: MetricTotals,
}

impl ReadView {
    /// Each metric that a node which reports has. A gauge ends with its job, a counter with its
    /// node.
    pub fn metrics_now(&self) -> BTreeMap<(Operation, MetricKind), MetricNow> {
        let mut sums: BTreeMap<(Operation, MetricKind), Sum> = BTreeMap::new();

        for (_, node) in self.shown() {
            let mut of_node: BTreeMap<(&Operation, MetricKind), MetricTotals> = BTreeMap::new();
            for (series, value) in node.counters.iter() {
                // What subtracts is summed apart.
                let lowered = node.lowered.get(series).copied().unwrap_or_default();
                let of = of_node.entry((&series.operation, MetricKind::Counter)).or_default();
                of.add(&MetricTotals::of(value - lowered));
            }
            for (series, latest) in node.fresh_gauges(self.at) {
                let of = of_node.entry((&series.operation, MetricKind::Gauge)).or_default();
                of.add(&MetricTotals::of(latest.value));
            }
            for ((name, kind), totals) in of_node {
                let sum = sums.entry((name.clone(), kind)).or_default();
                sum.nodes += 1;
                sum.totals.add(&totals);
            }
        }

        let now = |(key, Sum { nodes, totals }): (_, Sum)| {
            let mean = totals.mean()?;
            let (series, sum) = (totals.count, totals.sum.value());
            Some((key, MetricNow { nodes, series, sum, mean, min: totals.min, max: totals.max }))
        };
        sums.into_iter().filter_map(now).collect()
    }
}
