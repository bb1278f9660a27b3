//! What the aggregator counts of its own work. A read view and the pages share it as it is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use plimsoll_schemas::subject::Lane;

use crate::core::alerting::{NotificationCounts, ReceiverStats};
use crate::core::durable::shard::ShardCounts;
use crate::core::durable::{CheckpointStats, ConfirmationStats};
use crate::core::fleet::MergeCounts;
use crate::core::ingest::{BrokerHealth, Recoveries};
use crate::core::rules::RuleFileStats;

/// Counts of the aggregator's own work.
#[derive(Clone, Debug)]
pub struct OwnCounts {
    /// Counts of what was merged and what was not.
    pub merged: MergeCounts,
    /// Messages that could not be decoded, by reason.
    pub undecodable: BTreeMap<Cow<'static, str>, u64>,
    /// What became of notifications.
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
    /// What became of checkpoints.
    pub checkpoints: CheckpointStats,
    /// Samples that the history had no room for; `None` when none is kept.
    pub history_dropped: Option<u64>,
    /// What became of requests of nodes' own histories.
    pub asks: AskCounts,
    /// Reports to an aggregator above; `None` unless it reads one partition.
    pub shard: Option<ShardCounts>,
    /// What became of confirmations.
    pub confirmations: ConfirmationStats,
    /// What became of the files that rules come from.
    pub rule_files: RuleFileStats,
    /// Restarts of tasks and threads, by task.
    pub task_restarts: BTreeMap<&'static str, u64>,
    /// Faults of the connection to the broker, by cause.
    pub broker_faults: BTreeMap<&'static str, u64>,
    /// Published advisories about the version of the connected broker, if it is known.
    pub broker_advisories: Option<usize>,
}

/// What became of requests of nodes' own histories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskCounts {
    pub answered: u64,
    /// Refused by the node.
    pub refused: u64,
    /// Answered with what is no answer to the request.
    pub invalid: u64,
    /// Not answered in time, or not sent.
    pub missing: u64,
    /// Responses to no request, or to one that was given up.
    pub unexpected: u64,
}
