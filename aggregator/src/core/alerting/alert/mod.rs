//! The state of every alert: one machine for each (rule, fleet or node, operation).
//!
//! ```text
//! inactive --breach--> pending --fire_after breaches--> firing --clear_after clear--> resolved
//!     ^--- none found ---'                                           resolved --breach--> pending
//!
//! flaps: fires again within 10 min of having resolved: one more, and clear_after doubles, up to
//!        64 times; an hour after it last resolved they count no more.
//! ended: the rule or the node is gone. Firing becomes resolved and pending inactive, at once.
//! ```
//!
//! Too few samples or none at all move nothing, in any state: silence is never "clear". It is shown
//! beside the state. Who is notified of a change, and of what, is not decided here.
//!
//! DESIGN A25.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::alerts::{FLAP_DOUBLINGS_MAX, FLAP_WITHIN, FLAPS_RESET_AFTER};
use plimsoll_schemas::alert::{AlertKey, AlertState, DataStatus, Notification, Scope};
use plimsoll_schemas::ids::{NodeName, Operation, RuleName};
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::record::FiringAlert;
use crate::core::rules::{Finding, Hysteresis};

/// How long a resolved alert is shown as such.
const RESOLVED_SHOWN: Duration = Duration::from_secs(300);

/// The state that is shown after a finding: an inactive alert is shown as too few or no samples if
/// that is the finding.
pub const fn displayed(state: AlertState, finding: Finding) -> AlertState {
    finding.data().displayed(state)
}

/// A move from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub from: AlertState,
    pub to: AlertState,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Alerts {
    entries: BTreeMap<AlertKey, AlertEntry>,
    /// Whether one has changed since that was last taken.
    #[serde(skip)]
    changed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AlertEntry {
    pub state: AlertState,
    /// Since when; on the wall clock, since it outlives the process.
    pub since: Wall,
    /// Evaluations in a row whose findings call for another state.
    streak: u32,
    /// Since when it fires or, of one that does not, since when it did.
    pub firing_since: Option<Wall>,
    resolved_at: Option<Wall>,
    /// How often it fired again soon after it resolved.
    pub flaps: u32,
    /// The data status of the latest finding.
    pub data: DataStatus,
    /// Its last notification, without its context, which is dropped to save memory: the end of an
    /// alert whose rule or node is gone repeats this.
    pub notified: Option<Arc<Notification>>,
}

/// An alert that has ended because its rule or its node is gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// What it was about.
    pub key: AlertKey,
    /// Its last move.
    pub change: Change,
    pub entry: AlertEntry,
}

impl Alerts {
    /// Takes one finding; returns how the alert moved, if it did.
    pub fn on_finding(
        &mut self,
        now: Wall,
        key: &AlertKey,
        finding: Finding,
        hysteresis: Hysteresis,
    ) -> Option<Change> {
        if let Some(entry) = self.entries.get_mut(key) {
            let before = entry.stands();
            let change = entry.on_finding(now, finding, hysteresis);
            self.changed |= before != entry.stands();
            return change;
        }

        // An alert that never was stays so.
        if finding != Finding::Breach {
            return None;
        }

        let mut entry = AlertEntry { since: now, ..AlertEntry::default() };
        let change = entry.on_finding(now, finding, hysteresis);
        self.entries.insert(key.clone(), entry);
        self.changed = true;
        change
    }

    /// Whether an alert has changed since this was last called: its state, how near it is to
    /// another one, or what is known of its data.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Ends all alerts that `gone` names: their rule or their node is no longer there. Returns
    /// those that fired or were pending; the caller notifies of them.
    pub fn end(&mut self, gone: impl Fn(&AlertKey) -> bool) -> Vec<Ending> {
        let ended = self.entries.extract_if(.., |key, _| gone(key));
        let ending = |(key, entry): (AlertKey, AlertEntry)| {
            let to = match entry.state {
                AlertState::Firing => AlertState::Resolved,
                AlertState::Pending => AlertState::Inactive,
                _ => return None,
            };
            Some(Ending { change: Change { from: entry.state, to }, key, entry })
        };
        ended.filter_map(ending).collect()
    }

    /// Alerts that fire, as they are kept for receivers.
    pub fn firing(&self) -> Vec<FiringAlert> {
        let firing = self.entries().filter(|(_, entry)| entry.state == AlertState::Firing);
        let kept = firing.map(|(key, entry)| FiringAlert {
            key: key.clone(),
            since: entry.firing_since.unwrap_or(entry.since),
            flaps: entry.flaps,
            notification: entry.notified.clone(),
        });
        kept.collect()
    }

    /// Alerts that fired when they were kept; nothing is known of their data until they are judged.
    pub fn restored(firing: Vec<FiringAlert>) -> Self {
        let entry = |of: FiringAlert| AlertEntry {
            state: AlertState::Firing,
            since: of.since,
            firing_since: Some(of.since),
            flaps: of.flaps,
            data: DataStatus::NoData,
            notified: of.notification,
            ..AlertEntry::default()
        };
        let entries = firing.into_iter().map(|of| (of.key.clone(), entry(of)));
        Self { entries: entries.collect(), changed: true }
    }

    /// Remembers an alert's last notification.
    pub fn on_notified(&mut self, notification: &Notification) {
        if let Some(entry) = self.entries.get_mut(&notification.key) {
            entry.notified = Some(Arc::new(Notification { context: None, ..notification.clone() }));
        }
    }

    /// Drops alerts that have been calm for so long that nothing is remembered of them. One that
    /// has long been shown as resolved is so no more, though no finding came since.
    pub fn evict_calm(&mut self, now: Wall) {
        let resolved = |entry: &&mut AlertEntry| {
            entry.state == AlertState::Resolved && now.since(entry.since) >= RESOLVED_SHOWN
        };
        for entry in self.entries.values_mut().filter(resolved) {
            entry.enter(now, AlertState::Inactive);
            self.changed = true;
        }
        self.entries.retain(|_, entry| !entry.is_calm(now));
    }

    /// The state of one alert; an unknown one is inactive.
    pub fn state(&self, key: &AlertKey) -> AlertState {
        self.get(key).map_or(AlertState::Inactive, |entry| entry.state)
    }

    pub fn get(&self, key: &AlertKey) -> Option<&AlertEntry> {
        self.entries.get(key)
    }

    /// All alerts that are not inactive.
    pub fn active(&self) -> impl Iterator<Item = (&AlertKey, AlertState)> {
        self.entries().map(|(key, entry)| (key, entry.state))
    }

    /// All alerts that are not inactive, with all that is known of them.
    pub fn entries(&self) -> impl Iterator<Item = (&AlertKey, &AlertEntry)> {
        self.entries.iter().filter(|(_, entry)| entry.state != AlertState::Inactive)
    }

    /// How many active alerts have nothing or too little to judge.
    pub fn without_data(&self) -> u64 {
        self.entries().filter(|(_, entry)| entry.data != DataStatus::Enough).count() as u64
    }

    /// Which nodes, and `None` for the fleet, have an alert of a rule that is not inactive.
    pub fn alive(&self, rule: &RuleName) -> BTreeSet<Option<&NodeName>> {
        let least = Operation::new("-").expect("no character that it may have comes before");
        let first = AlertKey { rule: rule.clone(), scope: Scope::Fleet, operation: least };
        let of_rule = self.entries.range(first..).take_while(|(key, _)| key.rule == *rule);
        let alive = of_rule.filter(|(_, entry)| entry.state != AlertState::Inactive);
        let scopes = alive.map(|(key, _)| match &key.scope {
            Scope::Fleet => None,
            Scope::Node(name) => Some(name),
        });
        scopes.collect()
    }
}

impl AlertEntry {
    /// What decides whether it has changed.
    fn stands(&self) -> (AlertState, u32, DataStatus) {
        (self.state, self.streak, self.data)
    }

    fn on_finding(
        &mut self,
        now: Wall,
        finding: Finding,
        hysteresis: Hysteresis,
    ) -> Option<Change> {
        self.data = finding.data();
        let from = self.state;
        let to = self.next(now, finding, hysteresis);
        if from == to {
            return None;
        }
        self.enter(now, to);
        Some(Change { from, to })
    }

    fn next(&mut self, now: Wall, finding: Finding, hysteresis: Hysteresis) -> AlertState {
        use AlertState::{Firing, Inactive, Insufficient, NoData, Pending, Resolved};
        use Finding::{Breach, Clear, Uncertain};

        match (self.state, finding) {
            (Inactive | Resolved, Breach) if hysteresis.fire_after <= 1 => Firing,
            (Inactive | Resolved, Breach) => Pending,
            (Pending, Breach) => self.after(hysteresis.fire_after, Firing),
            (Pending, Clear | Uncertain) => Inactive,
            (Firing, Clear) => self.after(self.clear_after(hysteresis), Resolved),
            // Only clear findings in a row resolve an alert: near its
            // limit it would otherwise resolve and fire in turns (A25).
            (Firing, Breach | Uncertain) => {
                self.streak = 0;
                Firing
            }
            (Resolved, Clear | Uncertain) if now.since(self.since) >= RESOLVED_SHOWN => Inactive,
            (Inactive | Resolved, Clear | Uncertain)
            | (_, Finding::NoData | Finding::Insufficient)
            // Shown, and never a state of the machine.
            | (Insufficient | NoData, _) => self.state,
        }
    }

    fn after(&mut self, needed: u32, then: AlertState) -> AlertState {
        self.streak += 1;
        if self.streak >= needed { then } else { self.state }
    }

    fn clear_after(&self, hysteresis: Hysteresis) -> u32 {
        hysteresis.clear_after.saturating_mul(1 << self.flaps.min(FLAP_DOUBLINGS_MAX))
    }

    fn enter(&mut self, now: Wall, to: AlertState) {
        (self.state, self.since) = (to, now);
        // The breach that made it pending is the first of those that make it fire.
        self.streak = u32::from(to == AlertState::Pending);
        match to {
            AlertState::Firing => {
                self.firing_since = Some(now);
                self.count_flap(now);
            }
            AlertState::Resolved => self.resolved_at = Some(now),
            _ => {}
        }
    }

    fn count_flap(&mut self, now: Wall) {
        let Some(calm) = self.resolved_at.map(|resolved| now.since(resolved)) else { return };
        if calm <= FLAP_WITHIN {
            self.flaps = self.flaps.saturating_add(1);
        } else if calm >= FLAPS_RESET_AFTER {
            self.flaps = 0;
        }
    }

    fn is_calm(&self, now: Wall) -> bool {
        let are_flaps_reset =
            |resolved: Wall| self.flaps == 0 || now.since(resolved) >= FLAPS_RESET_AFTER;
        let calm = self
            .resolved_at
            .is_none_or(|resolved| now.since(resolved) > FLAP_WITHIN && are_flaps_reset(resolved));
        self.state == AlertState::Inactive && calm
    }
}

#[cfg(test)]
mod tests;
