//! Incarnations that ended without a final message: when nothing more of them can come.
//!
//! A later incarnation of the node has begun. What the ended one had published may still be unread,
//! and a crash report may be on its way, so an incarnation is closed only once everything that the
//! streams held some seconds after its end was first seen has been read.
//!
//! DESIGN A48.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::CRASH_CLOSED_AFTER;
use plimsoll_schemas::ids::{Incarnation, NodeName};
use plimsoll_schemas::time::Mono;

/// An incarnation of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeIncarnation {
    pub(super) node: NodeName,
    pub(super) incarnation: Incarnation,
}

/// Ended incarnations that are not closed yet, and since when that has been seen.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    waiting: BTreeMap<NodeIncarnation, Mono>,
}

impl Crashes {
    /// `ended` are all incarnations that wait to be closed. Returns those that are to be closed
    /// now.
    pub(super) fn watch(
        &mut self,
        now: Mono,
        read_up_to: Option<Mono>,
        ended: BTreeSet<NodeIncarnation>,
    ) -> Vec<NodeIncarnation> {
        // One that goes on after all waits anew when it stops.
        self.waiting.retain(|name, _| ended.contains(name));
        for name in ended {
            self.waiting.entry(name).or_insert(now);
        }
        let is_over =
            |since: &Mono| read_up_to.is_some_and(|read| read >= since.plus(CRASH_CLOSED_AFTER));
        self.waiting.extract_if(.., |_, since| is_over(since)).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incarnation_is_closed_once_all_was_read_that_came_some_time_after_its_end() {
        let mut crashes = Crashes::default();
        let second = |n: u64| Mono(n * 1_000_000_000);
        let after = CRASH_CLOSED_AFTER.as_secs();
        let node = NodeName::new("a").unwrap();
        let name = NodeIncarnation { node, incarnation: Incarnation(7) };
        let ended = || BTreeSet::from([name.clone()]);
        assert_eq!(crashes.watch(second(1), Some(second(1)), ended()), []);
        // Streams that are not read, or not up to then, hide what may still come.
        assert_eq!(crashes.watch(second(1 + after), None, ended()), []);
        assert_eq!(crashes.watch(second(1 + after), Some(second(after)), ended()), []);
        let closed = crashes.watch(second(2 + after), Some(second(1 + after)), ended());
        assert_eq!(closed, std::slice::from_ref(&name));
        // One that went on in between begins to wait anew.
        assert_eq!(crashes.watch(second(50), Some(second(50)), ended()), []);
        assert_eq!(crashes.watch(second(51), Some(second(51)), BTreeSet::new()), []);
        assert_eq!(crashes.watch(second(50 + after), Some(second(50 + after)), ended()), []);
    }
}
