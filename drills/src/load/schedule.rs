//! When each sample is due, on which node and of which operation: fixed before the start.
//!
//! DESIGN D8.

use std::time::Duration;

/// Samples of one run: their due times are computed, not stored; counts are exact far beyond.
pub const SAMPLES_MAX: u64 = 1_000_000_000;
/// Nodes that one machine runs beside each other.
pub const NODES_MAX: u32 = 64;
/// Operations: what an aggregator takes of one node, and room for others.
pub const OPERATIONS_MAX: u32 = 128;

/// The due times of all samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Samples in all.
    pub count: u64,
    /// Samples a second; 0 if all are due at the start.
    pub rate: u32,
    /// Nodes, which take turns.
    pub nodes: u32,
    /// Operations of each node, which take turns too.
    pub operations: u32,
}

impl Schedule {
    /// When the `n`-th sample is due, from the start.
    #[must_use]
    pub fn due(&self, n: u64) -> Duration {
        if self.rate == 0 {
            return Duration::ZERO;
        }
        let (rate, rest) = (u64::from(self.rate), n % u64::from(self.rate));
        Duration::from_secs(n / rate) + Duration::from_nanos(rest * 1_000_000_000 / rate)
    }

    /// The numbers of one node's samples, in the order in which they are due.
    pub fn of_node(&self, node: u32) -> impl Iterator<Item = u64> + use<> {
        (u64::from(node)..self.count).step_by(self.nodes as usize)
    }

    /// The operation of a sample.
    #[must_use]
    pub fn operation(&self, n: u64) -> u32 {
        let turn = n / u64::from(self.nodes) % u64::from(self.operations);
        u32::try_from(turn).unwrap_or(0)
    }

    /// The number of the `place`-th sample of an operation of a node, if there is one.
    #[must_use]
    pub fn number(&self, node: u32, operation: u32, place: u64) -> Option<u64> {
        let turn = place * u64::from(self.operations) + u64::from(operation);
        let n = turn * u64::from(self.nodes) + u64::from(node);
        (n < self.count).then_some(n)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn samples_are_due_at_their_rate_and_at_once_without_one() {
        let schedule = Schedule { count: 10, rate: 3, nodes: 1, operations: 1 };
        for (n, ms) in [(0, 0), (1, 333), (3, 1_000), (4, 1_333), (9, 3_000)] {
            assert_eq!(schedule.due(n).as_millis(), ms, "{n}");
        }
        assert_eq!(Schedule { rate: 0, ..schedule }.due(9), Duration::ZERO);
        let long = Schedule { count: SAMPLES_MAX, rate: 1, ..schedule };
        assert_eq!(long.due(SAMPLES_MAX - 1).as_secs(), SAMPLES_MAX - 1);
    }

    proptest! {
        #[test]
        fn every_sample_has_one_node_and_one_place_in_its_operation(
            count in 1..500_u64, rate in 0..9_u32, nodes in 1..7_u32, operations in 1..7_u32,
        ) {
            let schedule = Schedule { count, rate, nodes, operations };
            let mut all = BTreeSet::new();
            for node in 0..nodes {
                let mut places = vec![0; operations as usize];
                let mut before = Duration::ZERO;
                for n in schedule.of_node(node) {
                    let operation = schedule.operation(n);
                    let place = &mut places[operation as usize];
                    prop_assert_eq!(schedule.number(node, operation, *place), Some(n));
                    *place += 1;
                    prop_assert!(schedule.due(n) >= before);
                    before = schedule.due(n);
                    prop_assert!(all.insert(n));
                }
                for (operation, place) in (0..).zip(places) {
                    prop_assert_eq!(schedule.number(node, operation, place), None);
                }
            }
            prop_assert_eq!(all.len() as u64, count);
        }
    }
}
