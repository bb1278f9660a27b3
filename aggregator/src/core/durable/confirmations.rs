//! Confirmations: what nodes are sent about their messages once a checkpoint holds them. A node
//! then evicts those messages. A confirmation also carries the limits by which the node counts
//! samples, and what is urgent. It holds nothing that a restored core would not hold. Any of them
//! may be lost: the driver sends them repeatedly.
//!
//! DESIGN A23.

use std::time::Duration;

use crate::limits::READ_BEHIND_MAX;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::urgency::DeclaredUrgency;
use plimsoll_schemas::wire::confirmation::{
    Confirmation, ConfirmedIncarnation, LatencyLimit, encode,
};

use crate::core::fleet::Node;
use crate::core::ingest::ReadUpTo;

/// What the confirmations to all nodes have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonTerms {
    /// The limits that nodes count samples by.
    pub limits: Vec<LatencyLimit>,
    /// What the rules declare urgent.
    pub urgent: Vec<DeclaredUrgency>,
    pub mesh_nodes: u32,
}

/// A confirmation that is still to be sent to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingConfirmation {
    pub node: NodeName,
    /// The time, on this process's clock, up to which the checkpoint holds all that the streams
    /// stored.
    as_of: Mono,
    /// Whether the streams hold what was not read.
    pub behind: bool,
    /// How far behind the end of the streams reading was.
    backlog: Duration,
    incarnations: Vec<ConfirmedIncarnation>,
    readings_missing: bool,
    /// Whether the aggregator confirms nothing.
    withheld: bool,
}

impl PendingConfirmation {
    /// What was merged of a node by `now`, when the streams had been read up to `read`.
    pub fn new(name: &NodeName, now: Mono, read: ReadUpTo, node: &Node) -> Self {
        let (incarnations, readings_missing) =
            (node.account.confirmed(), node.readings.are_missing());
        let as_of = read.as_of(now);
        let behind = as_of.is_none_or(|as_of| now.since(as_of) > READ_BEHIND_MAX);
        let backlog = as_of.map_or(READ_BEHIND_MAX, |as_of| now.since(as_of));
        let as_of = as_of.unwrap_or(now);
        let (node, withheld) = (name.clone(), false);
        Self { node, as_of, behind, backlog, incarnations, readings_missing, withheld }
    }

    /// The same from an aggregator that keeps no state: it confirms nothing, and reports nothing
    /// missing. To a node of an earlier version it seems far behind, and nothing is removed.
    pub fn withheld(self) -> Self {
        Self { incarnations: Vec::new(), behind: true, withheld: true, ..self }
    }

    /// What is sent now, with what holds for all nodes now. A node compares what it holds with a
    /// state of some time ago, so it has the age of that state.
    pub fn confirmation(&self, now: Mono, common: &CommonTerms) -> Confirmation {
        let CommonTerms { limits, urgent, mesh_nodes } = common.clone();
        let (node, incarnations) = (self.node.clone(), self.incarnations.clone());
        let age = now.since(self.as_of);
        let Self { behind, backlog, readings_missing, withheld, .. } = *self;

        Confirmation {
            node,
            behind,
            backlog,
            age,
            incarnations,
            limits,
            urgent,
            mesh_nodes,
            readings_missing,
            withheld,
            issue: None,
        }
    }

    /// The bytes of that, without issuer and signature.
    pub fn encode(&self, now: Mono, common: &CommonTerms) -> Vec<u8> {
        encode(&self.confirmation(now, common))
    }
}

#[cfg(test)]
impl PendingConfirmation {
    /// That nothing of a node is stored.
    pub(crate) fn of_nothing(node: NodeName) -> Self {
        let backlog = Duration::ZERO;
        let (incarnations, readings_missing, withheld) = (Vec::new(), false, false);
        Self {
            node,
            as_of: Mono(0),
            behind: false,
            backlog,
            incarnations,
            readings_missing,
            withheld,
        }
    }
}
