//! How long samples take until the aggregator shows them, measured from when each was due.
//!
//! Samples of one operation of one node arrive in the order in which they were sent, so the count
//! that a page shows identifies the merged ones.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::summary::Summary;
use plimsoll_schemas::time::nanos;

use super::schedule::Schedule;

/// The samples that pages have shown so far.
pub(super) struct Delivery {
    schedule: Schedule,
    /// Node and operation by name, with those that were merged before the start and those since.
    rows: BTreeMap<(String, String), Row>,
    took: Histogram,
}

struct Row {
    node: u32,
    operation: u32,
    before: u64,
    merged: u64,
}

impl Delivery {
    /// Nothing of the schedule is merged; `summary` shows what was merged before it.
    pub(super) fn new(schedule: Schedule, nodes: &[String], summary: &Summary) -> Self {
        let mut rows = BTreeMap::new();
        for (node, name) in (0..).zip(nodes) {
            for operation in 0..schedule.operations {
                let operation_name = operation_name(operation);
                let before = merged(summary, name, &operation_name);
                rows.insert(
                    (name.clone(), operation_name),
                    Row { node, operation, before, merged: 0 },
                );
            }
        }
        Self { schedule, rows, took: Histogram::default() }
    }

    /// A page that came `at` after the start shows this.
    pub(super) fn on_summary(&mut self, at: Duration, summary: &Summary) {
        for ((node, operation), row) in &mut self.rows {
            let now = merged(summary, node, operation).saturating_sub(row.before);
            for place in row.merged..now {
                if let Some(n) = self.schedule.number(row.node, row.operation, place) {
                    self.took.record(nanos(at.saturating_sub(self.schedule.due(n))));
                }
            }
            row.merged = row.merged.max(now);
        }
    }

    /// Samples that the schedule has.
    pub(super) fn scheduled(&self) -> u64 {
        self.schedule.count
    }

    /// Samples merged since the start.
    pub(super) fn merged(&self) -> u64 {
        self.rows.values().map(|row| row.merged).sum()
    }

    /// How long each took.
    pub(super) fn took(&self) -> &Histogram {
        &self.took
    }
}

/// The name of an operation on the wire.
fn operation_name(operation: u32) -> String {
    format!("load.{operation}")
}

fn merged(summary: &Summary, node: &str, operation: &str) -> u64 {
    let row = summary.operations.iter().find(|row| {
        row.operation == operation && matches!(&row.scope, Scope::Node(of) if of.as_str() == node)
    });
    row.map_or(0, |row| row.total.count)
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::NodeName;
    use plimsoll_schemas::summary::{Freshness, OperationRow, Quantiles};

    use super::*;

    fn summary(counts: &[(&str, u32, u64)]) -> Summary {
        let row = |(node, operation, count): &(&str, u32, u64)| OperationRow {
            scope: Scope::Node(NodeName::new(node).unwrap()),
            operation: operation_name(*operation),
            unit: None,
            own: false,
            freshness: Freshness::default(),
            total: Quantiles { count: *count, ..Quantiles::default() },
            windows: BTreeMap::new(),
        };
        Summary { operations: counts.iter().map(row).collect(), ..Summary::default() }
    }

    #[test]
    fn a_stall_counts_from_when_samples_were_due_for_each_that_waited() {
        let schedule =
            Schedule { count: 100, rate: 10, nodes: 1, operations: 1, burst_after: None };
        let mut delivery = Delivery::new(schedule, &["a".into()], &summary(&[("a", 0, 7)]));
        // Nothing for ten seconds, then everything: 0.1 s to 10 s, not one delay of ten seconds.
        delivery.on_summary(Duration::from_secs(5), &summary(&[("a", 0, 7)]));
        delivery.on_summary(Duration::from_secs(10), &summary(&[("a", 0, 107)]));
        let took = delivery.took();
        let at = |quantile| took.quantile(quantile).unwrap().value_ns / 100_000_000;
        assert_eq!((took.count(), delivery.merged()), (100, 100));
        assert_eq!((at(0.5), at(0.99), took.max_ns() / 1_000_000_000), (50, 99, 10));
    }

    #[test]
    fn rows_of_other_nodes_and_what_was_there_before_do_not_count() {
        let schedule = Schedule { count: 4, rate: 0, nodes: 2, operations: 2, burst_after: None };
        let nodes = ["a".to_owned(), "b".to_owned()];
        let mut delivery = Delivery::new(schedule, &nodes, &summary(&[("b", 1, 5), ("c", 0, 3)]));
        let page = summary(&[("a", 0, 1), ("b", 1, 6), ("c", 0, 9), ("b", 0, 0)]);
        delivery.on_summary(Duration::from_secs(1), &page);
        delivery.on_summary(Duration::from_secs(2), &page);
        assert_eq!((delivery.merged(), delivery.took().count()), (2, 2));
    }
}
