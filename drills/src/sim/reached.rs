//! "Sometimes" checks: a simulation that reaches no branch finds nothing, so each kind of fault
//! and each branch is counted, and over many seeds no count may stay at zero.
//!
//! DESIGN D7.

use std::collections::BTreeMap;

/// Everything that many seeds together must have seen.
pub const DEMANDED: [&str; 78] = [
    "load",
    "connection broken",
    "partition",
    "partition, only answers pass",
    "partition, only requests pass",
    "network slow",
    "broker stopped",
    "broker killed",
    "broker without power",
    "broker loses acknowledged messages",
    "broker's store wiped",
    "broker full",
    "acknowledgements lost",
    "stream deleted",
    "stream recreated before its consumer",
    "node terminated",
    "node killed",
    "node without power",
    "aggregator terminated",
    "aggregator killed",
    "aggregator without power",
    "clock set",
    "disk full",
    "hand-over jammed",
    "process stopped",
    "confirmation forged",
    "confirmation for another node",
    "confirmation garbled",
    "forgery refused",
    "confirmations slow",
    "confirmation overtaken",
    "aggregator's store backed up",
    "aggregator's store rolled back",
    "ledger gap reported",
    "ledger gap closed",
    "breaker closed again",
    "aggregator away for a day",
    "node expired",
    "two aggregators",
    "a stateless aggregator beside one with a store",
    "stall reported",
    "lost connection reported",
    "message lost on the way",
    "message read from a dead connection",
    "duplicate recognised by the broker",
    "message declined",
    "message refused",
    "dead letter stored",
    "sent again",
    "drafts merged",
    "sent by the emergency lane",
    "waited for a token",
    "dropped",
    "samples without room",
    "critical message sent before a backlog",
    "declared critical, so it went at once",
    "only the emergency lane sent",
    "breaker open",
    "breaker half-open",
    "duplicate rejected by the ledger",
    "late sample",
    "restored from a checkpoint",
    "checkpoint failed",
    "confirmed",
    "resent for lack of a confirmation",
    "evicted without a confirmation",
    "confirmation lost",
    "spool failed",
    "killed without a spool file",
    "spool found",
    "spool torn",
    "spool in doubt",
    "frame answered after its note",
    "frame sent again to a successor",
    "frame left unread",
    "crash report",
    "ended while holding",
    "stream reset",
];

/// How often each was seen.
#[derive(Clone, Debug, Default)]
pub struct Reached(BTreeMap<&'static str, u64>);

impl Reached {
    pub fn reach(&mut self, name: &'static str) {
        self.reach_n(name, 1);
    }

    /// It was seen this many times.
    pub fn reach_n(&mut self, name: &'static str, n: u64) {
        debug_assert!(DEMANDED.contains(&name), "{name:?} is not in the list");
        if n > 0 {
            *self.0.entry(name).or_default() += n;
        }
    }

    /// Adds what another run saw.
    pub fn add(&mut self, other: &Self) {
        for (name, n) in &other.0 {
            *self.0.entry(name).or_default() += n;
        }
    }

    /// All that there is, with how often it was seen.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DEMANDED.into_iter().map(|name| (name, self.0.get(name).copied().unwrap_or(0)))
    }

    /// What was never seen.
    pub fn unread(&self) -> Vec<&'static str> {
        self.all().filter(|(_, n)| *n == 0).map(|(name, _)| name).collect()
    }
}
