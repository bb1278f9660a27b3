//! The load of a fleet: what each node sends, and what happens to it.

use std::time::Duration;

use plimsoll_schemas::ids::{IdError, NodeName};
use plimsoll_schemas::time::nanos;

use super::limits::FAST_INTERVAL;
use crate::sim::rng::Rng;

/// What all nodes of a fleet have in common, and what a node then has of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// What everything is drawn from.
    pub seed: u64,
    /// Samples of each operation in an interval.
    pub samples: u64,
    /// Samples of each operation in the first interval.
    pub first_samples: u64,
    /// Length of an interval in nanoseconds.
    pub interval_ns: u64,
    /// Intervals until the final report.
    pub rounds: u64,
    /// Whether the final report is a final message.
    pub leave: bool,
    /// The interval with this time in it is a message of the largest size.
    pub largest_at_ns: Option<u64>,
    /// The first interval that ends after this time is the first one of a new incarnation.
    pub restart_at_ns: Option<u64>,
}

impl Load {
    /// What the names of all its nodes begin with.
    pub fn prefix(&self) -> String {
        format!("fleet-{}", self.seed)
    }

    /// The name of node `number`.
    ///
    /// # Errors
    /// None of a number that the options allow.
    pub fn node_name(&self, number: u64) -> Result<NodeName, IdError> {
        NodeName::new(format!("{}-{number:05}", self.prefix()))
    }

    /// When the probe's sample of one round is due: once an interval, at a random time, so that it
    /// does not synchronise with any other schedule. The first is due before any other node
    /// publishes: a flood of names must not take its operation's slot.
    pub fn probe_ns(&self, round: u64) -> u64 {
        let within = Rng::new(self.seed ^ round, 0).below(self.interval_ns);
        if round == 0 { 0 } else { round * self.interval_ns + within }
    }

    /// The load of a node with intervals of [`FAST_INTERVAL`] that sends for as long.
    pub fn fast(self) -> Self {
        let interval_ns = nanos(FAST_INTERVAL).min(self.interval_ns);
        Self { interval_ns, rounds: self.rounds * self.interval_ns / interval_ns, ..self }
    }

    /// Samples of each operation in this interval of a node.
    pub fn samples_in(&self, round: u64) -> u64 {
        if round == 0 { self.first_samples } else { self.samples }
    }

    /// The load of a node that keeps its incarnation.
    pub fn without_restart(self) -> Self {
        Self { restart_at_ns: None, ..self }
    }

    /// When the last interval of the last node has ended, if all begin within this time.
    pub fn ends_after(&self, join_within: Duration) -> Duration {
        Duration::from_nanos(self.interval_ns * (self.rounds + 2)) + join_within
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::fleet) const LOAD: Load = Load {
        seed: 3,
        samples: 20,
        first_samples: 20,
        interval_ns: 1_000_000_000,
        rounds: 8,
        leave: true,
        largest_at_ns: None,
        restart_at_ns: None,
    };

    #[test]
    fn a_probe_sends_once_an_interval_at_no_fixed_phase() {
        let at: Vec<u64> = (0..50).map(|round| LOAD.probe_ns(round)).collect();
        assert!(at.is_sorted());
        let phases: Vec<u64> = at.iter().map(|ns| ns % LOAD.interval_ns).collect();
        let early = phases.iter().filter(|phase| **phase < LOAD.interval_ns / 2).count();
        assert!((10..40).contains(&early), "{phases:?}");
    }

    #[test]
    fn a_fast_node_sends_a_hundred_times_a_second_for_as_long() {
        let fast = LOAD.fast();
        assert_eq!((fast.interval_ns, fast.rounds), (10_000_000, 800));
        let already = Load { interval_ns: 5_000_000, ..LOAD }.fast();
        assert_eq!((already.interval_ns, already.rounds), (5_000_000, 8));
    }
}
