//! Latency limits received from aggregators, by operation: samples over them are counted exactly. A
//! limit that is no longer repeated is evicted after a while.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{LIMIT_EVICTED_AFTER, LIMITS_OPERATIONS_MAX};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::wire::LIMITS_MAX;
use plimsoll_schemas::time::Mono;

/// All limits.
#[derive(Debug, Default)]
pub(crate) struct LatencyLimits {
    /// Each limit in nanoseconds, and when it was last received.
    by_operation: BTreeMap<Operation, BTreeMap<u64, Mono>>,
}

impl LatencyLimits {
    /// Adds limits, and returns the operations whose limits changed. Two aggregators may send
    /// different ones in turn: both are kept; of too many, those received last.
    pub(crate) fn update(
        &mut self,
        now: Mono,
        received: &[(Operation, u64)],
    ) -> BTreeSet<Operation> {
        let mut changed = BTreeSet::new();
        for (operation, limit_ns) in received {
            let is_known = self.by_operation.contains_key(operation);
            if !is_known && self.by_operation.len() >= LIMITS_OPERATIONS_MAX {
                continue;
            }
            let limits = self.by_operation.entry(operation.clone()).or_default();
            if limits.insert(*limit_ns, now).is_none() {
                changed.insert(operation.clone());
            }
            while limits.len() > LIMITS_MAX {
                let oldest = limits.iter().filter(|(limit, _)| *limit != limit_ns);
                let Some((oldest, _)) = oldest.min_by_key(|(_, at)| **at) else { break };
                let oldest = *oldest;
                limits.remove(&oldest);
            }
        }
        self.evict(now, &mut changed);
        changed
    }

    fn evict(&mut self, now: Mono, changed: &mut BTreeSet<Operation>) {
        self.by_operation.retain(|operation, limits| {
            let before = limits.len();
            limits.retain(|_, at| now.since(*at) <= LIMIT_EVICTED_AFTER);
            if limits.len() < before {
                changed.insert(operation.clone());
            }
            !limits.is_empty()
        });
    }

    /// The limits of one operation, ascending.
    pub(crate) fn of(&self, operation: &Operation) -> Vec<u64> {
        let limits = self.by_operation.get(operation);
        limits.into_iter().flat_map(|limits| limits.keys().copied()).collect()
    }

    /// All limits, in nanoseconds.
    pub(crate) fn all(&self) -> Vec<(Operation, u64)> {
        let each = self.by_operation.iter();
        each.flat_map(|(name, limits)| limits.keys().map(|limit| (name.clone(), *limit))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(limits: &[(&str, u64)]) -> Vec<(Operation, u64)> {
        limits.iter().map(|(name, ns)| (Operation::new(*name).unwrap(), *ns)).collect()
    }

    fn changed(limits: &mut LatencyLimits, at: Mono, limits_ns: &[(&str, u64)]) -> Vec<String> {
        limits.update(at, &named(limits_ns)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn limits_of_two_aggregators_are_kept_and_unrepeated_ones_evicted() {
        let (mut limits, start) = (LatencyLimits::default(), Mono(0));
        assert_eq!(changed(&mut limits, start, &[("a", 9), ("b", 1)]), ["a", "b"]);
        assert_eq!(changed(&mut limits, start, &[("a", 7)]), ["a"]);
        assert_eq!(changed(&mut limits, start, &[("a", 9)]), [""; 0]);
        assert_eq!(limits.all(), named(&[("a", 7), ("a", 9), ("b", 1)]));
        let later = start.plus(LIMIT_EVICTED_AFTER);
        assert_eq!(changed(&mut limits, later, &[("a", 9)]), [""; 0]);
        let later = later.plus(std::time::Duration::from_nanos(1));
        assert_eq!(changed(&mut limits, later, &[]), ["a", "b"]);
        assert_eq!(limits.all(), named(&[("a", 9)]));
    }

    #[test]
    fn the_latest_limits_of_a_bounded_number_of_operations_are_kept() {
        let mut limits = LatencyLimits::default();
        for n in 1..100 {
            assert_eq!(changed(&mut limits, Mono(n), &[("a", n)]), ["a"]);
        }
        assert_eq!(limits.of(&Operation::new("a").unwrap()), [96, 97, 98, 99]);
        for n in 0..2 * LIMITS_OPERATIONS_MAX {
            changed(&mut limits, Mono(100), &[(&format!("o{n}"), 5)]);
        }
        assert_eq!(limits.by_operation.len(), LIMITS_OPERATIONS_MAX);
        let later = Mono(101).plus(LIMIT_EVICTED_AFTER);
        changed(&mut limits, later, &[("new", 5)]);
        assert_eq!(limits.all(), named(&[]));
        changed(&mut limits, later, &[("new", 5)]);
        assert_eq!(limits.all(), named(&[("new", 5)]));
    }
}
