//! What the aggregator knows at one moment, shared with whoever works it out elsewhere.
//!
//! To take one costs the driver a count of references for each node, and nothing is merged,
//! sorted or written. What changes while a still is kept is copied first, so it is given back
//! soon. Rows, quantiles and pages are made from it by [`crate::core::view`], on another thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_schemas::alert::{AlertKey, AlertState, Notice};
use plimsoll_schemas::ids::{MeshName, NodeName, RuleName};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Wall;

use crate::core::alerting::delivery::ReceiverFigures;
use crate::core::alerting::notifications::NoticeCounts;
use crate::core::durable::CheckpointFigures;
use crate::core::durable::confirm::ConfirmationFigures;
use crate::core::fleet::node::{Node, Operations};
use crate::core::fleet::rollup::Rollups;
use crate::core::ingest::progress::Recoveries;
use crate::core::rules::reload::RuleFigures;
use crate::core::view::AlertCounts;
use crate::core::{Core, Counts};

/// Everything at one moment.
#[derive(Clone, Debug)]
pub struct Still {
    /// The moment.
    pub at: Wall,
    /// The mesh.
    pub mesh: MeshName,
    /// What the connection to the broker says of itself.
    pub broker: String,
    /// True once everything that the stream held at the start has been read.
    pub ready: bool,
    /// True while a stream is known to hold what was not read.
    pub behind: bool,
    /// Every node, hidden ones among them, in order of their names.
    pub nodes: Vec<(NodeName, Arc<Node>)>,
    /// All nodes together.
    pub fleet: Arc<Operations>,
    /// All nodes by label.
    pub rollups: Rollups,
    /// What is judged.
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
    pub changes: Vec<Notice>,
    /// Counts of what was read.
    pub counts: Counts,
    /// What became of notices.
    pub notices: NoticeCounts,
    /// What became of events beside them.
    pub notice_events: NoticeCounts,
    /// What those who are told of alerts have heard, and what not yet.
    pub receivers: Vec<ReceiverFigures>,
    /// Messages still to be read, by lane.
    pub pending: Vec<(Lane, u64)>,
    /// How long backlogs lasted, by lane.
    pub recoveries: Vec<(Lane, Recoveries)>,
    /// What became of checkpoints.
    pub checkpoints: CheckpointFigures,
    /// What became of confirmations.
    pub confirmations: ConfirmationFigures,
    /// What became of the files that rules come from.
    pub rule_files: RuleFigures,
    /// Budgets that no sample has matched though samples have come for minutes.
    pub unmatched: BTreeSet<RuleName>,
}

impl Core {
    /// What is known now. `broker` is what the connection says of itself.
    #[must_use]
    pub fn still(&self, now: Wall, broker: &str) -> Still {
        let alerts = self.alerts.standing();
        Still {
            at: now,
            mesh: self.mesh.clone(),
            broker: broker.to_owned(),
            ready: self.ready,
            behind: self.is_behind(),
            nodes: self.nodes.iter().map(|(name, node)| (name.clone(), Arc::clone(node))).collect(),
            fleet: Arc::clone(&self.fleet),
            rollups: self.rollups.clone(),
            shares: Arc::clone(&self.shares),
            rules: Arc::clone(&self.rules),
            alert_counts: AlertCounts {
                without_data: self.alerts.without_data(),
                silences: self.silences.count(),
                suppressed: self.silences.suppressed().clone(),
                ..AlertCounts::default()
            },
            alerts: alerts.map(|(key, state)| (key.clone(), state)).collect(),
            gaps: self.gaps_to_show(),
            changes: self.changes.clone(),
            counts: self.counts.clone(),
            notices: self.notices.counts(),
            notice_events: self.notices.event_counts(),
            receivers: self.deliveries.figures(),
            pending: self.pending(),
            recoveries: self.recoveries(),
            checkpoints: CheckpointFigures::default(),
            confirmations: ConfirmationFigures::default(),
            rule_files: RuleFigures::default(),
            unmatched: self.matches.unmatched().into_iter().cloned().collect(),
        }
    }
}

impl Still {
    /// The nodes that are shown, in order of their names.
    pub fn shown(&self) -> impl Iterator<Item = (&NodeName, &Arc<Node>)> {
        let shown = self.nodes.iter().filter(|(_, node)| !node.hidden);
        shown.map(|(name, node)| (name, node))
    }

    /// Samples in gaps of a node's account that have stayed for too long.
    #[must_use]
    pub fn gap_samples(&self, node: &NodeName) -> u64 {
        self.gaps.get(node).copied().unwrap_or_default()
    }
}
