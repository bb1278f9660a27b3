//! The core's state as records that outlive the process, and back: what changed since the last
//! checkpoint goes out, everything comes in again. Writes no file; `io::store` does.
//!
//! A checkpoint is the state after exactly the messages up to its positions, so reading on from
//! there gives what reading everything would have given. There is one record for each node, one
//! for the fleet, and one for the rest, positions included; whoever stores them must do so
//! together or not at all.
//!
//! A record is two bytes of version, four of CRC-32, and named MessagePack. The checksum is the
//! record's own: that what is read is what was written does not hang on the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_schemas::alert::Notice;
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::limits::aggregator::{ALERT_HISTORY_MAX, NODES_MAX};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Now, Wall};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::alert::Alerts;
use super::node::{Node, Operations};
use super::notices::{NoticeCounts, Notices};
use super::past::Past;
use super::progress::Progress;
use super::rollup::Rollups;
use super::{Core, Counts};

/// Version of the records; another one is not read.
const VERSION: u16 = 1;
const FRAME_BYTES: usize = 6;

/// What has changed since the last checkpoint was taken.
#[derive(Debug)]
pub(super) struct Unsaved {
    /// Nothing stored is known to be right: all of it is to be written.
    everything: bool,
    nodes: BTreeSet<NodeName>,
    rest: bool,
    notices: NoticeCounts,
}

impl Default for Unsaved {
    fn default() -> Self {
        let (nodes, notices) = (BTreeSet::new(), NoticeCounts::default());
        Self { everything: true, nodes, rest: true, notices }
    }
}

impl Unsaved {
    /// Something other than a node has changed.
    pub(super) fn touch(&mut self) {
        self.rest = true;
    }

    /// A node has changed, or is gone.
    pub(super) fn touch_node(&mut self, node: &NodeName) {
        self.rest = true;
        if self.everything {
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
    behind: bool,
    nodes: Vec<(NodeName, Option<Arc<Node>>)>,
    fleet: Arc<Operations>,
    rest: Rest,
}

/// The state beside nodes and fleet.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rest {
    mesh: MeshName,
    at: Wall,
    /// Up to when budgets had been judged; earlier than `at` while catching up.
    #[serde(default)]
    judged_at: Option<Wall>,
    lanes: BTreeMap<Lane, Position>,
    alerts: Alerts,
    changes: Vec<Notice>,
    notices: Notices,
    counts: Counts,
    #[serde(default)]
    rollups: Rollups,
}

/// How far a lane had been read, and in which stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Number of the last message read; 0 for none.
    pub read: u64,
    /// The stream that the number is about; `None` when there was none.
    pub stream_id: Option<String>,
}

/// Records to write, all in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records {
    /// True when they replace everything that is stored.
    pub everything: bool,
    /// A node's name and its record; `None` deletes it.
    pub nodes: Vec<(String, Option<Vec<u8>>)>,
    /// The fleet's record.
    pub fleet: Vec<u8>,
    /// The record of the rest.
    pub rest: Vec<u8>,
}

/// Records as they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredRecords {
    /// Name and record of every node.
    pub nodes: Vec<(String, Vec<u8>)>,
    /// The fleet's record.
    pub fleet: Vec<u8>,
    /// The record of the rest.
    pub rest: Vec<u8>,
}

/// Why stored records cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unusable {
    /// A later program wrote them.
    #[error("its records are of version {0}; this program reads {VERSION}")]
    Newer(u16),
    /// They are not what was written.
    #[error("record {record:?} is damaged: {what}")]
    Damaged {
        /// Which one.
        record: String,
        /// What is wrong.
        what: String,
    },
}

/// A whole state, read and checked.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    nodes: BTreeMap<NodeName, Arc<Node>>,
    fleet: Operations,
    rest: Rest,
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

    /// Whether unread messages may have waited in a stream when they were taken.
    pub(super) fn behind(&self) -> bool {
        self.behind
    }

    /// The nodes that have changed; `None` for one that is gone.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&NodeName, Option<&Node>)> {
        self.nodes.iter().map(|(name, node)| (name, node.as_deref()))
    }

    /// The records to write. Takes a while for many nodes: not for the driver's thread.
    #[must_use]
    pub fn into_records(self) -> Records {
        let node = |(name, node): (NodeName, Option<Arc<Node>>)| {
            (name.to_string(), node.map(|node| pack(&*node)))
        };
        Records {
            everything: self.everything,
            nodes: self.nodes.into_iter().map(node).collect(),
            fleet: pack(&*self.fleet),
            rest: pack(&self.rest),
        }
    }
}

impl Records {
    /// Bytes of all records.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let nodes = self.nodes.iter().filter_map(|(_, record)| Some(record.as_ref()?.len()));
        nodes.sum::<usize>() + self.fleet.len() + self.rest.len()
    }
}

impl Checkpoint {
    /// Checks and reads stored records.
    ///
    /// # Errors
    /// When one is damaged or of another version.
    pub fn read(records: &StoredRecords) -> Result<Self, Unusable> {
        let rest: Rest = unpack("rest", &records.rest)?;
        let fleet = unpack("fleet", &records.fleet)?;
        let damaged = |record: &str, what: &str| Unusable::Damaged {
            record: record.to_owned(),
            what: what.to_owned(),
        };
        if records.nodes.len() > NODES_MAX || rest.changes.len() > ALERT_HISTORY_MAX {
            return Err(damaged("rest", "more than there can be"));
        }
        let mut nodes = BTreeMap::new();
        for (name, bytes) in &records.nodes {
            let node: Node = unpack(name, bytes)?;
            let name = NodeName::new(name.as_str()).map_err(|_| damaged(name, "its name"))?;
            nodes.insert(name, Arc::new(node));
        }
        Ok(Self { nodes, fleet, rest })
    }

    /// The mesh it is about.
    #[must_use]
    pub fn mesh(&self) -> &MeshName {
        &self.rest.mesh
    }

    /// When it was taken.
    #[must_use]
    pub fn at(&self) -> Wall {
        self.rest.at
    }

    /// Number of nodes in it.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }
}

impl Core {
    /// The core as it was when `checkpoint` was taken, ready to read on from its positions.
    #[must_use]
    pub fn restore(mesh: MeshName, budgets: Vec<Budget>, now: Now, checkpoint: Checkpoint) -> Self {
        let Checkpoint { nodes, fleet, rest } = checkpoint;
        let mut core = Self::new(mesh, budgets, now);
        core.nodes = nodes;
        core.fleet = Arc::new(fleet);
        for (lane, Position { read, stream_id }) in rest.lanes {
            core.lanes.insert(lane, Progress::restored(read, stream_id));
        }
        core.alerts = rest.alerts;
        core.alerts.keep(&core.budgets);
        core.changes = rest.changes;
        core.notices = rest.notices;
        core.counts = rest.counts;
        core.rollups = rest.rollups;
        core.judged_at = rest.judged_at;
        core.past = Some(Past::since(rest.judged_at.unwrap_or(rest.at)));
        let (nodes, notices) = (BTreeSet::new(), core.notices.counts());
        core.unsaved = Unsaved { everything: false, nodes, rest: false, notices };
        core.keep_windows();
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

    /// What has changed since this was last called; `None` when nothing has.
    pub fn take_changes(&mut self, now: Wall) -> Option<Changes> {
        let (notices, nodes) = (self.notices.counts(), BTreeSet::new());
        if !self.unsaved.rest && !self.unsaved.everything && self.unsaved.notices == notices {
            return None;
        }
        let saved = Unsaved { everything: false, nodes, rest: false, notices };
        let unsaved = std::mem::replace(&mut self.unsaved, saved);
        let shared = |name: NodeName| {
            let node = self.nodes.get(&name).cloned();
            (name, node)
        };
        let names: Vec<NodeName> = if unsaved.everything {
            self.nodes.keys().cloned().collect()
        } else {
            unsaved.nodes.into_iter().collect()
        };
        Some(Changes {
            everything: unsaved.everything,
            behind: self.is_behind(),
            nodes: names.into_iter().map(shared).collect(),
            fleet: Arc::clone(&self.fleet),
            rest: Rest {
                mesh: self.mesh.clone(),
                at: now,
                judged_at: self.judged_at,
                lanes: Lane::ALL.map(|lane| (lane, self.position(lane))).into(),
                alerts: self.alerts.clone(),
                changes: self.changes.clone(),
                notices: self.notices.clone(),
                counts: self.counts.clone(),
                rollups: self.rollups.clone(),
            },
        })
    }

    /// Hears that changes taken may not have been stored: the next ones are everything.
    pub fn on_changes_lost(&mut self) {
        self.unsaved = Unsaved::default();
    }
}

fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    let body = rmp_serde::to_vec_named(value)
        .expect("the state holds only maps, numbers and text, which MessagePack can express");
    let mut record = Vec::with_capacity(FRAME_BYTES + body.len());
    record.extend_from_slice(&VERSION.to_be_bytes());
    record.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
    record.extend_from_slice(&body);
    record
}

fn unpack<T: DeserializeOwned>(record: &str, bytes: &[u8]) -> Result<T, Unusable> {
    let damaged =
        |what: &str| Unusable::Damaged { record: record.to_owned(), what: what.to_owned() };
    let Some((frame, body)) = bytes.split_first_chunk::<FRAME_BYTES>() else {
        return Err(damaged("too short"));
    };
    let version = u16::from_be_bytes([frame[0], frame[1]]);
    // The checksum covers the body alone, so that a later version can be told from damage.
    if crc32fast::hash(body).to_be_bytes() != frame[2..] {
        return Err(damaged("its checksum does not fit"));
    }
    match version.cmp(&VERSION) {
        std::cmp::Ordering::Greater => Err(Unusable::Newer(version)),
        std::cmp::Ordering::Less => Err(damaged("its version was never in use")),
        std::cmp::Ordering::Equal => {
            rmp_serde::from_slice(body).map_err(|error| damaged(&error.to_string()))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
