//! What became of checkpoints and confirmations, for the aggregator's own metrics.

use std::collections::BTreeMap;

use plimsoll_schemas::time::Wall;

/// What became of checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStats {
    /// Whether there is a store at all.
    pub kept: bool,
    /// Whether nodes get confirmations: of what is in the store, or of what is in memory.
    pub confirms: bool,
    /// When the latest one in the store was taken.
    pub at: Option<Wall>,
    /// Bytes of the records that the latest write wrote.
    pub bytes: u64,
    pub written: u64,
    /// Samples that the history file had no series for.
    pub history_dropped: u64,
    pub failures: BTreeMap<&'static str, u64>,
}

/// What became of confirmations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfirmationStats {
    /// Handed to the connection.
    pub sent: u64,
    /// Replaced by a newer one, or dropped without a connection, before that.
    pub unsent: u64,
}
