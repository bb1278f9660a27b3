//! Confirmations: what nodes are sent about their messages once a checkpoint holds them. A node
//! then evicts those messages. A confirmation also carries the limits by which the node counts
//! samples. It holds nothing that a restored core would not hold. Any of them may be lost: the
//! driver sends them repeatedly.
//!
//! DESIGN A23.

use std::time::Duration;

use crate::limits::READ_LATE_MAX;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::confirmation::{
    Confirmation, ConfirmedIncarnation, LatencyLimit, encode,
};

use crate::core::ingest::ReadUpTo;

/// A confirmation that is still to be sent to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingConfirmation {
    /// The node.
    pub node: NodeName,
    /// The time, on this process's clock, up to which the checkpoint holds all that the streams
    /// stored.
    as_of: Mono,
    /// Whether the streams hold what was not read.
    pub behind: bool,
    /// How far behind the end of the streams reading was.
    backlog: Duration,
    runs: Vec<ConfirmedIncarnation>,
}

impl PendingConfirmation {
    /// What was merged of a node by `now`, when the streams had been read up to `read`.
    #[must_use]
    pub fn new(
        node: &NodeName,
        now: Mono,
        read: ReadUpTo,
        runs: Vec<ConfirmedIncarnation>,
    ) -> Self {
        let as_of = read.as_of(now);
        let behind = as_of.is_none_or(|as_of| now.since(as_of) > READ_LATE_MAX);
        let backlog = as_of.map_or(READ_LATE_MAX, |as_of| now.since(as_of));
        Self { node: node.clone(), as_of: as_of.unwrap_or(now), behind, backlog, runs }
    }

    /// Its bytes now, with the limits that hold now. A node compares what it holds with a state of
    /// some time ago, so the bytes carry the age of that state.
    #[must_use]
    pub fn encode(&self, now: Mono, limits: &[LatencyLimit]) -> Vec<u8> {
        let (node, runs, limits) = (self.node.clone(), self.runs.clone(), limits.to_vec());
        let age = now.since(self.as_of);
        let Self { behind, backlog, .. } = *self;
        encode(&Confirmation { node, behind, backlog, age, runs, limits })
    }
}

#[cfg(test)]
impl PendingConfirmation {
    /// That nothing of a node is stored.
    pub(crate) fn of_nothing(node: NodeName) -> Self {
        let backlog = Duration::ZERO;
        Self { node, as_of: Mono(0), behind: false, backlog, runs: Vec::new() }
    }
}
