//! One record of a checkpoint: which part of the state it holds, and its bytes.
//!
//! A record is two bytes of version, four of CRC-32, and named MessagePack. The checksum is the
//! record's own: that what is read is what was written does not hang on the store. So is the
//! version: pools, nodes and the rest each have one. A field with a default may be added under the
//! same version. Any other change of a layout raises its version, and [`unpack`] then converts what
//! the version before it wrote.
//!
//! DESIGN A21.

use std::fmt;
use std::sync::Arc;

use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::time::Wall;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::core::alerting::StoredAlerting;
use crate::core::durable::shard::StoredShard;
use crate::core::fleet::{Node, Pool, Pools, StoredFleet};
use crate::core::ingest::StoredIngest;
use crate::core::rules::StoredEvaluator;
use crate::core::runs::StoredRuns;

/// Version of a pool's record and of those of its rings: error budgets are judged by them.
pub(in crate::core) const POOL_VERSION: u16 = 12;
pub(in crate::core) const NODE_VERSION: u16 = 12;
pub(in crate::core) const REST_VERSION: u16 = 12;
const FRAME_BYTES: usize = 6;

/// A part of the state that is written as a whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A pool without its rings.
    Pool(Pool),
    PoolRing(Pool, usize),
    Node(NodeName),
    /// Everything else, positions included.
    Rest,
}

/// A part that has changed, or is gone. Its bytes are made only when they are written.
#[derive(Clone, Debug)]
pub struct Record(pub(super) Content);

#[derive(Clone, Debug)]
pub(super) enum Content {
    Pool(Pool, Arc<Pools>),
    PoolRing(Pool, usize, Arc<Pools>),
    Node(NodeName, Option<Arc<Node>>),
    Rest(Box<Rest>),
}

/// Why stored records cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unusable {
    #[error("record {record:?} is of version {version}; this program reads {reads}")]
    Newer { record: String, version: u16, reads: u16 },
    #[error("record {record:?} is of version {version}, which this program does not read any more")]
    Older { record: String, version: u16 },
    #[error("record {record:?} is damaged: {what}")]
    Damaged { record: String, what: String },
}

impl fmt::Display for Part {
    /// The name under which a store keeps the part. In the order of names a pool comes before
    /// its rings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(pool) => pool.fmt(f),
            Self::PoolRing(pool, ring) => write!(f, "{pool} {ring}"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Rest => f.write_str("rest"),
        }
    }
}

impl Unusable {
    /// Why, as a label.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Newer { .. } => "newer_version",
            Self::Older { .. } => "older_version",
            Self::Damaged { .. } => "damaged",
        }
    }

    pub fn record(&self) -> &str {
        match self {
            Self::Newer { record, .. }
            | Self::Older { record, .. }
            | Self::Damaged { record, .. } => record,
        }
    }
}

impl Part {
    pub(in crate::core) const fn version(&self) -> u16 {
        match self {
            Self::Pool(_) | Self::PoolRing(..) => POOL_VERSION,
            Self::Node(_) => NODE_VERSION,
            Self::Rest => REST_VERSION,
        }
    }

    /// The part that a store keeps under `name`.
    pub fn named(name: &str) -> Result<Self, Unusable> {
        let part = match name.split_once(' ') {
            Some(("node", node)) => NodeName::new(node).ok().map(Self::Node),
            Some(_) => pool_named(name),
            None => (name == "rest").then_some(Self::Rest),
        };
        part.ok_or_else(|| damaged(&name, "its name"))
    }
}

fn pool_named(name: &str) -> Option<Part> {
    match Pool::named(name)? {
        (pool, "") => Some(Part::Pool(pool)),
        (pool, ring) => Some(Part::PoolRing(pool, ring.parse().ok()?)),
    }
}

impl Record {
    pub fn part(&self) -> Part {
        match &self.0 {
            Content::Pool(pool, _) => Part::Pool(pool.clone()),
            Content::PoolRing(pool, ring, _) => Part::PoolRing(pool.clone(), *ring),
            Content::Node(name, _) => Part::Node(name.clone()),
            Content::Rest(_) => Part::Rest,
        }
    }

    /// The record's bytes, made in `buffer`; `None` for a part that is gone.
    pub fn bytes<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        match &self.0 {
            Content::Pool(pool, pools) => pack(POOL_VERSION, &pools.get(pool)?.head(), buffer),
            Content::PoolRing(pool, ring, pools) => {
                pack(POOL_VERSION, &pools.get(pool)?.ring(*ring)?, buffer);
            }
            Content::Node(_, node) => pack(NODE_VERSION, &**node.as_ref()?, buffer),
            Content::Rest(rest) => pack(REST_VERSION, &**rest, buffer),
        }
        Some(buffer)
    }
}

fn pack<T: Serialize>(version: u16, value: &T, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.resize(FRAME_BYTES, 0);
    rmp_serde::encode::write_named(buffer, value)
        .expect("the state holds only maps, numbers and text, which MessagePack can express");
    let checksum = crc32fast::hash(&buffer[FRAME_BYTES..]);
    buffer[..2].copy_from_slice(&version.to_be_bytes());
    buffer[2..FRAME_BYTES].copy_from_slice(&checksum.to_be_bytes());
}

pub(super) fn unpack<T: DeserializeOwned>(part: &Part, bytes: &[u8]) -> Result<T, Unusable> {
    let Some((frame, body)) = bytes.split_first_chunk::<FRAME_BYTES>() else {
        return Err(damaged(part, "too short"));
    };
    let version = u16::from_be_bytes([frame[0], frame[1]]);

    // The checksum covers the body alone, so that another version can be distinguished from damage.
    if crc32fast::hash(body).to_be_bytes() != frame[2..] {
        return Err(damaged(part, "its checksum does not fit"));
    }

    let (record, reads) = (part.to_string(), part.version());

    match version {
        0 => Err(damaged(part, "its version was never in use")),
        _ if version < reads => Err(Unusable::Older { record, version }),
        _ if version > reads => Err(Unusable::Newer { record, version, reads }),
        _ => rmp_serde::from_slice(body).map_err(|e| damaged(part, &e.to_string())),
    }
}

pub(super) fn damaged(record: &impl fmt::Display, what: &str) -> Unusable {
    Unusable::Damaged { record: record.to_string(), what: what.to_owned() }
}

/// The state beside nodes and pools.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rest {
    pub mesh: MeshName,
    /// When it was taken.
    pub at: Wall,
    /// Up to when rules had been judged, and the pauses of operations.
    pub evaluator: StoredEvaluator,
    /// Positions, and what could not be decoded.
    pub ingest: StoredIngest,
    /// Counts, and how many records there must be.
    pub fleet: StoredFleet,
    /// Alerts, silences and what is to be delivered.
    pub alerting: StoredAlerting,
    /// The history's latest batch when it was taken; 0 without a history.
    pub history_generation: u64,
    /// Runs; none in a record from before there were any.
    #[serde(default)]
    pub runs: StoredRuns,
    /// What was reported to an aggregator above, of one that reads a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<StoredShard>,
}
