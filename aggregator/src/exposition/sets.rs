//! The label sets of one page: rendered once, used by every family.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::budget::Window;

use super::writer::{LabelSet, Writer};
use crate::core::view::View;

pub(super) struct Sets<'v> {
    /// Of each node, in the order of the view's.
    pub(super) nodes: Vec<LabelSet>,
    /// Of each operation in its scope, in the order of the view's.
    pub(super) operations: Vec<LabelSet>,
    /// Of each window.
    pub(super) windows: BTreeMap<Window, LabelSet>,
    /// Of all time.
    pub(super) total: LabelSet,
    /// Nodes that do not speak: what they measured last is not so any more.
    pub(super) quiet: BTreeSet<&'v str>,
}

impl<'v> Sets<'v> {
    pub(super) fn new(view: &'v View, writer: &Writer) -> Self {
        let quiet = view.nodes.iter().filter(|node| !node.speaks);
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
            windows: Window::ALL.map(window).into(),
            total: writer.labels([("window", "total")]),
            quiet: quiet.map(|node| node.name.as_str()).collect(),
        }
    }
}
