//! What waits for the broker's acknowledgement, bounded, in the orders in which it is sent and in
//! which it makes room. When many nodes change at once, thousands are pushed and sent in one turn,
//! so none of them is searched for.
//!
//! DESIGN A64.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::NOTIFICATIONS_MAX;
use plimsoll_schemas::alert::{AlertKey, AlertState, LatencyHigh, Notification, Scope};
use plimsoll_schemas::limits::delivery::ACK_WAIT;
use plimsoll_schemas::time::Mono;
use serde::{Deserialize, Serialize};

/// What a queue orders its entries by.
pub(super) trait Queued: Clone {
    /// What it is about: the fleet's goes first, and is dropped last.
    fn key(&self) -> &AlertKey;
    /// Whether it is the end of an alert, which is dropped after beginnings.
    fn is_end(&self) -> bool;
}

impl Queued for Notification {
    fn key(&self) -> &AlertKey {
        &self.key
    }

    fn is_end(&self) -> bool {
        self.state == AlertState::Resolved
    }
}

impl Queued for LatencyHigh {
    fn key(&self) -> &AlertKey {
        &self.key
    }

    fn is_end(&self) -> bool {
        false
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Waiting<T> {
    #[serde(rename = "notification")]
    what: T,
    /// Not remembered across a restart: what waits then is due at once.
    #[serde(skip)]
    sent: Option<Mono>,
}

/// Entries by token, oldest first; stored without the orders.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "BTreeMap<u64, Waiting<T>>", into = "BTreeMap<u64, Waiting<T>>")]
#[serde(bound(serialize = "T: Queued + Serialize", deserialize = "T: Queued + Deserialize<'de>"))]
pub(super) struct Queue<T: Queued> {
    waiting: BTreeMap<u64, Waiting<T>>,
    /// The first makes room: whether it is of the fleet, whether it is an end, its token.
    by_worth: BTreeSet<(bool, bool, u64)>,
    /// Not sent yet, or overdue: whether it comes later than the fleet's, its token.
    due: BTreeSet<(bool, u64)>,
    /// Sent, by when its acknowledgement is overdue.
    sent: BTreeSet<(Mono, u64)>,
}

impl<T: Queued> Default for Queue<T> {
    fn default() -> Self {
        Self::from(BTreeMap::new())
    }
}

impl<T: Queued> From<BTreeMap<u64, Waiting<T>>> for Queue<T> {
    fn from(waiting: BTreeMap<u64, Waiting<T>>) -> Self {
        Self {
            by_worth: waiting.iter().map(|(token, of)| worth(*token, &of.what)).collect(),
            due: waiting.iter().map(|(token, of)| (is_of_node(&of.what), *token)).collect(),
            sent: BTreeSet::new(),
            waiting,
        }
    }
}

impl<T: Queued> From<Queue<T>> for BTreeMap<u64, Waiting<T>> {
    fn from(queue: Queue<T>) -> Self {
        queue.waiting
    }
}

fn is_of_node(what: &impl Queued) -> bool {
    what.key().scope != Scope::Fleet
}

fn worth(token: u64, what: &impl Queued) -> (bool, bool, u64) {
    (!is_of_node(what), what.is_end(), token)
}

impl<T: Queued> Queue<T> {
    /// Queues an entry under a greater token than any before. Returns whether one was dropped for
    /// it, which may be itself.
    pub(super) fn push(&mut self, token: u64, what: T) -> bool {
        self.by_worth.insert(worth(token, &what));
        self.due.insert((is_of_node(&what), token));
        self.waiting.insert(token, Waiting { what, sent: None });
        let is_full = self.waiting.len() > NOTIFICATIONS_MAX;
        // After it was added: what is worth the least goes, and that may be the new one.
        let goes = self.by_worth.first().filter(|_| is_full).map(|(.., token)| *token);
        goes.is_some_and(|token| self.remove(token))
    }

    /// The next entry that is new, or overdue for an acknowledgement, and whether it was sent
    /// before. It counts as sent now.
    pub(super) fn next_due(&mut self, now: Mono) -> Option<(u64, T, bool)> {
        while let Some((_, token)) = self.sent.first().copied().filter(|(at, _)| *at <= now) {
            self.sent.pop_first();
            if let Some(of) = self.waiting.get(&token) {
                self.due.insert((is_of_node(&of.what), token));
            }
        }
        let (_, token) = self.due.pop_first()?;
        let of = self.waiting.get_mut(&token)?;
        // Counted as sent at once: without an acknowledgement it is due again by itself.
        self.sent.insert((now.plus(ACK_WAIT), token));
        let again = of.sent.replace(now).is_some();
        Some((token, of.what.clone(), again))
    }

    /// Removes an entry; false if there is none.
    pub(super) fn remove(&mut self, token: u64) -> bool {
        let Some(Waiting { what, sent }) = self.waiting.remove(&token) else { return false };
        self.by_worth.remove(&worth(token, &what));
        self.due.remove(&(is_of_node(&what), token));
        sent.into_iter().for_each(|at| {
            self.sent.remove(&(at.plus(ACK_WAIT), token));
        });
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_schemas::ids::{NodeName, Operation, RuleName};
    use proptest::prelude::*;

    use super::*;

    /// Whether it is of the fleet, and whether it is an end.
    #[derive(Clone, Debug, PartialEq)]
    struct Entry(AlertKey, bool);

    impl Queued for Entry {
        fn key(&self) -> &AlertKey {
            &self.0
        }

        fn is_end(&self) -> bool {
            self.1
        }
    }

    fn entry(fleet: bool, end: bool) -> Entry {
        let (rule, operation) = (RuleName::new("r").unwrap(), Operation::new("o").unwrap());
        let node = || Scope::Node(NodeName::new("n").unwrap());
        let scope = if fleet { Scope::Fleet } else { node() };
        Entry(AlertKey { rule, scope, operation }, end)
    }

    /// Whether it is of the fleet, whether it is an end, and when it was sent.
    type Known = (bool, bool, Option<Mono>);

    fn steps() -> impl Strategy<Value = Vec<(u8, bool, bool, u64)>> {
        prop::collection::vec((0..5_u8, any::<bool>(), any::<bool>(), 0..30_u64), 0..80)
    }

    proptest! {
        /// The model searches all entries for each answer.
        #[test]
        fn a_queue_equals_a_search_of_all_its_entries(
            steps in steps(), many in prop::bool::weighted(0.1),
        ) {
            let (mut queue, mut model) = (Queue::default(), BTreeMap::new());
            let (mut now, mut token) = (Mono(0), 0);
            let begin = if many { NOTIFICATIONS_MAX - 5 } else { 0 };
            let begin = (0..begin).map(|n| (0, n % 7 == 0, n % 3 == 0, 0));
            for (step, fleet, end, n) in begin.chain(steps) {
                match step {
                    0 | 1 => {
                        token += 1;
                        let dropped = queue.push(token, entry(fleet, end));
                        model.insert(token, (fleet, end, None::<Mono>));
                        let worst = |(token, of): (&u64, &Known)| (of.0, of.1, *token);
                        let goes = model.iter().map(worst).min();
                        let goes = goes.filter(|_| model.len() > NOTIFICATIONS_MAX);
                        goes.and_then(|(.., token)| model.remove(&token));
                        prop_assert_eq!(dropped, goes.is_some());
                    }
                    2 => prop_assert_eq!(queue.remove(n), model.remove(&n).is_some()),
                    3 => now = now.plus(Duration::from_millis(n * 100)),
                    _ => {
                        let is_due = |of: &Known| of.2.is_none_or(|at| at.plus(ACK_WAIT) <= now);
                        let due = model.iter_mut().filter(|(_, of)| is_due(of));
                        let due = due.min_by_key(|(token, (fleet, ..))| (!*fleet, **token));
                        let expected = due.map(|(token, (fleet, end, sent))| {
                            (*token, entry(*fleet, *end), sent.replace(now).is_some())
                        });
                        prop_assert_eq!(queue.next_due(now), expected);
                    }
                }
                prop_assert_eq!(queue.is_empty(), model.is_empty());
            }
            let kept = queue.waiting.len();
            prop_assert_eq!(queue.by_worth.len(), kept);
            prop_assert_eq!(queue.due.len() + queue.sent.len(), kept);
        }
    }
}
