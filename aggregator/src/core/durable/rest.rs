//! What is stored beside nodes and pools: each room's own part, in one record.

use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use crate::core::alerting::StoredAlerting;
use crate::core::durable::shard::StoredShard;
use crate::core::fleet::StoredFleet;
use crate::core::ingest::StoredIngest;
use crate::core::rules::StoredEvaluator;
use crate::core::runs::StoredRuns;

/// The state beside nodes and pools.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rest {
    /// The mesh it is about.
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
