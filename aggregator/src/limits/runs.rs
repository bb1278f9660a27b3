//! Limits of runs.

use std::time::Duration;

/// Runs that are kept. With a dozen nodes each, a checkpoint stores 250 KB of them. When there are
/// more, the holder with most of them gives up the one that ended first: a node holds those that it
/// alone reports, clients together hold those that they began, and several nodes the others.
pub const RUNS_MAX: usize = 1_000;
/// Nodes of one run that are named: 128 names of the greatest length for each of all runs are 8 MB.
pub const RUN_NODES_MAX: usize = 128;
/// Time since the last sample or report after which a run without an end counts as `no_end`. A job
/// may pause for a checkpoint or a validation.
pub const RUN_NO_END_AFTER: Duration = Duration::from_secs(3_600);
/// Operations on the page of one run, and in a comparison of two.
pub const RUN_OPERATIONS_MAX: usize = 64;
/// Time around a run in which samples with its label belong to it: the interval in which its last
/// ones were taken ends later, and clocks differ.
pub const RUN_MARGIN: Duration = Duration::from_secs(60);
