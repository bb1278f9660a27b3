//! What the aggregator counts of its own work. A read view and the pages share it as it is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Wall;

use crate::core::alerting::{NotificationCounts, ReceiverStats};
use crate::core::captures::CaptureLedger;
use crate::core::durable::shard::ShardCounts;
use crate::core::fleet::MergeCounts;
use crate::core::ingest::{BrokerHealth, Recoveries};

#[derive(Clone, Debug, Default)]
pub struct OwnCounts {
    pub merged: MergeCounts,
    /// Messages that could not be decoded, by reason.
    pub undecodable: BTreeMap<Cow<'static, str>, u64>,
    pub notifications: NotificationCounts,
    /// What became of events beside them.
    pub notification_events: NotificationCounts,
    /// What became of notifications, by receiver.
    pub receivers: Vec<ReceiverStats>,
    /// Messages still to be read, by lane.
    pub pending: Vec<(Lane, u64)>,
    pub broker: BrokerHealth,
    /// How long backlogs lasted, by lane.
    pub recoveries: Vec<(Lane, Recoveries)>,
    pub checkpoints: CheckpointStats,
    /// Samples that the history had no room for; `None` when none is kept.
    pub history_dropped: Option<u64>,
    /// Values of jobs' metrics that it had no room for.
    pub history_dropped_values: Option<u64>,
    /// What became of requests of nodes' own histories.
    pub asks: AskCounts,
    /// What became of captures.
    pub captures: CaptureLedger,
    /// Files of profiles that could not be used; `None` when no profile is kept.
    pub profiles_quarantined: Option<u64>,
    /// Reports to an aggregator above; `None` unless it reads one partition.
    pub shard: Option<ShardCounts>,
    pub confirmations: ConfirmationStats,
    /// What became of the files that rules come from.
    pub rule_files: RuleFileStats,
    pub task_restarts: BTreeMap<&'static str, u64>,
    pub broker_faults: BTreeMap<&'static str, u64>,
    /// Published advisories about the version of the connected broker, if it is known.
    pub broker_advisories: Option<usize>,
}

/// What became of requests of nodes' own histories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskCounts {
    pub answered: u64,
    pub refused: u64,
    /// Answered with what is no answer to the request.
    pub invalid: u64,
    /// Not answered in time, or not sent.
    pub missing: u64,
    /// Responses to no request, or to one that was given up.
    pub unexpected: u64,
}

/// What became of the files that rules come from. They only grow, but for the last two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFileStats {
    /// Times that other rules were taken.
    pub loaded: u64,
    /// Times that files were read and held the same rules.
    pub unchanged: u64,
    /// Times that something was wrong with them.
    pub refused: u64,
    /// When rules were last read that were right.
    pub loaded_at: Wall,
    /// What is wrong with the files now.
    pub error: Option<String>,
}

impl RuleFileStats {
    pub fn at_start(now: Wall) -> Self {
        Self { loaded: 1, loaded_at: now, ..Self::default() }
    }
}

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
    /// Values of metrics that it had no series for.
    pub history_dropped_values: u64,
    pub failures: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfirmationStats {
    /// Handed to the connection.
    pub sent: u64,
    /// Replaced by a newer one, or dropped without a connection, before that.
    pub unsent: u64,
}
