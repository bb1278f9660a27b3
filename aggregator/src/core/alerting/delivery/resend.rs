//! What one Alertmanager is still to be sent: every active alert, again and again.
//!
//! An Alertmanager expires alerts, so all alerts are resent in rounds of posts, as Prometheus does.
//! Changes are sent at once. An end is sent until it was accepted, and once more with the next
//! round. After a failure everything is resent, since it may have been a restart.
//!
//! DESIGN A29.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::notifications::{ALERTS_A_POST_MAX, ENDS_AFTER_MIN, RESENDS_MISSED_MAX};
use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::time::{Mono, Now, Wall};
use serde::{Deserialize, Serialize};

use super::alertmanager_alert::AlertmanagerAlert;
use super::receiver::{Receiver, Waits};
use super::stats::ReceiverCounts;

/// So often an end is sent.
const END_POSTS: u8 = 2;

/// An alert that fires, or whose end was not sent to all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReportedAlert {
    pub(super) alert: AlertmanagerAlert,
    pub(super) severity: Severity,
    pub(super) routes: Vec<String>,
    /// Whether a silence or an acknowledgement holds for it.
    pub(super) silenced: bool,
    /// Since when its present state is known.
    pub(super) known_at: Wall,
    pub(super) ended_at: Option<Wall>,
}

/// An alert under one severity: that is one of its labels, so under another it is another alert
/// to an Alertmanager.
pub(super) type LabelledAlert = (AlertKey, Severity);

pub(super) type ReportedAlerts = BTreeMap<LabelledAlert, Arc<ReportedAlert>>;

/// The state of one alert in one Alertmanager.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct PostedState {
    /// That it fires; until the end was sent.
    firing: bool,
    /// How often its present state.
    present: u8,
}

/// The state of one Alertmanager, and the round of posts under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Resend {
    states: BTreeMap<LabelledAlert, PostedState>,
    /// Not yet sent; a restart begins with a round that holds them.
    #[serde(skip)]
    urgent: BTreeSet<LabelledAlert>,
    #[serde(skip)]
    next_at: Mono,
    #[serde(skip)]
    round: Option<ResendRound>,
    /// The alerts of the post on its way, and whether they had ended.
    #[serde(skip)]
    posted: Vec<(LabelledAlert, bool)>,
}

#[derive(Clone, Debug)]
struct ResendRound {
    /// When the one after it begins.
    next_at: Mono,
    /// Alerts up to this one were posted in it.
    after: Option<LabelledAlert>,
}

impl Resend {
    /// An alert has changed to its present state.
    pub(super) fn on_move(
        &mut self,
        key: &LabelledAlert,
        reported: &ReportedAlert,
        tally: &mut ReceiverCounts,
    ) {
        let state =
            // Of an alert that it did not know, no earlier state is superseded.
            self.states.entry(key.clone()).or_insert(PostedState { firing: false, present: 1 });
        if state.present == 0 {
            tally.count("superseded");
        }
        state.present = 0;
        if reported.silenced && !(reported.ended_at.is_some() && state.firing) {
            tally.count("suppressed");
            // As if it had been sent, so that nothing waits for it.
            state.present = END_POSTS;
        } else {
            self.urgent.insert(key.clone());
        }
    }

    /// Whether it is still to be sent an alert.
    fn wants(&self, key: &LabelledAlert, reported: &ReportedAlert, receiver: &Receiver) -> bool {
        let state = self.states.get(key).copied().unwrap_or_default();
        let is_meant = receiver.is_meant(reported.severity, &reported.routes);
        match reported.ended_at {
            // A receiver of the begin is sent the end, whatever the rule's routes are by then.
            Some(_) => (is_meant || state.firing) && state.present < END_POSTS,
            None => is_meant && (state.firing || !reported.silenced),
        }
    }

    /// Whether it was sent that an alert fires, and no end.
    pub(super) fn is_notified(&self, key: &LabelledAlert) -> bool {
        self.states.get(key).is_some_and(|state| state.firing)
    }

    /// Whether it was never sent the present state of an alert.
    pub(super) fn misses(&self, key: &LabelledAlert) -> bool {
        self.states.get(key).is_some_and(|state| state.present == 0)
    }

    /// Whether it was sent everything about an alert that has ended.
    pub(super) fn is_done_with(&self, key: &LabelledAlert) -> bool {
        self.states.get(key).is_none_or(|state| state.present >= END_POSTS)
    }

    pub(super) fn evict(&mut self, key: &LabelledAlert) {
        self.states.remove(key);
        self.urgent.remove(key);
    }

    /// The next post, if there is one to make now.
    pub(super) fn next(
        &mut self,
        now: Now,
        receiver: &Receiver,
        resend_every: Duration,
        reported_alerts: &ReportedAlerts,
    ) -> Option<Vec<u8>> {
        if self.round.is_none() && now.mono >= self.next_at {
            self.round = Some(ResendRound { next_at: now.mono.plus(resend_every), after: None });
        }
        let mut keys = self.of_round(receiver, reported_alerts);

        // A round brings all alerts, those that have changed
        // among them. In between only the latter are sent.
        if keys.is_empty() {
            self.end_round();
            keys = self.of_urgent(receiver, reported_alerts);
        }

        // What is left of the urgent ones is not meant for it
        // any more, and would make it due at once for ever.
        if keys.is_empty() {
            self.urgent.clear();
            return None;
        }

        let ends_at = now.wall.plus((resend_every * RESENDS_MISSED_MAX).max(ENDS_AFTER_MIN));

        let alerts_due = keys.into_iter().filter_map(|key| {
            let reported = reported_alerts.get(&key)?;
            Some((key, reported.ended_at.is_some(), reported))
        });

        let (mut posted, mut alerts) = (Vec::new(), Vec::new());

        for (key, ended, reported) in alerts_due {
            alerts.push(reported.alert.to_json(reported.ended_at.unwrap_or(ends_at)));
            posted.push((key, ended));
        }

        self.posted = posted;
        Some(serde_json::to_vec(&alerts).expect("a list of maps of text is JSON"))
    }

    fn of_round(
        &self,
        receiver: &Receiver,
        reported_alerts: &ReportedAlerts,
    ) -> Vec<LabelledAlert> {
        let Some(round) = &self.round else { return Vec::new() };
        let from = round.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let left = reported_alerts.range((from, Bound::Unbounded));
        let wanted = left.filter(|(key, reported)| self.wants(key, reported, receiver));
        wanted.take(ALERTS_A_POST_MAX).map(|(key, _)| key.clone()).collect()
    }

    fn of_urgent(
        &self,
        receiver: &Receiver,
        reported_alerts: &ReportedAlerts,
    ) -> Vec<LabelledAlert> {
        let stands = |key: &&LabelledAlert| {
            reported_alerts.get(*key).is_some_and(|reported| self.wants(key, reported, receiver))
        };
        self.urgent.iter().filter(stands).take(ALERTS_A_POST_MAX).cloned().collect()
    }

    /// The post was accepted. Returns since when the states are known that it sent first.
    pub(super) fn on_taken(
        &mut self,
        reported_alerts: &ReportedAlerts,
        tally: &mut ReceiverCounts,
    ) -> Vec<Wall> {
        let mut first = Vec::new();
        for (key, ended) in self.on_posted() {
            // It may have moved meanwhile.
            let reported = reported_alerts.get(&key).filter(|of| of.ended_at.is_some() == ended);
            let state = self.states.entry(key.clone()).or_default();
            state.firing = !ended;
            let Some(reported) = reported else { continue };

            if state.present == 0 {
                tally.count("delivered");
                first.push(reported.known_at);
            }

            state.present = state.present.saturating_add(1);
            self.urgent.remove(&key);
        }

        first
    }

    /// The post was refused: its alerts wait for the next round, so that they hold up no others.
    pub(super) fn on_refused(&mut self) {
        for (key, _) in self.on_posted() {
            self.urgent.remove(&key);
        }
    }

    /// The post came to nothing: the next one begins a round.
    pub(super) fn on_failed(&mut self) {
        self.posted.clear();
        self.round = None;
        self.next_at = Mono(0);
    }

    fn on_posted(&mut self) -> Vec<(LabelledAlert, bool)> {
        let posted = std::mem::take(&mut self.posted);
        if let Some(round) = &mut self.round {
            round.after = posted.last().map(|(key, _)| key.clone());
        }
        // A post with room for more was the last one of its round.
        if posted.len() < ALERTS_A_POST_MAX {
            self.end_round();
        }
        posted
    }

    fn end_round(&mut self) {
        self.next_at = self.round.take().map_or(self.next_at, |round| round.next_at);
    }

    /// What it waits for: something new, or the next round.
    pub(super) fn due_at(&self) -> Mono {
        if self.round.is_some() || !self.urgent.is_empty() { Mono(0) } else { self.next_at }
    }

    /// What it has not been sent.
    pub(super) fn waits(&self, reported_alerts: &ReportedAlerts, receiver: &Receiver) -> Waits {
        let unsent = self.states.iter().filter(|(_, state)| state.present == 0);
        let unsent = unsent.filter_map(|(key, _)| Some((key, reported_alerts.get(key)?)));
        let wanted = unsent.filter(|(key, reported)| self.wants(key, reported, receiver));
        wanted.fold(Waits::default(), |waits, (_, reported)| waits.and(reported.known_at))
    }
}
