//! Delivery to receivers: which notifications each has still to be sent, and when.
//!
//! Alertmanagers are sent all active alerts again and again; webhooks are sent each change once.
//! One post is under way to a receiver at a time. A notification ends as delivered, superseded by a
//! newer state before it was sent, suppressed, or undeliverable with a reason. It has no other end.
//! This room opens no connection and fills no template; `io::notify` does.
//!
//! DESIGN A28.

mod alertmanager_alert;
mod backoff;
mod queue;
mod receiver;
mod resend;
mod stats;
mod texts;

pub mod fields;
pub mod template;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::notifications::{ALERTS_REPORTED_MAX, RECEIVERS_MAX, RESOLVED_AGE_MAX};
use plimsoll_schemas::alert::{AlertEndReason, AlertKey, AlertState, Notification};
use plimsoll_schemas::random::SplitMix64;
use plimsoll_schemas::rule::{RuleAnnotations, Severity};
use plimsoll_schemas::time::{Mono, Now, Wall};
use serde::{Deserialize, Serialize};

pub use receiver::{Answer, Body, Post, Receiver, ReceiverKind, Waits};
pub use stats::{ReceiverCounts, ReceiverStats, Undeliverable};

use super::record::ReceiverRecord;
use alertmanager_alert::AlertmanagerAlert;
use backoff::RetryState;
use queue::{GivenUp, Queue};
use resend::{LabelledAlert, ReportedAlert, ReportedAlerts, Resend};
use stats::{UndeliverableLog, UnsentState};

/// Failures after which the receiver cannot have processed the post.
const NOT_RECEIVED: [&str; 4] = ["connect", "tls", "task", "status_4xx"];

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ReceiverState {
    resend: Resend,
    queue: Queue,
    tally: ReceiverCounts,
    /// Why its latest post was not taken; `None` if it was.
    #[serde(skip)]
    failure: Option<String>,
    #[serde(skip)]
    retry: RetryState,
    #[serde(skip)]
    is_on_its_way: bool,
}

/// The end of alerts, as Alertmanagers are to be sent it.
#[derive(Clone, Copy)]
struct ReportedEnd {
    known_at: Wall,
    ended_at: Wall,
    /// If it is another reason than that they resolved.
    why: Option<AlertEndReason>,
}

/// What is still to be sent to all receivers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Deliveries {
    /// For Alertmanagers; empty where there is none.
    reported_alerts: ReportedAlerts,
    states: BTreeMap<String, ReceiverState>,
    undeliverable: UndeliverableLog,
    #[serde(skip)]
    receivers: Vec<Receiver>,
    /// Seeded, so that two aggregators do not retry together.
    #[serde(skip)]
    jitter: SplitMix64,
}

impl Deliveries {
    /// What each receiver is owed; of one that is owed nothing there is no entry.
    pub fn record(&self) -> BTreeMap<String, ReceiverRecord> {
        let records = self.states.iter().map(|(name, state)| (name.clone(), state.queue.record()));
        records.filter(|(_, record)| *record != ReceiverRecord::default()).collect()
    }

    /// As it was kept.
    pub fn restored(receivers: BTreeMap<String, ReceiverRecord>) -> Self {
        let state = |record| ReceiverState { queue: Queue::restored(record), ..Default::default() };
        let receivers = receivers.into_iter().take(RECEIVERS_MAX);
        let states = receivers.map(|(name, record)| (name, state(record))).collect();
        Self { states, ..Self::default() }
    }

    /// The same, with these receivers from now on. What waits for others becomes undeliverable.
    pub fn with_receivers(mut self, now: Wall, receivers: Vec<Receiver>, seed: u64) -> Self {
        self.jitter = SplitMix64(seed);
        let known = |name: &str| receivers.iter().any(|receiver| *receiver.name == *name);
        let gone: Vec<_> = self.states.extract_if(.., |name, _| !known(name)).collect();

        for (name, state) in gone {
            state.queue.drain().for_each(|GivenUp { notification, reason }| {
                let Notification { key, state, .. } = &*notification;
                let unsent = UnsentState { key, state: *state, reason, cause: None };
                self.undeliverable.push(now, &name, unsent);
            });
        }

        for receiver in &receivers {
            self.states.entry(receiver.name.to_string()).or_default();
        }
        self.receivers = receivers;
        // An Alertmanager that is configured later is sent anew what fires then.
        if !self.has_alertmanagers() {
            self.reported_alerts.clear();
        }
        self
    }

    /// Whether the Alertmanagers' state of an alert matches its rule; true if there are no
    /// Alertmanagers.
    pub(crate) fn has_reported(
        &self,
        key: &AlertKey,
        severity: Severity,
        routes: &[String],
    ) -> bool {
        let reported = self.reported_alerts.get(&(key.clone(), severity));
        !self.has_alertmanagers()
            || reported.is_some_and(|of| of.ended_at.is_none() && of.routes == routes)
    }

    /// Whether each receiver of alerts with these annotations is one of alerts with those others.
    pub(crate) fn have_receivers_of(
        &self,
        some: &RuleAnnotations,
        other: &RuleAnnotations,
    ) -> bool {
        let is_meant = |of: &RuleAnnotations, by: &Receiver| by.is_meant(of.severity, &of.routes);
        self.receivers.iter().all(|by| !is_meant(some, by) || is_meant(other, by))
    }

    fn has_alertmanagers(&self) -> bool {
        self.receivers.iter().any(|of| matches!(of.kind, ReceiverKind::Alertmanager { .. }))
    }

    /// An alert has changed. The receivers that its rule names, or all, are notified if its
    /// severity is high enough for them: of alerts that begin to fire, that still fire when a
    /// silence ends, that end, and that are acknowledged.
    pub fn on_notification(&mut self, notification: &Notification) {
        let ends = notification.state == AlertState::Resolved;
        let is_acknowledged = notification.is_acknowledgement();
        let fires = notification.state == AlertState::Firing && !is_acknowledged;
        if self.receivers.is_empty() || !(ends || fires || is_acknowledged) {
            return;
        }
        let known_at = texts::wall(notification.at_seconds + notification.late_seconds);
        if self.has_alertmanagers() && !is_acknowledged {
            self.stand(notification, known_at);
        }
        let shared = Arc::new(notification.clone());

        for receiver in &self.receivers {
            let ReceiverKind::Webhook { resolved, acknowledged } = receiver.kind else { continue };
            let Some(state) = self.states.get_mut(&*receiver.name) else { continue };
            let ReceiverState { queue, tally, .. } = state;

            // A receiver that was notified is sent the end, regardless of the rule's present
            // severity and routes.
            let is_meant = receiver.is_meant(notification.severity, &notification.routes)
                || !fires && queue.is_notified(&notification.key);

            if ends && !(resolved && is_meant) {
                queue.end_unsent(&notification.key, tally);
            } else if is_meant && (!is_acknowledged || acknowledged) {
                let no_room = queue.push(&shared, known_at, tally);
                state.give_up(&mut self.undeliverable, receiver, known_at, no_room);
            }
        }
    }

    /// Takes the state of an alert, for Alertmanagers.
    pub(crate) fn stand(&mut self, notification: &Notification, known_at: Wall) {
        let fires = notification.state != AlertState::Resolved;
        let labelled = (notification.key.clone(), notification.severity);
        // One that was sent as firing must be sent as ended under the same labels.
        let of = |severity| (notification.key.clone(), severity);
        let all = self.reported_alerts.range(of(Severity::Info)..=of(Severity::Critical));
        let others = all.map(|(other, _)| other).filter(|other| !fires || **other != labelled);
        let others: Vec<_> = others.cloned().collect();
        let ended_at = texts::wall(notification.at_seconds);
        let end = ReportedEnd { known_at, ended_at, why: notification.ended };
        self.end_reported(end, others);

        if fires {
            let reported = ReportedAlert {
                alert: AlertmanagerAlert::of(notification),
                severity: notification.severity,
                routes: notification.routes.clone(),
                silenced: notification.silenced,
                known_at,
                ended_at: None,
            };
            self.set_reported(labelled, reported);
        }
    }

    pub(crate) fn end_all_but(&mut self, now: Wall, fires: impl Fn(&AlertKey) -> bool) {
        let others = self.reported_alerts.keys().filter(|(key, _)| !fires(key));
        let others: Vec<_> = others.cloned().collect();
        self.end_reported(ReportedEnd { known_at: now, ended_at: now, why: None }, others);
    }

    fn end_reported(&mut self, end: ReportedEnd, ending: Vec<LabelledAlert>) {
        let ReportedEnd { known_at, ended_at, why } = end;
        for labelled in ending {
            let before = self.reported_alerts.get(&labelled).filter(|of| of.ended_at.is_none());
            let Some(before) = before.map(|before| (**before).clone()) else { continue };
            let (ended_at, alert) = (Some(ended_at), before.alert.clone().with_reason(why));
            self.set_reported(labelled, ReportedAlert { alert, known_at, ended_at, ..before });
        }
    }

    fn set_reported(&mut self, labelled: LabelledAlert, reported: ReportedAlert) {
        let has_room = self.reported_alerts.contains_key(&labelled)
            || self.reported_alerts.len() < ALERTS_REPORTED_MAX;
        let all =
            self.receivers.iter().filter(|of| matches!(of.kind, ReceiverKind::Alertmanager { .. }));

        for receiver in all {
            let Some(state) = self.states.get_mut(&*receiver.name) else { continue };
            let is_meant = receiver.is_meant(reported.severity, &reported.routes);
            if !is_meant && !state.resend.is_notified(&labelled) {
                continue;
            }

            if has_room {
                state.resend.on_move(&labelled, &reported, &mut state.tally);
            } else {
                state.tally.count_undeliverable("no_room");
                let dropped = UnsentState {
                    key: &labelled.0,
                    state: AlertState::Firing,
                    reason: "no_room",
                    cause: state.failure.as_deref(),
                };
                self.undeliverable.push(reported.known_at, &receiver.name, dropped);
            }
        }

        if has_room {
            self.reported_alerts.insert(labelled, reported.into());
        }
    }

    /// Updates which firing alerts are silenced or acknowledged now. An Alertmanager that was not
    /// sent such an alert is not sent it now. One that was sent it is still sent it: otherwise the
    /// alert would expire there, and be reported as resolved.
    pub fn hold_back(&mut self, is_held: impl Fn(&AlertKey, Severity) -> bool) {
        for (key, reported) in &mut self.reported_alerts {
            let silenced = is_held(&key.0, reported.severity);
            if reported.ended_at.is_none() && reported.silenced != silenced {
                Arc::make_mut(reported).silenced = silenced;
            }
        }
    }

    pub fn next_post(&mut self, now: Now) -> Option<Post> {
        for receiver in &self.receivers {
            let Some(state) = self.states.get_mut(&*receiver.name) else { continue };
            if state.is_on_its_way || now.mono < state.retry.next_at() {
                continue;
            }

            let body = match receiver.kind {
                ReceiverKind::Alertmanager { resend_every } => {
                    let reported = &self.reported_alerts;
                    state.resend.next(now, receiver, resend_every, reported).map(Body::Alerts)
                }
                ReceiverKind::Webhook { .. } => {
                    // Before the next one is chosen, so that one
                    // which is too old takes no other's turn.
                    for given_up in state.queue.expire(now.wall, &mut state.tally) {
                        let log = &mut self.undeliverable;
                        state.give_up(log, receiver, now.wall, Some(given_up));
                    }
                    let next = state.queue.next(now.mono);
                    next.map(|notification| Body::Notification(Box::new((*notification).clone())))
                }
            };

            if let Some(body) = body {
                state.is_on_its_way = true;
                return Some(Post { receiver: Arc::clone(&receiver.name), body });
            }
        }
        None
    }

    /// Why the post was not taken that [`Self::on_answer`] is about to end, in one line.
    pub fn on_cause(&mut self, name: &str, cause: String) {
        if let Some(state) = self.states.get_mut(name) {
            state.failure = Some(cause);
        }
    }

    /// A post ended. Returns how long after their changes alerts were first sent with it.
    pub fn on_answer(&mut self, now: Now, name: &str, answer: Answer) -> Vec<Duration> {
        let receiver = self.receivers.iter().find(|receiver| *receiver.name == *name);
        let (Some(receiver), Some(state)) = (receiver, self.states.get_mut(name)) else {
            return Vec::new();
        };
        if !std::mem::take(&mut state.is_on_its_way) {
            return Vec::new();
        }
        state.tally.count_post(answer.as_str());
        let mut first_known = Vec::new();
        let mut given_up = None;

        match answer {
            Answer::Taken => {
                state.retry.on_answer();
                state.failure = None;
                state.tally.last_success = Some(now.wall);
                first_known = state.resend.on_taken(&self.reported_alerts, &mut state.tally);
                first_known.extend(state.queue.on_taken(&mut state.tally));
            }
            // A receiver that refuses works: what waits for it does not wait for this one (A28).
            Answer::Refused(_) => {
                state.retry.on_answer();
                state.resend.on_refused();
                given_up = state.queue.on_refused(now);
            }
            Answer::Failed(why, retry_after) => {
                state.retry.on_failure(now.mono, retry_after, &mut self.jitter);
                state.resend.on_failed();
                given_up = state.queue.on_failed(now, !NOT_RECEIVED.contains(&why));
            }
        }

        state.give_up(&mut self.undeliverable, receiver, now.wall, given_up);
        self.let_go(now.wall);
        first_known.into_iter().map(|known_at| now.wall.since(known_at)).collect()
    }

    /// Drops alerts whose end was sent to all, or is too old to be sent.
    fn let_go(&mut self, now: Wall) {
        let all =
            self.receivers.iter().filter(|of| matches!(of.kind, ReceiverKind::Alertmanager { .. }));
        let names: Vec<&str> = all.map(|receiver| &*receiver.name).collect();
        let (states, undeliverable) = (&mut self.states, &mut self.undeliverable);

        self.reported_alerts.retain(|key, reported| {
            let Some(ended_at) = reported.ended_at else { return true };
            let is_outdated = now.since(reported.known_at.max(ended_at)) > RESOLVED_AGE_MAX;

            if !is_outdated
                && names
                    .iter()
                    .any(|name| states.get(*name).is_some_and(|of| !of.resend.is_done_with(key)))
            {
                return true;
            }

            for name in &names {
                let Some(state) = states.get_mut(*name) else { continue };
                if state.resend.misses(key) {
                    state.tally.count_undeliverable("too_old");
                    let unsent = UnsentState {
                        key: &key.0,
                        state: AlertState::Resolved,
                        reason: "too_old",
                        cause: state.failure.as_deref(),
                    };
                    undeliverable.push(now, name, unsent);
                }
                state.resend.evict(key);
            }

            false
        });
    }

    /// When [`Self::next_post`] next returns one; `None` while there is nothing to post.
    pub fn next_deadline(&self) -> Option<Mono> {
        let deadline = |receiver: &Receiver| {
            let state = self.states.get(&*receiver.name).filter(|state| !state.is_on_its_way)?;
            let due_at = match receiver.kind {
                ReceiverKind::Alertmanager { .. } => {
                    (!self.reported_alerts.is_empty()).then(|| state.resend.due_at())
                }
                ReceiverKind::Webhook { .. } => state.queue.due_at(),
            };
            due_at.map(|due_at| due_at.max(state.retry.next_at()))
        };
        self.receivers.iter().filter_map(deadline).min()
    }

    /// Whether every receiver that answers has been sent everything.
    pub fn is_settled(&self) -> bool {
        self.receivers.iter().all(|receiver| {
            self.states.get(&*receiver.name).is_none_or(|state| {
                let is_sent = match receiver.kind {
                    ReceiverKind::Alertmanager { .. } => {
                        self.waits(receiver, state).notifications == 0
                    }
                    ReceiverKind::Webhook { .. } => state.queue.is_settled(),
                };
                is_sent || state.retry.is_failing()
            })
        })
    }

    fn waits(&self, receiver: &Receiver, state: &ReceiverState) -> Waits {
        match receiver.kind {
            ReceiverKind::Alertmanager { .. } => {
                state.resend.waits(&self.reported_alerts, receiver)
            }
            ReceiverKind::Webhook { .. } => state.queue.waits(),
        }
    }

    pub fn stats(&self) -> Vec<ReceiverStats> {
        let of = |receiver: &Receiver| {
            let state = self.states.get(&*receiver.name)?;
            let (name, tally) = (receiver.name.to_string(), state.tally.clone());
            let failure = state.failure.clone();
            Some(ReceiverStats { name, tally, failure, waits: self.waits(receiver, state) })
        };
        self.receivers.iter().filter_map(of).collect()
    }

    /// How many notifications were undeliverable, over all receivers.
    pub(crate) fn given_up(&self) -> u64 {
        self.states.values().flat_map(|state| state.tally.undeliverable.values()).sum()
    }

    /// The newest undeliverable notifications, oldest first.
    pub fn undeliverable(&self) -> impl Iterator<Item = &Undeliverable> {
        self.undeliverable.kept.iter()
    }

    pub fn next_unreported(&mut self) -> Option<Undeliverable> {
        self.undeliverable.unreported.pop_front()
    }
}

impl ReceiverState {
    /// Counts and logs what the receiver will not be sent, if it is anything.
    fn give_up(
        &mut self,
        log: &mut UndeliverableLog,
        receiver: &Receiver,
        now: Wall,
        given_up: Option<GivenUp>,
    ) {
        let Some(GivenUp { notification, reason }) = given_up else { return };
        self.tally.count_undeliverable(reason);
        let Notification { key, state, .. } = &*notification;
        let unsent = UnsentState { key, state: *state, reason, cause: self.failure.as_deref() };
        log.push(now, &receiver.name, unsent);
    }
}

#[cfg(test)]
mod tests;
