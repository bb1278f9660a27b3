//! Limits that the node was told of, by operation: over these it counts samples exactly. Believes
//! nobody for ever: what was not repeated for long is forgotten once others are told.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{LIMIT_FORGET_AFTER, LIMITS_OPERATIONS_MAX};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::wire::LIMITS_MAX;
use plimsoll_schemas::time::Mono;

/// What is known now.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// Each limit in nanoseconds, and when it was told last.
    by_operation: BTreeMap<Operation, BTreeMap<u64, Mono>>,
}

impl Limits {
    /// Hears limits, and says of which operations others are known now. Two aggregators may say
    /// different ones, in turn: both are kept, of too many those told last.
    pub(super) fn hear(&mut self, now: Mono, told: &[(Operation, u64)]) -> BTreeSet<Operation> {
        let mut changed = BTreeSet::new();
        for (operation, limit_ns) in told {
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
        self.forget(now, &mut changed);
        changed
    }

    fn forget(&mut self, now: Mono, changed: &mut BTreeSet<Operation>) {
        self.by_operation.retain(|operation, limits| {
            let before = limits.len();
            limits.retain(|_, at| now.since(*at) <= LIMIT_FORGET_AFTER);
            if limits.len() < before {
                changed.insert(operation.clone());
            }
            !limits.is_empty()
        });
    }

    /// Those of one operation, ascending.
    pub(super) fn of(&self, operation: &Operation) -> Vec<u64> {
        let limits = self.by_operation.get(operation);
        limits.into_iter().flat_map(|limits| limits.keys().copied()).collect()
    }

    /// All of them, in nanoseconds.
    pub(super) fn all(&self) -> Vec<(Operation, u64)> {
        let each = self.by_operation.iter();
        each.flat_map(|(name, limits)| limits.keys().map(|limit| (name.clone(), *limit))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(limits: &[(&str, u64)]) -> Vec<(Operation, u64)> {
        limits.iter().map(|(name, ns)| (Operation::new(*name).unwrap(), *ns)).collect()
    }

    fn changed(limits: &mut Limits, at: Mono, said: &[(&str, u64)]) -> Vec<String> {
        limits.hear(at, &told(said)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_two_say_in_turn_is_known_at_once_and_what_nobody_repeats_is_forgotten() {
        let (mut limits, start) = (Limits::default(), Mono(0));
        assert_eq!(changed(&mut limits, start, &[("a", 9), ("b", 1)]), ["a", "b"]);
        assert_eq!(changed(&mut limits, start, &[("a", 7)]), ["a"]);
        assert_eq!(changed(&mut limits, start, &[("a", 9)]), [""; 0]);
        assert_eq!(limits.all(), told(&[("a", 7), ("a", 9), ("b", 1)]));
        let later = start.plus(LIMIT_FORGET_AFTER);
        assert_eq!(changed(&mut limits, later, &[("a", 9)]), [""; 0]);
        let later = later.plus(std::time::Duration::from_nanos(1));
        assert_eq!(changed(&mut limits, later, &[]), ["a", "b"]);
        assert_eq!(limits.all(), told(&[("a", 9)]));
    }

    #[test]
    fn whatever_is_told_the_latest_few_of_a_bounded_number_of_operations_are_known() {
        let mut limits = Limits::default();
        for n in 1..100 {
            assert_eq!(changed(&mut limits, Mono(n), &[("a", n)]), ["a"]);
        }
        assert_eq!(limits.of(&Operation::new("a").unwrap()), [96, 97, 98, 99]);
        for n in 0..2 * LIMITS_OPERATIONS_MAX {
            changed(&mut limits, Mono(100), &[(&format!("o{n}"), 5)]);
        }
        assert_eq!(limits.by_operation.len(), LIMITS_OPERATIONS_MAX);
        let later = Mono(101).plus(LIMIT_FORGET_AFTER);
        changed(&mut limits, later, &[("new", 5)]);
        assert_eq!(limits.all(), told(&[]));
        changed(&mut limits, later, &[("new", 5)]);
        assert_eq!(limits.all(), told(&[("new", 5)]));
    }
}
