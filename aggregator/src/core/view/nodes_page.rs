//! The pages `/api/v1/nodes`, the state of each node by name, and `/api/v1/nodes/<name>`, one node
//! with all that is known of it now. Rows, counts and troubles are those of the summary and of
//! `/metrics/nodes`.

use std::sync::Arc;

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::own_operations::is_own_name;
use plimsoll_schemas::summary::{NodePage, NodeRow, NodeStatus, NodesPage, Presence};
use plimsoll_schemas::time::seconds;

use super::backpressure;
use super::ledger_page;
use super::machine::machine;
use super::read_view::{ReadView, ShownScopes, UnknownNode};
use super::rows::Rows;
use crate::core::fleet::Node;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesQuery {
    pub node: Option<NodeName>,
    /// Only those in this state.
    pub presence: Option<Presence>,
    /// Only those whose names come after this one.
    pub after: Option<NodeName>,
    /// At most this many, by name.
    pub limit: usize,
}

/// Nodes with their names, and the name after which the next page begins.
pub(super) type Listed<'v> = (Vec<(&'v NodeName, &'v Arc<Node>)>, Option<String>);

impl ReadView {
    pub fn nodes_page(&self, query: &NodesQuery) -> Result<NodesPage, UnknownNode> {
        let (nodes, next) = self.list(query)?;
        Ok(NodesPage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(self.at.0),
            ready: self.ready,
            nodes: nodes.into_iter().map(|(name, node)| self.node_status(name, node)).collect(),
            next,
        })
    }

    /// One node with its latencies, its budgets and its ledger entry.
    pub fn node_page(&self, name: &NodeName) -> Result<NodePage, UnknownNode> {
        let node = self.node(name)?;
        let mut rows = Rows::new(self, &ShownScopes::new(false, [name]), false);
        rows.add_node(name, node);
        rows.budgets.sort_by_key(|(budget, row)| (is_own_name(&row.operation), *budget));

        Ok(NodePage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(self.at.0),
            ready: self.ready,
            status: self.node_status(name, node),
            operations: rows.operations,
            budgets: rows.budgets.into_iter().map(|(_, row)| row).collect(),
            outbox: backpressure::node_outbox(self, name, node),
            entry: ledger_page::entry(self, name, node),
        })
    }

    pub(super) fn list(&self, query: &NodesQuery) -> Result<Listed<'_>, UnknownNode> {
        let NodesQuery { node, presence, after, limit } = query;
        // An unknown name is an error; a known one that the
        // other conditions leave out is an empty list.
        if let Some(name) = node {
            self.node(name)?;
        }
        let from =
            after.as_ref().map_or(0, |after| self.nodes.partition_point(|(name, _)| name <= after));

        let mut found = self.shown_from(from, self.nodes.len()).filter(|(name, of)| {
            node.as_ref().is_none_or(|node| node == *name)
                && presence.is_none_or(|presence| presence == of.presence(self.at))
        });

        // After a name and not at an offset: nodes that come and go
        // between two requests move no other one to another page (A84).
        let listed: Vec<_> = found.by_ref().take(*limit).collect();
        let last = found.next().and(listed.last());
        let next = last.map(|(name, _)| name.to_string());
        Ok((listed, next))
    }

    /// A node's row on the summary, which this page has too.
    pub(super) fn node_row(&self, name: &NodeName, node: &Node) -> NodeRow {
        let bus = &node.bus.value;
        NodeRow {
            node: name.to_string(),
            presence: node.presence(self.at),
            last_seen_seconds: seconds(node.last_seen.0),
            ledger: node.account.ledger(),
            gap_samples: self.gap_samples(name),
            outbox_depth: bus.outbox_depth,
            outbox_depth_max: bus.outbox_depth_max,
            rerouted: bus.rerouted,
            dropped: bus.dropped,
            version: bus.version.to_string(),
            suspect_units: bus.suspect_units,
        }
    }

    fn node_status(&self, name: &NodeName, node: &Node) -> NodeStatus {
        let is_up = node.presence(self.at) == Presence::Up;
        let newest = node.operations.iter().map(|(_, windows)| windows.newest()).max();
        let troubles = node.troubles(self.at, self.gap_samples(name));

        NodeStatus {
            row: self.node_row(name, node),
            labels: node.labels.value.clone(),
            samples: node.operations.sample_totals(),
            newest_sample_seconds: newest.map(|at| seconds(at.0)),
            clock_ahead_seconds: node.clock_ahead_seconds().filter(|_| is_up),
            round_trip_seconds: node.round_trip().filter(|_| is_up).map(|way| way.as_secs_f64()),
            delay_seconds: is_up.then(|| node.delay().as_secs_f64()),
            incarnations: node.account.incarnations().map(|(name, ..)| name.0).collect(),
            troubles: troubles.map(|trouble| trouble.as_str().to_owned()).collect(),
            machine: machine(node.readings.get()),
        }
    }
}
