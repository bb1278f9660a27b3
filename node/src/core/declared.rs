//! What the rules declare urgent, as aggregators state it, and the share that each of it may take.
//!
//! Owns what was received and the tokens of its shares. Refuses to choose a lane: that is for the
//! outbox.
//!
//! DESIGN N83.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::urgency::{DeclaredSubject, DeclaredUrgency, Urgency};
use plimsoll_schemas::wire::Events;

use super::outbox::{Priority, TokenBucket};
use crate::limits::{DECLARED_MAX, LIMIT_EVICTED_AFTER, SHARE_BURST, SHARE_PER_MINUTE};

/// All that is declared.
#[derive(Debug, Default)]
pub(super) struct DeclaredUrgencies {
    /// Of one subject with two levels, from two aggregators, both hold.
    all: BTreeMap<DeclaredUrgency, Received>,
}

/// How one was last received, and what it has sent.
#[derive(Debug)]
struct Received {
    at: Mono,
    /// Messages that it may send at once.
    share: TokenBucket,
}

impl DeclaredUrgencies {
    /// Takes what an aggregator states. What two of them declare holds as long as both repeat it;
    /// of too many, what was received last.
    pub(super) fn update(&mut self, now: Mono, declared: &[DeclaredUrgency]) {
        for declared in declared {
            // A share is of a declaration and not of a sender: DogStatsD lines name none (N83).
            let share = || TokenBucket::new(SHARE_PER_MINUTE, SHARE_BURST, 0);
            let new = || Received { at: now, share: share() };
            self.all.entry(declared.clone()).or_insert_with(new).at = now;
        }

        self.all.retain(|_, received| now.since(received.at) <= LIMIT_EVICTED_AFTER);
        while self.all.len() > DECLARED_MAX {
            let oldest = self.all.iter().min_by_key(|(_, received)| received.at);
            let Some(oldest) = oldest.map(|(declared, _)| declared.clone()) else { break };
            self.all.remove(&oldest);
        }
    }

    /// How urgent these operations of one interval are: those that breach a limit, and those that
    /// are declared.
    pub(super) fn of_operations<'a>(
        &mut self,
        now: Mono,
        breached: &BTreeSet<Operation>,
        operations: impl Iterator<Item = &'a Operation>,
    ) -> BTreeMap<Operation, Priority> {
        let mut urgent: BTreeMap<Operation, Priority> =
            breached.iter().map(|operation| (operation.clone(), Priority::Critical)).collect();
        if self.all.is_empty() {
            return urgent;
        }

        let operations: BTreeSet<&Operation> = operations.collect();
        for (declared, received) in &mut self.all {
            let is_meant = |of: &&&Operation| declared.subject.is_operation(of);
            let mut meant = operations.iter().filter(is_meant).peekable();
            if meant.peek().is_none() {
                continue;
            }

            // One token for all operations that a prefix declares: they go in one message.
            let priority = received.priority(now, declared.urgency);

            for operation in meant {
                let known = urgent.entry((*operation).clone()).or_default();
                *known = priority.max(*known);
            }
        }

        urgent
    }

    /// How urgent events of one interval are by what is declared.
    pub(super) fn of_events(&mut self, now: Mono, events: &Events) -> Priority {
        let is_meant =
            |subject: &DeclaredSubject| events.events.iter().any(|event| subject.is_event(event));
        let meant = self.all.iter_mut().filter(|(declared, _)| is_meant(&declared.subject));
        let priorities = meant.map(|(declared, received)| received.priority(now, declared.urgency));
        priorities.max().unwrap_or_default()
    }
}

impl Received {
    /// The priority of a message that has it. Beyond its share, it overtakes only what is delayed.
    fn priority(&mut self, now: Mono, urgency: Urgency) -> Priority {
        match urgency {
            Urgency::High => Priority::High,
            Urgency::Critical if self.share.try_take(now, true).is_ok() => Priority::Immediate,
            Urgency::Critical => Priority::Critical,
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::alert::NamePattern;

    use super::*;

    fn declared(pattern: &str, urgency: Urgency) -> DeclaredUrgency {
        let subject = DeclaredSubject::Operation(NamePattern::new(pattern).unwrap());
        DeclaredUrgency { subject, urgency }
    }

    fn second(second: u64) -> Mono {
        Mono(second * 1_000_000_000)
    }

    fn of(urgencies: &mut DeclaredUrgencies, now: Mono, name: &str) -> Priority {
        let operation = Operation::new(name).unwrap();
        let all = urgencies.of_operations(now, &BTreeSet::new(), [&operation].into_iter());
        all.get(&operation).copied().unwrap_or_default()
    }

    #[test]
    fn each_has_a_share_of_its_own_and_overtakes_only_what_is_delayed_beyond_it() {
        let mut urgencies = DeclaredUrgencies::default();
        let all = ["a", "b*"].map(|pattern| declared(pattern, Urgency::Critical));
        urgencies.update(second(0), &all);
        let mut of_a: Vec<Priority> = (0..8).map(|_| of(&mut urgencies, second(0), "a")).collect();
        of_a.dedup();
        assert_eq!(of_a, [Priority::Immediate, Priority::Critical]);
        assert_eq!(of(&mut urgencies, second(0), "bc"), Priority::Immediate, "not of a's share");
        assert_eq!(of(&mut urgencies, second(2), "a"), Priority::Immediate, "one in two seconds");
        assert_eq!(of(&mut urgencies, second(2), "a"), Priority::Critical);
        assert_eq!(of(&mut urgencies, second(2), "c"), Priority::Normal);
    }

    #[test]
    fn of_two_levels_from_two_aggregators_the_more_urgent_holds_whichever_comes_last() {
        let mut urgencies = DeclaredUrgencies::default();
        for (second_of, urgency) in [(0, Urgency::Critical), (1, Urgency::High)] {
            urgencies.update(second(second_of), &[declared("a", urgency)]);
        }
        assert_eq!(of(&mut urgencies, second(1), "a"), Priority::Immediate);
        urgencies.update(second(601), &[declared("a", Urgency::High)]);
        assert_eq!(of(&mut urgencies, second(601), "a"), Priority::High, "the other was dropped");
    }

    #[test]
    fn a_breach_that_is_declared_high_stays_critical() {
        let mut urgencies = DeclaredUrgencies::default();
        urgencies.update(second(0), &[declared("*", Urgency::High)]);
        let [a, b] = ["a", "b"].map(|name| Operation::new(name).unwrap());
        let breached = BTreeSet::from([a.clone()]);
        let urgent = urgencies.of_operations(second(0), &breached, [&a, &b].into_iter());
        let expected = BTreeMap::from([(a, Priority::Critical), (b, Priority::High)]);
        assert_eq!(urgent, expected);
    }

    #[test]
    fn what_is_no_longer_repeated_ends_and_of_too_many_the_latest_stay() {
        let mut urgencies = DeclaredUrgencies::default();
        urgencies.update(second(0), &[declared("a", Urgency::High)]);
        urgencies.update(second(601), &[declared("b", Urgency::High)]);
        assert_eq!(of(&mut urgencies, second(601), "a"), Priority::Normal);

        for n in 0..DECLARED_MAX as u64 {
            urgencies.update(second(602 + n), &[declared(&format!("n{n}"), Urgency::High)]);
        }
        assert_eq!(urgencies.all.len(), DECLARED_MAX);
        assert_eq!(of(&mut urgencies, second(700), "b"), Priority::Normal, "the oldest");
        assert_eq!(of(&mut urgencies, second(700), "n0"), Priority::High);
    }
}
