//! The JSON of `/api/v1/backpressure`: what waits on its way from nodes to the aggregator.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ledger::Ledger;
use super::page::Presence;

/// What waits, and what became of every sample and message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BackpressurePage {
    /// The mesh.
    pub mesh: String,
    /// Time of the page, in seconds since 1970.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// State of the connection to the broker.
    pub broker: String,
    /// Unread messages in the streams, by lane.
    pub pending: BTreeMap<String, u64>,
    /// The ledger of the fleet.
    pub ledger: Ledger,
    /// The outboxes of all nodes that report, added up; maxima are the highest.
    pub outboxes: OutboxRow,
    /// Nodes that report, by the state of their circuit breaker.
    pub breakers: BTreeMap<String, u64>,
    /// Nodes that report and send the emergency lane alone.
    pub conservative: u64,
    /// Nodes with the fullest outboxes, or with messages rerouted or dropped, the worst first.
    pub nodes: Vec<NodeOutbox>,
}

/// The outbox of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NodeOutbox {
    /// Its name.
    pub node: String,
    /// Whether it reports.
    pub presence: Presence,
    /// `closed`, `half_open` or `open`; `None` if it has no breaker.
    pub breaker: Option<String>,
    /// Whether it sends the emergency lane alone.
    pub conservative: bool,
    /// What is in its outbox and what went through it.
    pub outbox: OutboxRow,
}

/// An outbox as last reported. `attempted = published + dropped + refused + coalesced + combined +
/// outbox_messages` on the node itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "Outbox"))]
pub struct OutboxRow {
    /// Messages made.
    pub attempted: u64,
    /// Messages that the broker has acknowledged.
    pub published: u64,
    /// Published messages that an aggregator has confirmed as stored.
    pub confirmed: u64,
    /// Published messages whose copy is kept until an aggregator confirms them.
    pub unconfirmed: u64,
    /// Messages sent in the emergency lane.
    pub rerouted: u64,
    /// Messages that had to wait for a token of the emergency lane.
    pub rate_limited: u64,
    /// Messages dropped because the outbox was full.
    pub dropped: u64,
    /// Messages that the broker can never take.
    pub refused: u64,
    /// Messages merged into a neighbour before they were sent.
    pub coalesced: u64,
    /// Messages that travelled as a part of another message.
    pub combined: u64,
    /// Messages sent once more because no acknowledgement came.
    pub retried: u64,
    /// Messages that wait; what was merged is one.
    pub messages: u64,
    /// Messages that wait, as they were produced.
    pub depth: u64,
    /// The highest depth in the last interval.
    pub depth_max: u64,
    /// Bytes that wait.
    pub bytes: u64,
    /// Age of the oldest message that waits.
    pub age_seconds: f64,
    /// The highest of depth, bytes and age on the way to the node's own marks: from 0.5 on
    /// messages are rerouted, at 1 they are dropped.
    pub pressure: f64,
}
