//! Durable: the core's state as records that outlive the process, and back.
//!
//! Owns the state of the store: whether its content is right, and the pools as they were when last
//! taken. It collects a part from each room and writes no file; `io::store` does. A checkpoint is
//! the state after exactly the messages up to its positions. Reading on from there leads to the
//! same state as reading everything. There is one record for each node, one for each ring of each
//! [`Pool`](super::fleet::Pool), and one for the rest, positions included; a store writes them
//! together or not at all. Ten thousand nodes are a gigabyte of records, so they are made one
//! after the other.
//!
//! [`shard`] keeps what a partition's aggregator reports to one above, which is stored here and
//! there.
//!
//! Interface: [`Durable::checkpoint`] returns [`Changes`]; [`Partial`] reads records back into a
//! [`Checkpoint`]; [`Changes::confirmations`] returns what nodes may be sent once they are stored.
//!
//! DESIGN A19.

mod changes;
mod checkpoint;
mod confirmations;
mod record;
mod rest;
pub mod shard;
mod stats;

use std::sync::Arc;

use crate::limits::BUDGETS_RECORD_EVERY;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::time::Wall;

pub use changes::Changes;
pub use checkpoint::{Checkpoint, Partial, Readout, StoredRecords};
pub use confirmations::{CommonTerms, PendingConfirmation};
#[cfg(test)]
pub(in crate::core) use record::{NODE_VERSION, POOL_VERSION, REST_VERSION};
pub use record::{Part, Record, Unusable};
pub use rest::Rest;
pub use stats::{CheckpointStats, ConfirmationStats};

use super::alerting::{AlertsRecord, StoredAlerting};
use super::fleet::{BudgetsRecord, FleetChanges, Pools};
use super::history::HistoryBatch;
use super::ingest::{ReadUpTo, StoredIngest};
use super::rules::StoredEvaluator;
use super::runs::StoredRuns;
use shard::StoredShard;

/// What is known of the store.
#[derive(Debug)]
pub struct Durable {
    /// Nothing stored is known to be right: all of it is to be written.
    everything: bool,
    /// The pools as they were when the last checkpoint was taken, if that is what is stored.
    pools: Option<Arc<Pools>>,
    /// Whether the alerts record has been written by this process: a former program may not have.
    has_alerts_record: bool,
    /// When the record of error budgets was last written by this process.
    budgets_at: Option<Wall>,
}

/// The part of each room in a checkpoint.
#[derive(Debug)]
pub struct Parts {
    /// When it was taken.
    pub at: Wall,
    /// Up to when all lanes had been read.
    pub read_up_to: ReadUpTo,
    /// Up to when rules had been judged, and the pauses of operations.
    pub evaluator: StoredEvaluator,
    /// Of `ingest`.
    pub ingest: StoredIngest,
    /// Of `fleet`.
    pub fleet: FleetChanges,
    /// Of `alerting`.
    pub alerting: StoredAlerting,
    /// What receivers are owed, if it is to be written.
    pub alerts: Option<AlertsRecord>,
    /// What is left of error budgets, if it is to be written.
    pub budgets: Option<BudgetsRecord>,
    /// What the history adds, and the generation that it then has.
    pub history: (Option<Arc<HistoryBatch>>, u64),
    /// Of `runs`.
    pub runs: StoredRuns,
    /// Of `shard`.
    pub shard: Option<StoredShard>,
}

impl Default for Durable {
    fn default() -> Self {
        Self { everything: true, pools: None, has_alerts_record: false, budgets_at: None }
    }
}

impl Durable {
    /// A store that holds what was restored.
    pub fn restored(pools: Pools) -> Self {
        Self { everything: false, pools: Some(Arc::new(pools)), ..Self::default() }
    }

    /// Whether the next checkpoint has to write everything.
    pub fn needs_everything(&self) -> bool {
        self.everything
    }

    /// Whether the next checkpoint has to write the alerts record whether or not it has changed.
    pub fn needs_alerts_record(&self) -> bool {
        !self.has_alerts_record
    }

    /// Whether the next checkpoint has to write what is left of error budgets.
    pub fn needs_budgets_record(&self, now: Wall) -> bool {
        let is_new = |at: Wall| now >= at && now.since(at) < BUDGETS_RECORD_EVERY;
        !self.budgets_at.is_some_and(is_new)
    }

    /// Counts everything as stored, without a checkpoint.
    pub fn clear(&mut self) {
        *self = Self { everything: false, ..Self::default() };
    }

    /// What has changed since this was last called.
    pub fn checkpoint(&mut self, mesh: MeshName, parts: Parts) -> Changes {
        let Parts { at, read_up_to, evaluator, ingest, fleet, alerting, history, runs, .. } = parts;
        let Parts { alerts, budgets, shard, .. } = parts;
        let (history, history_generation) = history;
        let pools = Arc::new(fleet.pools);
        let pools_before = self.pools.replace(Arc::clone(&pools));
        self.everything = false;
        self.has_alerts_record |= alerts.is_some();
        self.budgets_at = budgets.as_ref().map(|of| of.at).or(self.budgets_at);
        Changes {
            everything: fleet.everything,
            read_up_to,
            nodes: fleet.nodes,
            pools,
            pools_before,
            rest: Rest {
                mesh,
                at,
                evaluator,
                ingest,
                fleet: fleet.rest,
                alerting,
                history_generation,
                runs,
                shard,
            },
            history,
            alerts,
            budgets,
        }
    }

    /// Changes taken may not have been stored: the next ones are everything.
    pub fn on_changes_lost(&mut self) {
        *self = Self::default();
    }
}
