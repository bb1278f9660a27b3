//! The ledger, in which every sample is merged, held, or lost for a named reason, and its page of
//! the API, `/api/v1/ledger`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::delivery::LOSS_REASONS_MAX;

/// Sums in which every sample is merged, held, or lost for a named reason.
///
/// `recorded + surplus = merged + held + unaccounted + unread + sum(lost)`, always.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Ledger {
    /// Samples that the node put into snapshots.
    pub recorded: u64,
    /// Samples merged here.
    pub merged: u64,
    /// Samples in snapshots that are still to come: in the node's outbox or in the broker.
    pub held: u64,
    /// Samples missing from an incarnation that has ended, for a reason that is not known yet: they
    /// may be unread in a stream, in a spool, or gone.
    pub unaccounted: u64,
    /// Samples in snapshots older than the oldest one that was read: the stream dropped them, or
    /// they were published before the aggregator started.
    #[serde(default)]
    pub unread: u64,
    /// Samples merged or lost beyond what the node recorded: messages of another sender under its
    /// name were merged. 0 of an honest node.
    #[serde(default)]
    pub surplus: u64,
    /// Samples that the node dropped, by reason. `crash` is what an incarnation that ended without
    /// a final message had reported and no process holds.
    pub lost: BTreeMap<String, u64>,
    /// Incarnations that ended without a final message of their own. Not in the sum.
    #[serde(default)]
    pub crashed_runs: u64,
    /// Nanoseconds of which nothing is known, so they are in no figure above: from the last report
    /// of each incarnation that crashed, if no successor found a spool of it, to the start of the
    /// node's next incarnation.
    #[serde(default)]
    pub unknown_ns: u64,
}

impl Ledger {
    /// Adds other sums; reasons beyond the bound count as `other`.
    pub fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.recorded, other.recorded),
            (&mut self.merged, other.merged),
            (&mut self.held, other.held),
            (&mut self.unaccounted, other.unaccounted),
            (&mut self.unread, other.unread),
            (&mut self.surplus, other.surplus),
            (&mut self.crashed_runs, other.crashed_runs),
            (&mut self.unknown_ns, other.unknown_ns),
        ];

        for (sum, n) in sums {
            *sum = sum.saturating_add(n);
        }

        for (reason, n) in &other.lost {
            let known = self.lost.len() < LOSS_REASONS_MAX || self.lost.contains_key(reason);
            let reason = if known { reason.as_str() } else { "other" };
            let sum = self.lost.entry(reason.to_owned()).or_default();
            *sum = sum.saturating_add(*n);
        }
    }

    /// True when every sample is merged or lost for a stated reason, and none is there that was not
    /// recorded.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.held == 0 && self.unaccounted == 0 && self.unread == 0 && self.surplus == 0
    }
}

/// The ledger page of the API: every ledger entry in full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct LedgerPage {
    /// The mesh.
    pub mesh: String,
    /// Time of the page, in seconds since 1970.
    pub at_seconds: f64,
    /// False during the catch-up after a start.
    pub ready: bool,
    /// True while a stream holds messages that were not read yet; their samples count as held, or
    /// as unaccounted if their incarnation has ended.
    pub behind: bool,
    /// All nodes together: those of `nodes`, and `evicted`.
    pub fleet: Ledger,
    /// Every node that has sent a message and was not evicted.
    pub nodes: Vec<NodeLedger>,
    /// Sum of the nodes that are no longer listed: silent for days, or evicted for lack of room.
    #[serde(default)]
    pub evicted: Ledger,
}

/// The ledger entry of one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NodeLedger {
    /// Its name.
    pub node: String,
    /// Over all incarnations.
    pub ledger: Ledger,
    /// Samples missing below its newest message for longer than a resend takes.
    pub gap_samples: u64,
    /// Messages that had been merged before.
    pub duplicates: u64,
    /// Messages that two nodes of this name must have sent.
    pub duplicate_names: u64,
    /// Its latest incarnations, in order of their names.
    pub runs: Vec<IncarnationLedger>,
    /// All earlier ones.
    pub past: Ledger,
}

/// The ledger entry of one incarnation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "RunLedger"))]
pub struct IncarnationLedger {
    /// Its name: when it started, in nanoseconds since 1970.
    pub incarnation: u64,
    /// The highest seq received.
    pub newest_seq: u64,
    /// Its samples.
    pub ledger: Ledger,
    /// Numbers missing below the highest one.
    pub missing_seqs: u64,
    /// First and last of each span of missing numbers, the latest spans.
    pub holes: Vec<(u64, u64)>,
    /// Messages that had been merged before.
    pub duplicates: u64,
    /// True once a later incarnation has started, its final message has arrived, or the aggregator
    /// has closed it after a crash.
    pub ended: bool,
    /// True when its final message has arrived, from itself or from its successor.
    pub left_in_order: bool,
    /// The incarnation that sent the final message for it, after a crash.
    pub successor: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_loss_are_bounded_and_all_samples_kept() {
        let mut sum = Ledger::default();
        for reason in 0..2 * LOSS_REASONS_MAX {
            let lost = BTreeMap::from([(format!("r{reason}"), 1)]);
            sum.add(&Ledger { lost, ..Ledger::default() });
        }
        assert_eq!(sum.lost.len(), LOSS_REASONS_MAX + 1);
        assert_eq!(sum.lost.values().sum::<u64>(), 2 * LOSS_REASONS_MAX as u64);
    }
}
