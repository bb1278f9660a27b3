//! What one Alertmanager is still to be sent: every active alert, again and again.
//!
//! An Alertmanager expires alerts, so all alerts are resent in rounds of posts, as Prometheus does.
//! Changes are sent at once. An end is sent until it was accepted, and once more with the next
//! round. After a failure everything is resent, since it may have been a restart.
//!
//! DESIGN A29.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use crate::limits::notifications::{ALERTS_A_POST_MAX, ENDS_AFTER_MIN, RESENDS_MISSED_MAX};
use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::time::{Mono, Now, Wall};
use serde::{Deserialize, Serialize};

use super::alertmanager_alert::AlertmanagerAlert;
use super::receiver::{Receiver, Waits};
use super::stats::ReceiverCounts;
use crate::core::fleet::Shared;

/// So often an end is sent.
const ENDS_TOLD: u8 = 2;

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

/// All of them, by alert.
pub(super) type ReportedAlerts = BTreeMap<LabelledAlert, Shared<ReportedAlert>>;

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
    heard: BTreeMap<LabelledAlert, PostedState>,
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
        standing: &ReportedAlert,
        tally: &mut ReceiverCounts,
    ) {
        let heard =
            self.heard.entry(key.clone()).or_insert(PostedState { firing: false, present: 1 });
        if heard.present == 0 {
            tally.count("superseded");
        }
        heard.present = 0;
        if standing.silenced && !(standing.ended_at.is_some() && heard.firing) {
            tally.count("suppressed");
            heard.present = ENDS_TOLD;
        } else {
            self.urgent.insert(key.clone());
        }
    }

    /// Whether it is still to be sent an alert.
    fn wants(&self, key: &LabelledAlert, standing: &ReportedAlert, receiver: &Receiver) -> bool {
        let heard = self.heard.get(key).copied().unwrap_or_default();
        let is_meant = receiver.is_meant(standing.severity, &standing.routes);
        match standing.ended_at {
            // A receiver of the begin is sent the end, whatever the rule's routes are by then.
            Some(_) => (is_meant || heard.firing) && heard.present < ENDS_TOLD,
            None => is_meant && (heard.firing || !standing.silenced),
        }
    }

    /// Whether it was sent that an alert fires, and no end.
    pub(super) fn believes(&self, key: &LabelledAlert) -> bool {
        self.heard.get(key).is_some_and(|heard| heard.firing)
    }

    /// Whether it was never sent the present state of an alert.
    pub(super) fn misses(&self, key: &LabelledAlert) -> bool {
        self.heard.get(key).is_some_and(|heard| heard.present == 0)
    }

    /// Whether it was sent everything about an alert that has ended.
    pub(super) fn is_done_with(&self, key: &LabelledAlert) -> bool {
        self.heard.get(key).is_none_or(|heard| heard.present >= ENDS_TOLD)
    }

    pub(super) fn forget(&mut self, key: &LabelledAlert) {
        self.heard.remove(key);
        self.urgent.remove(key);
    }

    /// The next post, if there is one to make now.
    pub(super) fn next(
        &mut self,
        now: Now,
        (receiver, resend_every): (&Receiver, Duration),
        standings: &ReportedAlerts,
    ) -> Option<Vec<u8>> {
        if self.round.is_none() && now.mono >= self.next_at {
            self.round = Some(ResendRound { next_at: now.mono.plus(resend_every), after: None });
        }
        let mut keys = self.of_round(receiver, standings);
        if keys.is_empty() {
            self.end_round();
            keys = self.of_urgent(receiver, standings);
        }
        if keys.is_empty() {
            self.urgent.clear();
            return None;
        }
        let ends_at = now.wall.plus((resend_every * RESENDS_MISSED_MAX).max(ENDS_AFTER_MIN));
        let told = keys.into_iter().filter_map(|key| {
            let standing = standings.get(&key)?;
            Some((key, standing.ended_at.is_some(), standing))
        });
        let (mut posted, mut alerts) = (Vec::new(), Vec::new());
        for (key, ended, standing) in told {
            alerts.push(standing.alert.to_json(standing.ended_at.unwrap_or(ends_at)));
            posted.push((key, ended));
        }
        self.posted = posted;
        Some(serde_json::to_vec(&alerts).expect("a list of maps of text is JSON"))
    }

    fn of_round(&self, receiver: &Receiver, standings: &ReportedAlerts) -> Vec<LabelledAlert> {
        let Some(round) = &self.round else { return Vec::new() };
        let from = round.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let left = standings.range((from, Bound::Unbounded));
        let wanted = left.filter(|(key, standing)| self.wants(key, standing, receiver));
        wanted.take(ALERTS_A_POST_MAX).map(|(key, _)| key.clone()).collect()
    }

    fn of_urgent(&self, receiver: &Receiver, standings: &ReportedAlerts) -> Vec<LabelledAlert> {
        let stands = |key: &&LabelledAlert| {
            standings.get(*key).is_some_and(|standing| self.wants(key, standing, receiver))
        };
        self.urgent.iter().filter(stands).take(ALERTS_A_POST_MAX).cloned().collect()
    }

    /// The post was accepted. Returns since when the states are known that it sent first.
    pub(super) fn on_taken(
        &mut self,
        standings: &ReportedAlerts,
        tally: &mut ReceiverCounts,
    ) -> Vec<Wall> {
        let mut first = Vec::new();
        for (key, ended) in self.on_posted() {
            // It may have moved meanwhile.
            let standing = standings.get(&key).filter(|of| of.ended_at.is_some() == ended);
            let heard = self.heard.entry(key.clone()).or_default();
            heard.firing = !ended;
            let Some(standing) = standing else { continue };
            if heard.present == 0 {
                tally.count("delivered");
                first.push(standing.known_at);
            }
            heard.present = heard.present.saturating_add(1);
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
    pub(super) fn waits(&self, standings: &ReportedAlerts, receiver: &Receiver) -> Waits {
        let unheard = self.heard.iter().filter(|(_, heard)| heard.present == 0);
        let unheard = unheard.filter_map(|(key, _)| Some((key, standings.get(key)?)));
        let wanted = unheard.filter(|(key, standing)| self.wants(key, standing, receiver));
        wanted.fold(Waits::default(), |waits, (_, standing)| waits.and(standing.known_at))
    }
}
