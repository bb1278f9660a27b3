//! The core's state as records that outlive the process, and back: what changed since the last
//! checkpoint goes out, everything comes in again. Writes no file; `io::store` does.
//!
//! A checkpoint is the state after exactly the messages up to its positions, so reading on from
//! there gives what reading everything would have given. There is one record for each node, one
//! for each tier of each [`Pool`], and one for the rest, positions included;
//! whoever stores them must do so together or not at all. Ten thousand nodes are a gigabyte of
//! records, so they are made one after the other, and what was made is let go before the next.

pub mod confirm;
mod pool;
mod record;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::limits::NODES_MAX;
use plimsoll_schemas::alert::Notice;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Now, Wall};
use serde::{Deserialize, Serialize};

use crate::core::alerting::alert::Alerts;
use crate::core::alerting::announce::Watched;
use crate::core::alerting::delivery::Deliveries;
use crate::core::alerting::notifications::{NoticeCounts, Notices};
use crate::core::alerting::silences::Silences;
use crate::core::fleet::node::Node;
use crate::core::fleet::retention::Selected;
use crate::core::fleet::rollup::Definition;
use crate::core::ingest::catch_up::Past;
use crate::core::ingest::progress::{Progress, ReadUpTo};
use crate::core::{Core, Counts};
pub use pool::Pool;
use pool::Pools;
use record::Content;
pub use record::{Part, Record, Unusable};
pub use whole::{Checkpoint, Partial, StoredRecords};

/// What has changed since the last checkpoint was taken.
#[derive(Debug)]
pub(crate) struct Unsaved {
    /// Nothing stored is known to be right: all of it is to be written.
    everything: bool,
    nodes: BTreeSet<NodeName>,
    /// The pools as they were when the last checkpoint was taken, if that is what is stored.
    pools: Option<Arc<Pools>>,
    rest: bool,
    notices: NoticeCounts,
}

impl Default for Unsaved {
    fn default() -> Self {
        Self { everything: true, rest: true, ..Self::nothing(NoticeCounts::default()) }
    }
}

impl Unsaved {
    fn nothing(notices: NoticeCounts) -> Self {
        Self { everything: false, nodes: BTreeSet::new(), pools: None, rest: false, notices }
    }

    /// Something other than a node has changed.
    pub(crate) fn touch(&mut self) {
        self.rest = true;
    }

    /// A node has changed, or is gone.
    pub(crate) fn touch_node(&mut self, node: &NodeName) {
        self.rest = true;
        if self.everything {
            return;
        }
        if self.nodes.contains(node) {
            return;
        }
        self.nodes.insert(node.clone());
        if self.nodes.len() > NODES_MAX {
            self.everything = true;
            self.nodes.clear();
        }
    }
}

/// What a checkpoint has to write; cheap to take, since nodes are shared and not copied.
#[derive(Clone, Debug)]
pub struct Changes {
    everything: bool,
    read_up_to: ReadUpTo,
    nodes: Vec<(NodeName, Option<Arc<Node>>)>,
    pools: Arc<Pools>,
    pools_before: Option<Arc<Pools>>,
    rest: Rest,
}

/// The state beside nodes and pools.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rest {
    mesh: MeshName,
    at: Wall,
    /// Up to when budgets had been judged; earlier than `at` while catching up.
    judged_at: Option<Wall>,
    /// What budgets select; kept apart for them is nothing else.
    selected: Selected,
    /// Number of nodes, of the fleet's operations, of what it keeps apart for budgets, and of the
    /// groups of each roll-up: so many records there must be.
    nodes: usize,
    fleet: usize,
    fleet_selected: usize,
    rollups: Vec<(Definition, usize)>,
    lanes: BTreeMap<Lane, Position>,
    alerts: Alerts,
    #[serde(default)]
    watched: Watched,
    #[serde(default)]
    silences: Silences,
    changes: Vec<Notice>,
    notices: Notices,
    #[serde(default)]
    deliveries: Deliveries,
    counts: Counts,
}

/// How far a lane had been read, and in which stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Number of the last message read; 0 for none.
    pub read: u64,
    /// The stream that the number is about; `None` when there was none.
    pub stream_id: Option<String>,
}

/// What became of checkpoints, for the aggregator's own metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointFigures {
    /// Whether there is a store at all.
    pub kept: bool,
    /// When the latest one in the store was taken.
    pub at: Option<Wall>,
    /// Bytes of the records that the latest write wrote.
    pub bytes: u64,
    /// Checkpoints written.
    pub written: u64,
    /// Failures, by reason.
    pub failures: BTreeMap<&'static str, u64>,
}

impl Changes {
    /// When they were taken.
    #[must_use]
    pub fn at(&self) -> Wall {
        self.rest.at
    }

    /// Up to when all lanes had been read when they were taken.
    pub(crate) fn read_up_to(&self) -> ReadUpTo {
        self.read_up_to
    }

    /// The nodes that have changed; `None` for one that is gone.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&NodeName, Option<&Node>)> {
        self.nodes.iter().map(|(name, node)| (name, node.as_deref()))
    }

    /// True when they replace everything that is stored.
    #[must_use]
    pub fn everything(&self) -> bool {
        self.everything
    }

    /// What is to be written, one after the other. A node is let go with its record, so that
    /// the core need not copy it any longer in order to change it.
    pub fn into_records(self) -> impl Iterator<Item = Record> {
        let pools = self.pools_changed();
        let nodes = self.nodes.into_iter().map(|(name, node)| Content::Node(name, node));
        let rest = std::iter::once(Content::Rest(Box::new(self.rest)));
        pools.into_iter().chain(nodes).chain(rest).map(Record)
    }

    fn pools_changed(&self) -> Vec<Content> {
        let changed = self.pools.changed_since(self.pools_before.as_deref()).into_iter();
        let contents = |(pool, tiers): (Pool, Vec<usize>)| {
            let head = Content::Pool(pool.clone(), Arc::clone(&self.pools));
            let tier = |n| Content::PoolTier(pool.clone(), n, Arc::clone(&self.pools));
            std::iter::once(head).chain(tiers.into_iter().map(tier)).collect::<Vec<_>>()
        };
        changed.flat_map(contents).collect()
    }
}

impl Core {
    /// The core as it was when `checkpoint` was taken, ready to read on from its positions once
    /// [`Self::measuring`] has said how windows are kept now.
    #[must_use]
    pub fn restore(
        mesh: MeshName,
        rules: impl Into<Rules>,
        now: Now,
        checkpoint: Checkpoint,
    ) -> Self {
        let Checkpoint { nodes, pools, rest } = checkpoint;
        let mut core = Self::new(mesh, rules, now);
        core.nodes = nodes;
        (core.fleet, core.rollups) = (Arc::clone(&pools.fleet), pools.rollups.clone());
        for (lane, Position { read, stream_id }) in rest.lanes {
            core.lanes.insert(lane, Progress::restored(read, stream_id));
        }
        core.alerts = rest.alerts;
        core.silences = rest.silences;
        core.changes = rest.changes;
        core.notices = rest.notices;
        core.deliveries = rest.deliveries;
        core.counts = rest.counts;
        core.judged_at = rest.judged_at;
        core.past = Some(Past::since(rest.judged_at.unwrap_or(rest.at)));
        core.unsaved = Unsaved::nothing(core.notices.counts());
        core.unsaved.pools = Some(Arc::new(pools));
        core.watched_before = Some(rest.watched);
        core.forget_other_selections(&rest.selected);
        core
    }

    /// How far a lane has been read.
    #[must_use]
    pub fn position(&self, lane: Lane) -> Position {
        let position = |progress: &Progress| Position {
            read: progress.read,
            stream_id: progress.stream_id.clone(),
        };
        self.lanes.get(&lane).map(position).unwrap_or_default()
    }

    /// The nodes that have changed since this or [`Self::take_changes`] was last called.
    pub fn take_changed_nodes(&mut self) -> BTreeSet<NodeName> {
        let saved = Unsaved::nothing(self.notices.counts());
        let unsaved = std::mem::replace(&mut self.unsaved, saved);
        if unsaved.everything { self.nodes.keys().cloned().collect() } else { unsaved.nodes }
    }

    /// Whether anything has changed since changes were last taken.
    pub(crate) fn has_unsaved(&self) -> bool {
        let Unsaved { everything, rest, notices, .. } = self.unsaved;
        everything || rest || notices != self.notices.counts()
    }

    /// What has changed since this was last called; `None` when nothing has.
    pub fn take_changes(&mut self, now: Wall) -> Option<Changes> {
        if !self.has_unsaved() {
            return None;
        }
        let everything = self.unsaved.everything;
        self.itself.on_taken(now);
        let pools_before = self.unsaved.pools.take();
        let nodes = self.take_changed_nodes();
        let (fleet, rollups) = (Arc::clone(&self.fleet), self.rollups.clone());
        let pools = Arc::new(Pools { fleet, rollups });
        self.unsaved.pools = Some(Arc::clone(&pools));
        let shared = |name: NodeName| {
            let node = self.nodes.get(&name).cloned();
            (name, node)
        };
        Some(Changes {
            everything,
            read_up_to: self.read_up_to(),
            nodes: nodes.into_iter().map(shared).collect(),
            pools,
            pools_before,
            rest: Rest {
                mesh: self.mesh.clone(),
                at: now,
                judged_at: self.judged_at,
                nodes: self.nodes.len(),
                selected: self.keepings.selected(),
                fleet: self.fleet.iter().count(),
                fleet_selected: self.fleet.selected().count(),
                rollups: self.rollups.sizes(),
                lanes: Lane::ALL.map(|lane| (lane, self.position(lane))).into(),
                alerts: self.alerts.clone(),
                watched: self.watched(),
                silences: self.silences.clone(),
                changes: self.changes.clone(),
                notices: self.notices.clone(),
                deliveries: self.deliveries.clone(),
                counts: self.counts.clone(),
            },
        })
    }

    /// Hears that changes taken may not have been stored: the next ones are everything.
    pub fn on_changes_lost(&mut self) {
        self.unsaved = Unsaved::default();
    }
}

#[cfg(test)]
pub(crate) mod tests;
