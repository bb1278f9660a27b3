//! The label sets of one page: rendered once, used by every family.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::summary::{NodeRow, Presence, RollupRow};

use super::labels::label_key;
use super::writer::{LabelSet, Writer};
use crate::core::view::View;

pub(super) struct Sets<'v> {
    /// Of each node, in the order of the view's.
    pub(super) nodes: Vec<LabelSet>,
    /// Of each operation in its scope, in the order of the view's.
    pub(super) operations: Vec<LabelSet>,
    /// Of each group of a roll-up, in the order of the view's.
    pub(super) rollups: Vec<LabelSet>,
    /// Of each window.
    pub(super) windows: BTreeMap<Window, LabelSet>,
    /// Of all time.
    pub(super) total: LabelSet,
    /// Nodes of whose samples nobody knows whether there were more. One that has left has told all.
    pub(super) quiet: BTreeSet<&'v str>,
}

impl<'v> Sets<'v> {
    pub(super) fn new(view: &'v View, writer: &Writer) -> Self {
        let silent = |row: &&NodeRow| row.presence == Presence::Silent;
        let quiet = view.summary.nodes.iter().filter(silent);
        let operations = view.summary.operations.iter();
        let window = |window: Window| (window, writer.labels([("window", window.as_str())]));
        Self {
            nodes: view
                .nodes
                .iter()
                .map(|node| writer.labels([("node", node.name.as_str())]))
                .collect(),
            operations: operations
                .map(|row| {
                    writer.labels([
                        ("scope", row.scope.as_str()),
                        ("node", row.scope.node()),
                        ("operation", &row.operation),
                    ])
                })
                .collect(),
            rollups: view.summary.rollups.iter().map(|row| rollup(writer, row)).collect(),
            windows: Window::ALL.map(window).into(),
            total: writer.labels([("window", "total")]),
            quiet: quiet.map(|row| row.node.as_str()).collect(),
        }
    }
}

/// A label without a value is to Prometheus one that is not there.
fn rollup(writer: &Writer, row: &RollupRow) -> LabelSet {
    let own = [
        ("scope", "rollup"),
        ("rollup", row.rollup.as_str()),
        ("operation", row.operation.as_str()),
    ];
    let mut groups: BTreeMap<String, &str> = BTreeMap::new();
    for (key, value) in &row.labels {
        let mut key = label_key(key);
        // Two labels that become one would make two groups the same series, also where either
        // has no value.
        while groups.contains_key(&key) {
            key.push('_');
        }
        groups.insert(key, value);
    }
    let told = groups.iter().filter(|(_, value)| !value.is_empty());
    let groups = told.map(|(key, value)| (key.as_str(), *value));
    writer.labels(own.into_iter().chain(groups))
}
