//! Limits of the search for stragglers, each with its arithmetic.

use std::time::Duration;

/// What the statistics take as one interval: a second of event time, as most nodes send.
pub const INTERVAL_NS: u64 = 1_000_000_000;
/// Cohorts of all rules: 16 jobs at once for each of four rules. Beyond, those that are over and
/// those that cannot be judged make room.
pub const COHORTS_MAX: usize = 64;
/// Cohorts with peers of one node: two jobs at once for each of four rules. A node that makes up
/// runs or roles has no more, with [`PEERS_OF_NODE_MAX`] an eighth of all peers.
pub const COHORTS_OF_NODE_MAX: usize = 8;
/// Peers of all cohorts. One takes 1.5 KiB with its name, so all take 24 MiB.
pub const COHORT_PEERS_MAX: usize = 16_384;
/// Peers of one node in a cohort: more than any machine has accelerators or cores. What a node
/// makes up beyond takes no room from others.
pub const PEERS_OF_NODE_MAX: usize = 256;
/// Intervals within which two nodes that report one peer are two jobs, and not one that moved.
/// A launcher takes longer to start a rank elsewhere.
pub const SHARED_INTERVALS: u64 = 10;
/// Intervals without a name after which a cohort that has just learned shows an alert of before to
/// be over: twice what 95 of 100 stragglers take until they are named (`blame/RESULTS.md`).
pub const CLEARED_INTERVALS: u64 = 120;
/// Time without a step after which the alert of a node that is up ends: its peers are forgotten
/// then, too.
pub const NO_STEPS_AFTER: Duration = Duration::from_secs(600);
/// Intervals by which the clock may be set back before everything is learned anew: less than those
/// that are open.
pub const CLOCK_BACK_INTERVALS: u64 = 5;
