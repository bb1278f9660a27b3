//! What nodes are told of their messages: those that a checkpoint just written holds, so that
//! they need not keep them any longer, and with it the limits of the operations that are judged,
//! so that they count samples over them. Says nothing that a restored core would not know, and
//! does not send; the driver does, as often as it likes, for any one may be lost.

use crate::limits::READ_LATE_MAX;
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::limits::wire::{CONFIRMED_LIMITS_MAX, LIMITS_MAX};
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::confirmation::{Confirmation, Confirmed, encode};

use crate::core::Core;
use crate::core::durable::Changes;
use crate::core::ingest::progress::{Progress, ReadUpTo};

/// What one node is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The node.
    pub node: NodeName,
    /// The moment, on this process's clock, by which all that was stored in the streams is in it.
    as_of: Mono,
    behind: bool,
    runs: Vec<Confirmed>,
}

/// What became of confirmations, for the aggregator's own metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfirmationFigures {
    /// Handed to the connection.
    pub sent: u64,
    /// Replaced by a newer one, or let go without a connection, before that.
    pub unsent: u64,
}

impl Told {
    /// What was merged of a node by `now`, when the streams had been read up to `read`.
    fn new(node: &NodeName, now: Mono, read: ReadUpTo, runs: Vec<Confirmed>) -> Self {
        let as_of = read.as_of(now);
        let behind = as_of.is_none_or(|as_of| now.since(as_of) > READ_LATE_MAX);
        Self { node: node.clone(), as_of: as_of.unwrap_or(now), behind, runs }
    }

    /// The bytes that say it now, with the limits that hold now. A node compares what it holds
    /// with what was so some time ago, so it is told for how long this has been on its way.
    #[must_use]
    pub fn encode(&self, now: Mono, limits: &[(Operation, u64)]) -> Vec<u8> {
        let (node, runs, limits) = (self.node.clone(), self.runs.clone(), limits.to_vec());
        let age = now.since(self.as_of);
        encode(&Confirmation { node, behind: self.behind, age, runs, limits })
    }
}

#[cfg(test)]
impl Told {
    /// That nothing of a node is stored.
    pub(crate) fn of_nothing(node: NodeName) -> Self {
        Self { node, as_of: Mono(0), behind: false, runs: Vec::new() }
    }
}

impl Changes {
    /// What to tell every node that these changes hold, which were taken at `as_of`. To be told
    /// only once they are stored. Takes a while for many nodes: not for the driver's thread.
    #[must_use]
    pub fn confirmations(&self, as_of: Mono) -> Vec<Told> {
        let present = self.nodes().filter_map(|(name, node)| Some((name, node?)));
        let told = present.map(|(name, node)| {
            Told::new(name, as_of, self.read_up_to(), node.account.confirmed())
        });
        told.collect()
    }
}

impl Core {
    /// Up to when all lanes have been read.
    pub(crate) fn read_up_to(&self) -> ReadUpTo {
        self.lanes.values().map(Progress::read_up_to).min().unwrap_or(ReadUpTo::Never)
    }

    /// Whether messages that nobody has read may wait in a stream.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.lanes.values().all(Progress::has_read_all)
    }

    /// What every node is told of limits, in nanoseconds: those of all budgets, by operation,
    /// whatever the budgets select. Of too many the first, in the order of the rules.
    #[must_use]
    pub fn limits(&self) -> Vec<(Operation, u64)> {
        let mut limits: Vec<(Operation, u64)> = Vec::new();
        for Budget { operation, limit_ns, .. } in &self.rules.budgets {
            let of_same = || limits.iter().filter(|(known, _)| known == operation);
            let is_new = of_same().all(|(_, known_ns)| known_ns != limit_ns);
            let has_room = of_same().count() < LIMITS_MAX && limits.len() < CONFIRMED_LIMITS_MAX;
            if is_new && has_room {
                limits.push((operation.clone(), *limit_ns));
            }
        }
        limits
    }

    /// Every node that is not hidden is told with the next checkpoint, even if nothing else about
    /// it has changed: to be called when the rules are others than before.
    pub fn tell_limits_anew(&mut self) {
        let shown = self.nodes.iter().filter(|(_, node)| !node.hidden);
        shown.for_each(|(name, _)| self.unsaved.touch_node(name));
    }

    /// What to tell a node where what is in memory counts as stored.
    #[must_use]
    pub fn told_from_memory(&self, name: &NodeName, now: Mono) -> Option<Told> {
        let runs = self.nodes.get(name)?.account.confirmed();
        Some(Told::new(name, now, self.read_up_to(), runs))
    }
}

#[cfg(test)]
mod tests;
