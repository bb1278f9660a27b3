//! The state of every alert: one machine for each (rule, fleet or node, operation).
//!
//! ```text
//! inactive --breach--> pending --fire_after breaches--> firing --clear_after clear--> resolved
//!     ^--- none found ---'                                           resolved --breach--> pending
//! ```
//!
//! Too few samples move nothing, in any state: silence is never "clear".

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_schemas::alert::{AlertKey, AlertState, Scope};
use plimsoll_schemas::ids::{NodeName, RuleName};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

/// How long a resolved alert is shown as such.
const RESOLVED_SHOWN: Duration = Duration::from_secs(300);

/// What an evaluation found out about one alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// There was nothing to judge.
    NoData,
    /// There was too little to judge.
    Insufficient,
    /// Neither shown to be over the limit nor to be within.
    Unsure,
    /// Shown to be within the limit.
    Clear,
    /// Shown to be over the limit.
    Breach,
}

/// How many evaluations in a row it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Breaches until an alert fires.
    pub fire_after: u32,
    /// Evaluations clearly within the limit until it resolves.
    pub clear_after: u32,
}

/// A move from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The state before.
    pub from: AlertState,
    /// The state now.
    pub to: AlertState,
}

/// All alerts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Alerts {
    entries: BTreeMap<AlertKey, Entry>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Entry {
    state: AlertState,
    /// On the wall clock, since it outlives the process.
    since: Wall,
    /// Evaluations in a row that speak for leaving the present state.
    streak: u32,
}

impl Alerts {
    /// Hears one finding; tells whether the alert moved.
    pub fn on_finding(
        &mut self,
        now: Wall,
        key: &AlertKey,
        finding: Finding,
        patience: Patience,
    ) -> Option<Change> {
        if finding <= Finding::Insufficient {
            return None;
        }
        if !self.entries.contains_key(key) {
            // An alert that never was stays so.
            if finding != Finding::Breach {
                return None;
            }
            self.entries.insert(key.clone(), Entry { since: now, ..Entry::default() });
        }
        let entry = self.entries.get_mut(key)?;
        let from = entry.state;
        let to = entry.next(now, finding, patience);
        if from == to {
            return None;
        }
        entry.state = to;
        entry.since = now;
        entry.streak = u32::from(to == AlertState::Pending);
        Some(Change { from, to })
    }

    /// Where one alert stands; never heard of is inactive.
    #[must_use]
    pub fn state(&self, key: &AlertKey) -> AlertState {
        self.entries.get(key).map_or(AlertState::Inactive, |entry| entry.state)
    }

    /// All alerts that are not inactive.
    pub fn standing(&self) -> impl Iterator<Item = (&AlertKey, AlertState)> {
        let all = self.entries.iter().map(|(key, entry)| (key, entry.state));
        all.filter(|(_, state)| *state != AlertState::Inactive)
    }

    /// Which nodes, and `None` for the fleet, have an alert of a rule that is not inactive.
    #[must_use]
    pub fn alive(&self, rule: &RuleName) -> BTreeSet<Option<&NodeName>> {
        let alive = self.entries.iter().filter(|(_, entry)| entry.state != AlertState::Inactive);
        let of_rule = alive.filter(|(key, _)| key.rule == *rule);
        let scopes = of_rule.map(|(key, _)| match &key.scope {
            Scope::Fleet => None,
            Scope::Node(name) => Some(name),
        });
        scopes.collect()
    }

    /// Lets go of all alerts about a node that is no longer remembered.
    pub fn forget(&mut self, node: &NodeName) {
        self.entries.retain(|key, _| key.scope.node() != node.as_str());
    }

    /// Ends all alerts that `gone` names; those that fired or were pending are told of.
    pub fn end(&mut self, gone: impl Fn(&AlertKey) -> bool) -> Vec<(AlertKey, Change)> {
        let ended = self.entries.extract_if(.., |key, _| gone(key));
        let change = |(key, entry): (AlertKey, Entry)| {
            let to = match entry.state {
                AlertState::Firing => AlertState::Resolved,
                AlertState::Pending => AlertState::Inactive,
                _ => return None,
            };
            Some((key, Change { from: entry.state, to }))
        };
        ended.filter_map(change).collect()
    }

    /// Lets go of all alerts of rules that are no longer there.
    pub fn keep(&mut self, rules: &Rules) {
        self.entries.retain(|key, _| rules.find(&key.rule).is_some());
    }
}

impl Entry {
    fn next(&mut self, now: Wall, finding: Finding, patience: Patience) -> AlertState {
        use AlertState::{Firing, Inactive, Pending, Resolved};
        use Finding::{Breach, Clear, Unsure};
        match (self.state, finding) {
            (Inactive | Resolved, Breach) if patience.fire_after <= 1 => Firing,
            (Inactive | Resolved, Breach) => Pending,
            (Pending, Breach) => self.after(patience.fire_after, Firing),
            (Pending, Clear | Unsure) => Inactive,
            (Firing, Clear) => self.after(patience.clear_after, Resolved),
            (Firing, Breach | Unsure) => {
                self.streak = 0;
                Firing
            }
            (Resolved, Clear | Unsure) if now.since(self.since) >= RESOLVED_SHOWN => Inactive,
            _ => self.state,
        }
    }

    fn after(&mut self, needed: u32, then: AlertState) -> AlertState {
        self.streak += 1;
        if self.streak >= needed { then } else { self.state }
    }
}

#[cfg(test)]
mod tests {
    use AlertState::{Firing, Inactive, Pending, Resolved};
    use Finding::{Breach, Clear as Within, Insufficient};
    use plimsoll_schemas::ids::Operation;
    use proptest::prelude::*;

    use super::*;

    fn key(node: &str) -> AlertKey {
        AlertKey {
            rule: RuleName::new("r").unwrap(),
            scope: Scope::Node(NodeName::new(node).unwrap()),
            operation: Operation::new("o").unwrap(),
        }
    }

    const PATIENCE: Patience = Patience { fire_after: 3, clear_after: 2 };

    fn walk(verdicts: &[Finding]) -> Vec<AlertState> {
        let mut alerts = Alerts::default();
        let step = |verdict: &Finding| {
            alerts.on_finding(Wall(0), &key("a"), *verdict, PATIENCE);
            alerts.state(&key("a"))
        };
        verdicts.iter().map(step).collect()
    }

    #[test]
    fn three_breaches_in_a_row_fire_and_two_calm_evaluations_resolve() {
        assert_eq!(
            walk(&[Within, Breach, Breach, Breach, Within, Breach, Within, Within, Breach]),
            [Inactive, Pending, Pending, Firing, Firing, Firing, Firing, Resolved, Pending]
        );
    }

    #[test]
    fn a_breach_that_passes_never_fires() {
        assert_eq!(walk(&[Breach, Breach, Within, Breach]), [Pending, Pending, Inactive, Pending]);
    }

    #[test]
    fn too_few_samples_never_clear_and_never_fire() {
        assert_eq!(
            walk(&[Breach, Insufficient, Breach, Breach, Insufficient, Insufficient, Within]),
            [Pending, Pending, Pending, Firing, Firing, Firing, Firing]
        );
    }

    #[test]
    fn one_breach_on_each_of_three_nodes_fires_nothing() {
        let mut alerts = Alerts::default();
        for node in ["a", "b", "c"] {
            alerts.on_finding(Wall(0), &key(node), Breach, PATIENCE);
            assert_eq!(alerts.state(&key(node)), Pending);
        }
    }

    #[test]
    fn each_move_is_told_once() {
        let mut alerts = Alerts::default();
        let mut told = Vec::new();
        for verdict in [Within, Breach, Breach, Breach, Breach, Within, Within, Within] {
            told.extend(alerts.on_finding(Wall(0), &key("a"), verdict, PATIENCE));
        }
        let states: Vec<AlertState> = told.iter().map(|change| change.to).collect();
        assert_eq!(states, [Pending, Firing, Resolved]);
    }

    #[test]
    fn a_resolved_alert_becomes_inactive_in_the_end() {
        let mut alerts = Alerts::default();
        for verdict in [Breach, Breach, Breach, Within, Within] {
            alerts.on_finding(Wall(0), &key("a"), verdict, PATIENCE);
        }
        assert_eq!(alerts.state(&key("a")), Resolved);
        alerts.on_finding(Wall(0).plus(RESOLVED_SHOWN), &key("a"), Within, PATIENCE);
        assert_eq!(alerts.state(&key("a")), Inactive);
    }

    proptest! {
        /// Invariant 4: nothing but evidence moves an alert, and firing needs enough of it.
        #[test]
        fn only_evidence_moves_an_alert(
            verdicts in prop::collection::vec(
                prop::sample::select(&[Insufficient, Within, Breach][..]), 0..60,
            ),
        ) {
            let mut alerts = Alerts::default();
            let mut breaches = 0;
            for verdict in verdicts {
                let before = alerts.state(&key("a"));
                let change = alerts.on_finding(Wall(0), &key("a"), verdict, PATIENCE);
                breaches = match verdict {
                    Breach => breaches + 1,
                    Insufficient => breaches,
                    _ => 0,
                };
                prop_assert!(verdict != Insufficient || change.is_none());
                if change.is_some_and(|change| change.to == Firing) {
                    prop_assert!(breaches >= 3 && before == Pending);
                }
            }
        }
    }
}
