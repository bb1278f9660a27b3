//! Confirmations that wait to be said: one for each node, the latest, each node in its turn.
//!
//! Saying one is allowed to fail, so nothing here is kept for long; what counts is that a fleet
//! larger than the connection's queue leaves none of its nodes without an answer for ever.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use bytes::Bytes;
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::time::Mono;

use crate::core::durable::{ConfirmationStats, PendingConfirmation};

/// Confirmations on their way out; no more than there are nodes.
#[derive(Debug, Default)]
pub struct Confirmations {
    waiting: BTreeMap<NodeName, PendingConfirmation>,
    /// Whose turn it was last.
    last: Option<NodeName>,
    figures: ConfirmationStats,
}

impl Confirmations {
    /// Takes what is now stored; an older confirmation that still waits is replaced.
    pub fn offer(&mut self, told: Vec<PendingConfirmation>) {
        for told in told {
            let replaced = self.waiting.insert(told.node.clone(), told);
            self.figures.unsent += u64::from(replaced.is_some());
        }
    }

    /// Says one after the other, each with these limits, until `say` takes no more.
    pub fn say_all(
        &mut self,
        now: Mono,
        limits: &[(Operation, u64)],
        mut say: impl FnMut(&NodeName, Bytes) -> bool,
    ) {
        while let Some(told) = self.next() {
            if !say(&told.node, Bytes::from(told.encode(now, limits))) {
                return;
            }
            let node = told.node.clone();
            self.waiting.remove(&node);
            self.last = Some(node);
            self.figures.sent += 1;
        }
    }

    fn next(&self) -> Option<&PendingConfirmation> {
        let after = self.last.as_ref().map_or(Unbounded, Excluded);
        let mut next = self.waiting.range::<NodeName, _>((after, Unbounded));
        next.next().or_else(|| self.waiting.first_key_value()).map(|(_, told)| told)
    }

    /// Lets all of them go: there is nobody to say them to.
    pub fn discard(&mut self) {
        self.figures.unsent += self.waiting.len() as u64;
        self.waiting.clear();
    }

    /// True when none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What became of them so far.
    #[must_use]
    pub fn figures(&self) -> ConfirmationStats {
        self.figures
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::wire::confirmation::decode;

    use super::*;
    use crate::core::tests::{MS, Speaker, core, deliver, start};

    /// What a core that has just heard these nodes has for them, as of a second.
    fn told(names: &[&'static str], second: u64) -> Vec<PendingConfirmation> {
        let mut core = core();
        let mut told = |name: &&'static str| {
            deliver(&mut core, start(), &Speaker::new(name).say(start(), MS, 1));
            core.told_from_memory(&NodeName::new(*name).unwrap(), at(second)).unwrap()
        };
        names.iter().map(&mut told).collect()
    }

    fn at(second: u64) -> Mono {
        Mono(second * 1_000_000_000)
    }

    /// Says as many as there is room for at second 10: to whom, and how old each is.
    fn say(confirmations: &mut Confirmations, mut room: usize) -> Vec<(String, u64)> {
        let mut said = Vec::new();
        confirmations.say_all(at(10), &[], |node, payload| {
            let takes = room > 0;
            room -= usize::from(takes);
            if takes {
                said.push((node.to_string(), decode(node, &payload).unwrap().age.as_secs()));
            }
            takes
        });
        said
    }

    #[test]
    fn every_node_has_its_turn_however_many_there_are() {
        let mut confirmations = Confirmations::default();
        let mut said = Vec::new();
        for round in 0..4 {
            confirmations.offer(told(&["a", "b", "c"], round));
            said.extend(say(&mut confirmations, 2).into_iter().map(|(node, _)| node));
        }
        assert_eq!(said, ["a", "b", "c", "a", "b", "c", "a", "b"]);
        assert_eq!(confirmations.figures(), ConfirmationStats { sent: 8, unsent: 3 });
    }

    #[test]
    fn a_newer_confirmation_replaces_one_that_waits_and_without_a_connection_none_does() {
        let mut confirmations = Confirmations::default();
        confirmations.offer(told(&["a"], 1));
        confirmations.offer(told(&["a", "b"], 2));
        assert_eq!(say(&mut confirmations, 1), [("a".to_owned(), 8)]);
        confirmations.discard();
        assert!(confirmations.is_empty());
        assert_eq!(confirmations.figures(), ConfirmationStats { sent: 1, unsent: 2 });
    }
}
