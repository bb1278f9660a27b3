//! The read view: the core's state at one point in time, shared with the threads that answer
//! requests.
//!
//! To take one costs the driver a reference count for each node; nothing is merged, sorted or
//! written. What changes while a read view is kept is copied first, so it is dropped soon.
//!
//! DESIGN A35.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_schemas::alert::{AlertKey, AlertState, Notification};
use plimsoll_schemas::ids::{MeshName, NodeName, Operation, RuleName};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::summary::{BlamePage, Freshness};
use plimsoll_schemas::time::Wall;
use thiserror::Error;

use super::freshness;
use super::own_counts::OwnCounts;
use crate::core::alerting::Alerting;
use crate::core::fleet::{Fleet, Node, Operations, Rollups, TablesUsed};
use crate::core::ingest::Ingest;
use crate::core::rules::Evaluator;

/// The core's whole state at one point in time.
#[derive(Clone, Debug)]
pub struct ReadView {
    /// The point in time.
    pub at: Wall,
    pub mesh: MeshName,
    /// The state of the connection to the broker.
    pub broker: String,
    /// Up to when anything of the mesh is known.
    pub freshness: Freshness,
    /// True while no node sends messages, unless all have left.
    pub is_silent: bool,
    /// True once everything that the stream held at the start has been read.
    pub ready: bool,
    /// True while a stream is known to hold what was not read.
    pub behind: bool,
    /// Every node, expired ones among them, in order of their names.
    pub nodes: Vec<(NodeName, Arc<Node>)>,
    pub fleet: Arc<Operations>,
    /// All nodes by label.
    pub rollups: Rollups,
    /// How full tables of names were a second ago.
    pub tables: TablesUsed,
    pub rules: Arc<Rules>,
    /// Alerts that are not inactive.
    pub alerts: BTreeMap<AlertKey, AlertState>,
    /// What is counted of alerts beside their states.
    pub alert_counts: AlertCounts,
    /// Of nodes with samples over a limit, how great their share was when it was last judged.
    pub shares: Arc<BTreeMap<NodeName, u64>>,
    /// Samples in gaps that have stayed for too long, by node.
    pub gaps: BTreeMap<NodeName, u64>,
    /// The latest changes of alerts, oldest first.
    pub changes: Vec<Notification>,
    pub own: OwnCounts,
    /// Which peers are slow, and why none is named.
    pub blame: BlamePage,
    /// Budgets that no sample has matched though samples have come for minutes.
    pub unmatched: BTreeSet<RuleName>,
    /// Budgets that for minutes have had too few samples to judge, some of them over the limit.
    pub insufficient: BTreeSet<RuleName>,
    /// Operations with a budget that have samples, and whether they are absent.
    pub absence: Vec<(Operation, bool)>,
}

/// What rows and alerts are about: the fleet, if it is wanted, and nodes by their names.
pub(super) struct ShownScopes<'n> {
    fleet: bool,
    nodes: BTreeSet<&'n str>,
}

impl<'n> ShownScopes<'n> {
    pub(super) fn new(fleet: bool, nodes: impl IntoIterator<Item = &'n NodeName>) -> Self {
        Self { fleet, nodes: nodes.into_iter().map(NodeName::as_str).collect() }
    }
}

/// A node that is unknown or has expired.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "node \"{0}\" is unknown; /api/v1/nodes lists all nodes. Check its name, that it runs, and that \
     it has the same mesh and broker as this aggregator"
)]
pub struct UnknownNode(pub NodeName);

impl ReadView {
    /// What is known now. `broker` is the state of the connection.
    pub fn of(
        mesh: &MeshName,
        at: Wall,
        broker: &str,
        ingest: &Ingest,
        fleet: &Fleet,
        evaluator: &Evaluator,
        alerting: &Alerting,
    ) -> Self {
        let active = alerting.alerts.active();
        let nodes = fleet.nodes().iter();
        // Of what a checkpoint stores, so that a page is
        // not stale only because this process is new.
        let last_seen = fleet.last_seen(at);

        Self {
            at,
            mesh: mesh.clone(),
            broker: broker.to_owned(),
            freshness: freshness::of_mesh(last_seen, broker),
            is_silent: last_seen.is_silent,
            ready: ingest.is_ready(),
            behind: ingest.is_behind(),
            nodes: nodes.map(|(name, node)| (name.clone(), Arc::clone(node))).collect(),
            fleet: Arc::clone(fleet.operations()),
            rollups: fleet.rollups().clone(),
            tables: fleet.tables.clone(),
            shares: Arc::clone(&evaluator.shares),
            rules: Arc::clone(evaluator.rules()),
            alert_counts: AlertCounts {
                without_data: alerting.alerts.without_data(),
                silences: alerting.silences.count(),
                suppressed: alerting.silences.suppressed.clone(),
                silences_refused: alerting.silences.refused.clone(),
                ..AlertCounts::default()
            },
            alerts: active.map(|(key, state)| (key.clone(), state)).collect(),
            gaps: fleet.gaps.shown(&alerting.nodes_with_gap_alerts()),
            changes: alerting.changes().to_vec(),
            own: OwnCounts {
                merged: fleet.counts.clone(),
                undecodable: ingest.undecodable.clone(),
                notifications: alerting.notifications.counts,
                notification_events: alerting.notifications.event_counts,
                receivers: alerting.deliveries.stats(),
                pending: ingest.pending(),
                broker: ingest.broker_health(),
                recoveries: ingest.recoveries(),
                ..OwnCounts::default()
            },
            blame: BlamePage::default(),
            unmatched: evaluator.unmatched.all().into_iter().cloned().collect(),
            insufficient: evaluator.insufficient.all(),
            absence: evaluator.absence(fleet),
        }
    }

    pub fn node(&self, name: &NodeName) -> Result<&Arc<Node>, UnknownNode> {
        let found = self.nodes.binary_search_by(|(other, _)| other.cmp(name));
        let node = found.ok().map(|place| &self.nodes[place].1).filter(|node| !node.hidden);
        node.ok_or_else(|| UnknownNode(name.clone()))
    }

    /// The nodes that are shown, in order of their names.
    pub fn shown(&self) -> impl Iterator<Item = (&NodeName, &Arc<Node>)> {
        self.shown_from(0, self.nodes.len())
    }

    /// Those that are shown of `len` nodes from `from` on.
    pub fn shown_from(
        &self,
        from: usize,
        len: usize,
    ) -> impl Iterator<Item = (&NodeName, &Arc<Node>)> {
        let shown = self.nodes.iter().skip(from).take(len).filter(|(_, node)| !node.hidden);
        shown.map(|(name, node)| (name, node))
    }

    /// The alerts about these scopes.
    pub(super) fn alerts_about(&self, scopes: &ShownScopes<'_>) -> Vec<(&AlertKey, AlertState)> {
        let ShownScopes { fleet, nodes } = scopes;
        // Of a part of all nodes most alerts are about others.
        let ends = nodes.first().zip(nodes.last());
        let lies_between =
            |node: &str| ends.is_some_and(|(first, last)| *first <= node && node <= *last);
        let is_about = |key: &AlertKey| match key.scope.node() {
            "" => *fleet,
            node => lies_between(node) && nodes.contains::<str>(node),
        };
        let alerts = self.alerts.iter().filter(|(key, _)| is_about(key));
        alerts.map(|(key, state)| (key, *state)).collect()
    }

    /// Samples in sequence gaps of a node's ledger entry that have stayed for too long.
    pub fn gap_samples(&self, node: &NodeName) -> u64 {
        self.gaps.get(node).copied().unwrap_or_default()
    }
}

/// How many alerts there are, and of what receivers were not notified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertCounts {
    pub by_state: BTreeMap<AlertState, u64>,
    /// Of these, alerts for which there is nothing or too little to judge now.
    pub without_data: u64,
    /// Silences that hold or are yet to begin.
    pub silences: u64,
    /// Notifications that receivers did not get, by reason.
    pub suppressed: BTreeMap<Cow<'static, str>, u64>,
    /// Silences of other aggregators that were not taken over, by reason.
    pub silences_refused: BTreeMap<&'static str, u64>,
}
