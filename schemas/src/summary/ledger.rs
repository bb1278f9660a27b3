//! Every account in full: by node, by incarnation, with what is missing.

use serde::{Deserialize, Serialize};

use super::Ledger;

/// Every account in full, as `/api/v1/ledger` tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerPage {
    /// The mesh.
    pub mesh: String,
    /// The moment, in seconds since 1970.
    pub at_seconds: f64,
    /// False while the stream's past is still being read.
    pub ready: bool,
    /// True while a stream is known to hold what was not read: then that counts as held.
    pub behind: bool,
    /// All nodes together.
    pub fleet: Ledger,
    /// Every node ever heard and not hidden.
    pub nodes: Vec<NodeLedger>,
}

/// The account of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeLedger {
    /// Its name.
    pub node: String,
    /// Over all incarnations.
    pub ledger: Ledger,
    /// Samples missing below its newest message for so long that they do not come by themselves.
    pub gap_samples: u64,
    /// Messages that had been merged before.
    pub duplicates: u64,
    /// Messages that two nodes of this name must have sent.
    pub name_conflicts: u64,
    /// Its latest incarnations, in order of their names.
    pub runs: Vec<RunLedger>,
    /// All earlier ones.
    pub past: Ledger,
}

/// The account of one incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLedger {
    /// Its name.
    pub incarnation: u64,
    /// The greatest number heard.
    pub newest_seq: u64,
    /// Its samples.
    pub ledger: Ledger,
    /// Numbers missing below the greatest one.
    pub missing_seqs: u64,
    /// First and last of each span of them: the latest `limits::aggregator::LEDGER_HOLES_MAX`.
    pub holes: Vec<(u64, u64)>,
    /// Messages that had been merged before.
    pub duplicates: u64,
    /// True once a later incarnation has begun, or the last word of this one was heard.
    pub ended: bool,
    /// True when it said its last word itself, or its heir did.
    pub said_farewell: bool,
    /// The incarnation that spoke the last word for it, after a crash.
    pub heir: Option<u64>,
}
