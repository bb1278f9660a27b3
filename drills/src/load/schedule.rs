//! When each sample is due, on which node and of which operation: fixed before the start.
//!
//! DESIGN D8.

use std::ops::Range;
use std::time::Duration;

/// Samples of one run: their due times are computed, not stored; counts are exact far beyond.
pub const SAMPLES_MAX: u64 = 1_000_000_000;
/// Nodes that one machine runs beside each other.
pub const NODES_MAX: u32 = 64;
/// Operations: what an aggregator takes of one node, and room for others.
pub const OPERATIONS_MAX: u32 = 128;

/// How many times as many samples a second are due while a burst lasts.
pub const BURST_TIMES: u32 = 10;
/// How long a burst lasts.
pub const BURST_SECONDS: u32 = 10;

/// The due times of all samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub count: u64,
    /// Samples a second; 0 if all are due at the start.
    pub rate: u32,
    /// Nodes, which take turns.
    pub nodes: u32,
    /// Operations of each node, which take turns too.
    pub operations: u32,
    /// The second in which the burst begins, if there is one.
    pub burst_after: Option<u32>,
}

impl Schedule {
    /// When the `n`-th sample is due, from the start.
    pub fn due(&self, n: u64) -> Duration {
        if self.rate == 0 {
            return Duration::ZERO;
        }
        let rate = u64::from(self.rate);
        let begins = self.burst_after.map_or(u64::MAX, u64::from);
        let (before, burst_rate) = (rate.saturating_mul(begins), rate * u64::from(BURST_TIMES));
        if n < before {
            return evenly(n, rate);
        }
        let (n, in_burst) = (n - before, burst_rate * u64::from(BURST_SECONDS));
        let ends = begins + u64::from(BURST_SECONDS);

        match n.checked_sub(in_burst) {
            None => Duration::from_secs(begins) + evenly(n, burst_rate),
            Some(after) => Duration::from_secs(ends) + evenly(after, rate),
        }
    }

    /// The numbers of the samples that are due in a whole burst; none without one.
    pub fn burst(&self) -> Range<u64> {
        let Some(after) = self.burst_after else { return 0..0 };
        let begins = u64::from(self.rate) * u64::from(after);
        begins..begins + u64::from(self.rate) * u64::from(BURST_TIMES * BURST_SECONDS)
    }

    /// The numbers of one node's samples, in the order in which they are due.
    pub fn of_node(&self, node: u32) -> impl Iterator<Item = u64> + use<> {
        (u64::from(node)..self.count).step_by(self.nodes as usize)
    }

    /// The operation of a sample.
    pub fn operation(&self, n: u64) -> u32 {
        let turn = n / u64::from(self.nodes) % u64::from(self.operations);
        u32::try_from(turn).unwrap_or(0)
    }

    /// The number of the `place`-th sample of an operation of a node, if there is one.
    pub fn number(&self, node: u32, operation: u32, place: u64) -> Option<u64> {
        let turn = place * u64::from(self.operations) + u64::from(operation);
        let n = turn * u64::from(self.nodes) + u64::from(node);
        (n < self.count).then_some(n)
    }
}

/// When the `n`-th sample is due at this many a second.
fn evenly(n: u64, rate: u64) -> Duration {
    Duration::from_secs(n / rate) + Duration::from_nanos(n % rate * 1_000_000_000 / rate)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn samples_are_due_at_their_rate_and_at_once_without_one() {
        let schedule = Schedule { count: 10, rate: 3, nodes: 1, operations: 1, burst_after: None };
        for (n, ms) in [(0, 0), (1, 333), (3, 1_000), (4, 1_333), (9, 3_000)] {
            assert_eq!(schedule.due(n).as_millis(), ms, "{n}");
        }
        assert_eq!(Schedule { rate: 0, ..schedule }.due(9), Duration::ZERO);
        let long = Schedule { count: SAMPLES_MAX, rate: 1, ..schedule };
        assert_eq!(long.due(SAMPLES_MAX - 1).as_secs(), SAMPLES_MAX - 1);
    }

    #[test]
    fn a_burst_is_ten_times_the_rate_for_ten_seconds() {
        let schedule =
            Schedule { count: 500, rate: 4, nodes: 1, operations: 1, burst_after: Some(3) };
        for (n, ms) in
            [(11, 2_750), (12, 3_000), (13, 3_025), (411, 12_975), (412, 13_000), (413, 13_250)]
        {
            assert_eq!(schedule.due(n).as_millis(), ms, "{n}");
        }
        assert_eq!((schedule.burst(), schedule.due(412).as_secs()), (12..412, 13));
        assert_eq!(Schedule { burst_after: None, ..schedule }.burst(), 0..0);
    }

    proptest! {
        #[test]
        fn every_sample_has_one_node_and_one_place_in_its_operation(
            count in 1..500_u64, rate in 0..9_u32, nodes in 1..7_u32, operations in 1..7_u32,
            burst_after in prop::option::of(0..5_u32),
        ) {
            let schedule = Schedule { count, rate, nodes, operations, burst_after };
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
