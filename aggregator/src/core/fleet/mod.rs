//! Fleet.

pub mod buckets;
pub mod catalogue;
pub mod completeness;
pub mod duplicate_names;
pub mod events;
pub mod expiry;
pub mod gaps;
pub mod latency;
pub mod ledger;
pub mod node;
pub mod retention;
pub mod rollup;
pub mod run;
pub mod seqs;
pub mod window;
