//! Alerts that stand, for whoever asks, and what askers want done about them.

use std::cmp::Reverse;
use std::time::Duration;

use plimsoll_schemas::alert::{
    Acknowledgement, AlertKey, AlertRow, AlertState, AlertsPage, Silence, SilenceRow, SilencesPage,
};
use plimsoll_schemas::ids::{NodeName, RuleName};
use plimsoll_schemas::time::{Wall, seconds};

use crate::core::Core;
use crate::core::alerting::alert::{Change, Entry};
use crate::core::alerting::silences::Refused;

/// Which alerts are asked for; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only those that stand there.
    pub state: Option<AlertState>,
    /// Only those of this rule.
    pub rule: Option<RuleName>,
    /// Only those about this node.
    pub node: Option<NodeName>,
}

/// What is to be done about alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Begin a silence.
    Silence(Silence),
    /// End the silence of this number.
    EndSilence(u64),
    /// Somebody looks after an alert.
    Acknowledge(AlertKey, Acknowledgement),
    /// Nobody does any more.
    Unacknowledge(AlertKey),
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// A silence holds, or will.
    Silence(SilenceRow),
    /// The alert is acknowledged.
    Acknowledged(Acknowledgement),
    /// What was to end has ended.
    Ended,
}

impl Wanted {
    fn holds(&self, key: &AlertKey, entry: &Entry) -> bool {
        self.state.is_none_or(|state| state == entry.state)
            && self.rule.as_ref().is_none_or(|rule| *rule == key.rule)
            && self.node.as_ref().is_none_or(|node| node.as_str() == key.scope.node())
    }
}

impl Core {
    /// All alerts that stand, as far as they are wanted.
    #[must_use]
    pub fn alerts_page(&self, now: Wall, wanted: &Wanted) -> AlertsPage {
        let entries = self.alerts.entries().filter(|(key, entry)| wanted.holds(key, entry));
        let mut alerts: Vec<_> =
            entries.map(|(key, entry)| self.alert_row(now, key, entry)).collect();
        // Stable: those alike stay in order of their keys.
        alerts.sort_by_key(|row| (order(row.state), Reverse(row.severity)));
        AlertsPage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(now.0),
            ready: self.ready,
            alerts,
        }
    }

    fn alert_row(&self, now: Wall, key: &AlertKey, entry: &Entry) -> AlertRow {
        let told = entry.told.as_deref();
        let (about, severity) = self.about(key, told);
        let mut notices = self.changes.iter().rev().filter(|notice| notice.key == *key);
        let context = notices.find_map(|notice| notice.context.as_deref());
        AlertRow {
            key: key.clone(),
            state: entry.state,
            since_seconds: seconds(entry.since.0),
            firing_since_seconds: entry.firing_since.map(|since| seconds(since.0)),
            severity,
            summary: told.map(|told| told.summary.clone()).unwrap_or_default(),
            runbook: about.runbook,
            data: entry.data,
            flaps: entry.flaps,
            acknowledged: self.silences.acknowledged(now, key).cloned(),
            silenced_by: self.silences.holding(now, key, severity).collect(),
            evidence: told.map(|told| told.evidence.clone()),
            context: context.cloned(),
        }
    }

    /// All silences that hold or are yet to begin.
    #[must_use]
    pub fn silences_page(&self) -> SilencesPage {
        SilencesPage { silences: self.silences.rows() }
    }

    /// Does what somebody wants done about alerts. Receivers hear what follows within a second.
    ///
    /// # Errors
    /// When it cannot hold, or there is nothing that it is about.
    pub fn on_order(&mut self, now: Wall, order: Order) -> Result<Done, Refused> {
        let done = match order {
            Order::Silence(silence) => self.silences.add(now, silence).map(Done::Silence),
            Order::EndSilence(id) => {
                self.silences.end(id).then_some(Done::Ended).ok_or(Refused::NoSilence(id))
            }
            Order::Acknowledge(key, of) => {
                let state = self.alerts.state(&key);
                let taken = self.silences.acknowledge(now, (key.clone(), state), of.clone());
                if taken.is_ok() && state == AlertState::Firing {
                    self.announce((now, Duration::ZERO), key, Change { from: state, to: state });
                }
                taken.map(|()| Done::Acknowledged(of))
            }
            Order::Unacknowledge(key) => {
                let ended = self.silences.unacknowledge(&key);
                ended.then_some(Done::Ended).ok_or(Refused::NotAcknowledged(Box::new(key)))
            }
        }?;
        self.unsaved.touch();
        Ok(done)
    }
}

const fn order(state: AlertState) -> u8 {
    match state {
        AlertState::Firing => 0,
        AlertState::Pending => 1,
        AlertState::Resolved => 2,
        AlertState::Inactive | AlertState::Insufficient | AlertState::NoData => 3,
    }
}
