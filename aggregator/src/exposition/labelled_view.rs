//! A read view with the label sets of its rows, which are rendered once and shared by all families.

use std::collections::BTreeMap;

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::summary::{NodeRow, OperationRow, Quantiles, RollupRow};
use plimsoll_schemas::unit::Unit;

use super::external_labels::valid_key;
use super::writer::{LabelSet, Writer};
use crate::core::fleet::Node;
use crate::core::view::{Total, View};

/// A view whose rows are paired with their labels. The label lists have the order of the view's.
pub(super) struct LabelledView<'v> {
    pub(super) view: &'v View,
    nodes: Vec<LabelSet>,
    operations: Vec<LabelSet>,
    rollups: Vec<LabelSet>,
    windows: BTreeMap<Window, LabelSet>,
    /// In place of a window.
    total: LabelSet,
}

/// Quantiles under the label sets of their series.
pub(super) struct LabelledQuantiles<'l, 'v> {
    pub(super) labels: [&'l LabelSet; 2],
    pub(super) unit: Unit,
    pub(super) of: &'v Quantiles,
}

impl<'v> LabelledView<'v> {
    pub(super) fn new(view: &'v View, writer: &Writer) -> Self {
        let node = |name: &str| writer.labels([("node", name)]);
        let operation = |row: &OperationRow| {
            let (scope, node) = (row.scope.as_str(), row.scope.node());
            writer.labels([("scope", scope), ("node", node), ("operation", &row.operation)])
        };

        let window = |window: Window| (window, writer.labels([("window", window.as_str())]));
        Self {
            view,
            nodes: view.nodes.iter().map(|of| node(of.name.as_str())).collect(),
            operations: view.summary.operations.iter().map(operation).collect(),
            rollups: view.summary.rollups.iter().map(|row| rollup_labels(writer, row)).collect(),
            windows: Window::ALL.map(window).into(),
            total: writer.labels([("window", "total")]),
        }
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (&LabelSet, &'v Node)> {
        self.nodes.iter().zip(self.view.nodes.iter().map(|of| &*of.node))
    }

    /// Those that are up: the gauges of others are left out, so that Prometheus marks them stale.
    pub(super) fn up_nodes(&self) -> impl Iterator<Item = (&LabelSet, &'v Node)> {
        let nodes = self.nodes.iter().zip(&self.view.nodes);
        nodes.filter(|(_, of)| of.is_up).map(|(labels, of)| (labels, &*of.node))
    }

    pub(super) fn node_rows(&self) -> impl Iterator<Item = (&LabelSet, &'v NodeRow)> {
        self.nodes.iter().zip(&self.view.summary.nodes)
    }

    /// Operations of the fleet and of nodes, without those that are stale.
    pub(super) fn current_operations(&self) -> impl Iterator<Item = (&LabelSet, &'v OperationRow)> {
        let rows = self.operations.iter().zip(&self.view.summary.operations);
        rows.filter(|(_, row)| !row.freshness.stale)
    }

    /// The groups of the roll-ups, without those that are stale.
    pub(super) fn current_rollups(&self) -> impl Iterator<Item = (&LabelSet, &'v RollupRow)> {
        let rows = self.rollups.iter().zip(&self.view.summary.rollups);
        rows.filter(|(_, row)| !row.freshness.stale)
    }

    /// The quantiles of all time, of operations and then of groups, under their labels.
    pub(super) fn total_quantiles(&self) -> impl Iterator<Item = LabelledQuantiles<'_, 'v>> {
        let operations = self.current_operations();
        let operations = operations.map(|(labels, row)| (labels, &row.operation, &row.total));
        let rollups = self.current_rollups();
        let rollups = rollups.map(|(labels, row)| (labels, &row.operation, &row.total));
        operations.chain(rollups).map(|(labels, operation, of)| LabelledQuantiles {
            labels: [labels, &self.total],
            unit: Unit::of(operation),
            of,
        })
    }

    /// The same of each window.
    pub(super) fn window_quantiles(&self) -> impl Iterator<Item = LabelledQuantiles<'_, 'v>> {
        let operations = self.current_operations().flat_map(|(labels, row)| {
            let unit = Unit::of(&row.operation);
            row.windows.iter().map(move |(window, of)| (labels, window, unit, &of.quantiles))
        });
        let rollups = self.current_rollups().flat_map(|(labels, row)| {
            let unit = Unit::of(&row.operation);
            row.windows.iter().map(move |(window, of)| (labels, window, unit, of))
        });
        operations.chain(rollups).map(|(labels, window, unit, of)| LabelledQuantiles {
            labels: [labels, self.window(*window)],
            unit,
            of,
        })
    }

    /// The totals of all operations, then of all groups of roll-ups.
    pub(super) fn totals(&self) -> impl Iterator<Item = (&LabelSet, &'v Total)> {
        let operations = self.operations.iter().zip(&self.view.totals);
        operations.chain(self.rollups.iter().zip(&self.view.rollups))
    }

    pub(super) fn window(&self, window: Window) -> &LabelSet {
        &self.windows[&window]
    }
}

/// Labels of one group, without those that have no value: Prometheus treats them as absent.
fn rollup_labels(writer: &Writer, row: &RollupRow) -> LabelSet {
    let own = [
        ("scope", "rollup"),
        ("rollup", row.rollup.as_str()),
        ("operation", row.operation.as_str()),
    ];

    let mut groups: BTreeMap<String, &str> = BTreeMap::new();
    for (key, value) in &row.labels {
        let mut key = valid_key(key).into_owned();
        // Two keys that become equal would make two groups the same series, even when one of the
        // values is empty.
        while groups.contains_key(&key) {
            key.push('_');
        }
        groups.insert(key, value);
    }

    // To Prometheus an empty label is an absent one; left
    // out only here, after keys are known to differ.
    let present = groups.iter().filter(|(_, value)| !value.is_empty());
    let groups = present.map(|(key, value)| (key.as_str(), *value));
    writer.labels(own.into_iter().chain(groups))
}
