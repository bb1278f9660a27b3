//! Durable: the core's state as records that outlive the process, and back.
//!
//! Owns the state of the store: whether its content is right, and the pools as they were when last
//! taken. It writes no file; `io::store` does. A checkpoint has a part of each room and is
//! the state after exactly the messages up to its positions. Reading on from there leads to the
//! same state as reading everything. There is one record for each node, one for each ring of each
//! [`Pool`](super::fleet::Pool), and one for the rest, positions included; a store writes them
//! together or not at all. Ten thousand nodes are a gigabyte of records, so they are made one
//! after the other.
//!
//! [`shard`] keeps what a partition's aggregator reports to one above, which is stored here and
//! there.
//!
//! Interface: [`Changes`] are what is to be stored; [`Partial`] reads records back into a
//! [`Checkpoint`]; [`Changes::confirmations`] returns what nodes may be sent once they are stored.
//!
//! DESIGN A19.

mod changes;
mod checkpoint;
mod confirmations;
mod record;
pub mod shard;

use std::sync::Arc;

use crate::limits::BUDGETS_RECORD_EVERY;
use plimsoll_schemas::time::Wall;

pub use changes::Changes;
pub use checkpoint::{Checkpoint, Partial, Readout, StoredRecords};
pub use confirmations::{CommonTerms, PendingConfirmation};
#[cfg(test)]
pub(in crate::core) use record::{NODE_VERSION, POOL_VERSION, REST_VERSION};
pub use record::{Part, Record, Rest, Unusable};

use super::fleet::Pools;

/// What is known of the store.
#[derive(Debug)]
pub struct Durable {
    /// Nothing stored is known to be right: all of it is to be written.
    pub(super) everything: bool,
    /// The pools as they were when the last checkpoint was taken, if that is what is stored.
    pools: Option<Arc<Pools>>,
    /// Whether the alerts record has been written by this process: a former program may not have.
    has_alerts_record: bool,
    /// When the record of error budgets was last written by this process.
    budgets_at: Option<Wall>,
}

impl Default for Durable {
    fn default() -> Self {
        Self { everything: true, pools: None, has_alerts_record: false, budgets_at: None }
    }
}

impl Durable {
    pub fn restored(pools: Pools) -> Self {
        Self { everything: false, pools: Some(Arc::new(pools)), ..Self::default() }
    }

    /// Whether the next checkpoint has to write the alerts record whether or not it has changed.
    pub fn needs_alerts_record(&self) -> bool {
        !self.has_alerts_record
    }

    /// Whether the next checkpoint has to write what is left of error budgets.
    pub fn needs_budgets_record(&self, now: Wall) -> bool {
        // A clock that was set back must not put it off until it has caught up.
        let is_new = |at: Wall| now >= at && now.since(at) < BUDGETS_RECORD_EVERY;
        !self.budgets_at.is_some_and(is_new)
    }

    /// Counts everything as stored, without a checkpoint.
    pub fn clear(&mut self) {
        *self = Self { everything: false, ..Self::default() };
    }

    /// Takes note of changes that are about to be stored.
    pub fn on_taken(&mut self, changes: Changes) -> Changes {
        // Counted as stored from now on, since the next changes are taken before this write has
        // ended. One that fails is followed by everything, see `on_changes_lost`.
        let pools_before = self.pools.replace(Arc::clone(&changes.pools));
        self.everything = false;
        self.has_alerts_record |= changes.alerts.is_some();
        self.budgets_at = changes.budgets.as_ref().map(|of| of.at).or(self.budgets_at);
        Changes { pools_before, ..changes }
    }

    /// Changes taken may not have been stored: the next ones are everything.
    pub fn on_changes_lost(&mut self) {
        *self = Self::default();
    }
}
