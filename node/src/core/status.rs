//! A node's figures, as its own pages and logs show them.

use std::collections::BTreeMap;

use plimsoll_schemas::wire::{Bus, Totals};

use super::breaker::BreakerState;
use super::custody::SpoolFigures;
use super::dogstatsd::Reject;

/// Counts that only ever grow, for the node's own metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// Datagrams read.
    pub datagrams: u64,
    /// Values taken (a packed line holds several).
    pub values: u64,
    /// Latency samples taken: values times what each stands for.
    pub samples: u64,
    /// Latencies above one hour, recorded as one hour.
    pub clamped: u64,
    /// Values folded into the series `other`.
    pub overflowed: u64,
    /// Lines refused, by reason.
    pub rejected: BTreeMap<Reject, u64>,
    /// Reads of a socket that failed.
    pub read_errors: u64,
    /// Datagrams that the kernel dropped because a socket was full.
    pub kernel_dropped: u64,
}

/// What aggregators said of this node's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmations {
    /// Confirmations heard and believed.
    pub heard: u64,
    /// Confirmations that could not be read or cannot be true, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

/// A node's figures at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// What came in.
    pub intake: Intake,
    /// What was sealed into snapshots, and of that lost.
    pub totals: Totals,
    /// Samples in messages that the broker has not acknowledged.
    pub held_samples: u64,
    /// Samples in messages that no aggregator has confirmed yet.
    pub entrusted_samples: u64,
    /// Bytes of those messages.
    pub entrusted_bytes: usize,
    /// What aggregators said.
    pub confirmations: Confirmations,
    /// What the broker did not permit.
    pub denials: u64,
    /// What became of the spool; nothing without one.
    pub spool: SpoolFigures,
    /// Messages sent and not yet acknowledged.
    pub in_flight: usize,
    /// Series in the open interval.
    pub series: usize,
    /// Whether messages can be sent.
    pub connected: bool,
    /// Where the breaker stands.
    pub breaker: BreakerState,
    /// True while new messages go by the emergency lane.
    pub rerouting: bool,
    /// True while new messages are dropped.
    pub dropping: bool,
    /// True while only the emergency lane is sent.
    pub conservative: bool,
    /// Messages, as the node tells the aggregator.
    pub bus: Bus,
}
