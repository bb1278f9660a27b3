//! How full tables of names are: names come from outside, and a full table takes no new one.
//!
//! DESIGN A150.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::node::Node;
use super::operations::Operations;
use super::rollup::Rollups;
use crate::limits::{
    HISTORY_SERIES_MAX, NODE_SERIES_MAX, NODES_MAX, OPERATIONS_MAX, ROLLUP_GROUPS_MAX,
};

/// Used share of each table, 0 to 1 and more: budgets have their places beyond the bound. Of tables
/// that each node has, that of the node whose table is fullest.
#[derive(Clone, Debug, Default)]
pub struct TablesUsed(BTreeMap<Cow<'static, str>, f64>);

impl TablesUsed {
    /// The tables of a fleet, and of its history if one is kept. Roll-ups without a group are left
    /// out.
    pub(super) fn of<'f>(
        nodes: impl ExactSizeIterator<Item = &'f Node>,
        operations: &Operations,
        rollups: &Rollups,
        history_series: Option<usize>,
    ) -> Self {
        let mut used = Self::default();
        used.see("nodes", nodes.len(), NODES_MAX);
        used.see("operations", operations.iter().len(), OPERATIONS_MAX);
        // 0 before any node is known, so that a rule about it has a value to resolve by.
        used.see("node_operations", 0, OPERATIONS_MAX);
        used.see("node_numbers", 0, NODE_SERIES_MAX);
        nodes.for_each(|node| used.see_node(node));
        if let Some(series) = history_series {
            used.see("history", series, HISTORY_SERIES_MAX);
        }

        for rollup in rollups.iter().filter(|rollup| rollup.own_groups() > 0) {
            let name = format!("rollup {}", rollup.definition.name);
            used.see(name, rollup.own_groups(), ROLLUP_GROUPS_MAX);
        }

        used
    }

    fn see_node(&mut self, node: &Node) {
        self.see("node_operations", node.operations.iter().len(), OPERATIONS_MAX);
        self.see("node_numbers", node.counters.len().max(node.gauges.len()), NODE_SERIES_MAX);
    }

    #[expect(clippy::cast_precision_loss, reason = "tables have some thousand entries")]
    fn see(&mut self, table: impl Into<Cow<'static, str>>, entries: usize, max: usize) {
        let share = entries as f64 / max as f64;
        let known = self.0.entry(table.into()).or_default();
        *known = known.max(share);
    }

    /// Each table with its share.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(table, share)| (table.as_ref(), *share))
    }

    /// The fullest table; `None` before any was looked at.
    pub fn fullest(&self) -> Option<(&str, f64)> {
        self.iter().max_by(|(_, one), (_, other)| one.total_cmp(other))
    }
}
