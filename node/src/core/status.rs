//! A node's figures, as its own pages and logs show them.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::wire::{Bus, Totals};

use super::breaker::BreakerState;
use super::custody::SpoolFigures;
use super::intake::figures::IntakeFigures;
use super::intake::otlp::figures::OtlpFigures;

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
    pub intake: IntakeFigures,
    /// What came as OTLP.
    pub otlp: OtlpFigures,
    /// What was sealed into snapshots, and of that lost.
    pub totals: Totals,
    /// Samples in messages that the broker has not acknowledged.
    pub held_samples: u64,
    /// Samples in messages that no aggregator has confirmed yet.
    pub entrusted_samples: u64,
    /// Bytes of those messages.
    pub entrusted_bytes: usize,
    /// Events and service checks given up before they were sent, by reason.
    pub events_lost: BTreeMap<&'static str, u64>,
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
    /// Limits over which samples are counted exactly, in nanoseconds.
    pub limits: Vec<(Operation, u64)>,
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
