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
mod undeliverable;

pub mod fields;
pub mod template;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::notifications::{ALERTS_TOLD_MAX, RESOLVED_AGE_MAX};
use plimsoll_schemas::alert::{AlertKey, AlertState, Notification};
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::time::{Mono, Now, Wall};
use serde::{Deserialize, Serialize};

pub use receiver::{Answer, Body, Post, Receiver, ReceiverKind, Waits};
pub use stats::{ReceiverCounts, ReceiverStats};
pub use undeliverable::Undeliverable;

use crate::core::fleet::Shared;
use alertmanager_alert::AlertmanagerAlert;
use backoff::{Backoff, Jitter};
use queue::{GivenUp, Queue};
use resend::{LabelledAlert, ReportedAlert, ReportedAlerts, Resend};
use undeliverable::UndeliverableLog;

/// Failures after which the receiver cannot have processed the post.
const NOT_HEARD: [&str; 4] = ["connect", "tls", "task", "status_4xx"];

/// What is kept of one receiver.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ReceiverState {
    resend: Resend,
    queue: Queue,
    tally: ReceiverCounts,
    #[serde(skip)]
    backoff: Backoff,
    #[serde(skip)]
    is_on_its_way: bool,
}

/// What is still to be sent to all receivers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Deliveries {
    /// For Alertmanagers; empty where there is none.
    standings: ReportedAlerts,
    states: BTreeMap<String, ReceiverState>,
    undeliverable: UndeliverableLog,
    #[serde(skip)]
    receivers: Vec<Receiver>,
    #[serde(skip)]
    jitter: Jitter,
}

impl Deliveries {
    /// The same, with these receivers from now on. What waits for others becomes undeliverable.
    #[must_use]
    pub fn told_to(mut self, now: Wall, receivers: Vec<Receiver>, seed: u64) -> Self {
        self.jitter = Jitter::new(seed);
        let known = |name: &str| receivers.iter().any(|receiver| *receiver.name == *name);
        let gone: Vec<_> = self.states.extract_if(.., |name, _| !known(name)).collect();
        for (name, state) in gone {
            state.queue.drain().for_each(|(notification, why)| {
                self.undeliverable.push(now, &name, why, (&notification.key, notification.state));
            });
        }
        for receiver in &receivers {
            self.states.entry(receiver.name.to_string()).or_default();
        }
        self.receivers = receivers;
        if !self.has_alertmanagers() {
            self.standings.clear();
        }
        self
    }

    /// Whether the Alertmanagers' state of an alert matches its rule; true if there are no
    /// Alertmanagers.
    pub(crate) fn knows(&self, key: &AlertKey, severity: Severity, routes: &[String]) -> bool {
        let standing = self.standings.get(&(key.clone(), severity));
        !self.has_alertmanagers()
            || standing.is_some_and(|of| of.ended_at.is_none() && of.routes == routes)
    }

    fn has_alertmanagers(&self) -> bool {
        self.receivers.iter().any(|of| matches!(of.kind, ReceiverKind::Alertmanager { .. }))
    }

    /// An alert has changed. The receivers that its rule names, or all, are notified if its
    /// severity is high enough for them: of alerts that begin to fire, that still fire when a
    /// silence ends, that end, and that are acknowledged.
    pub fn on_notification(&mut self, notification: &Notification) {
        let ends = notification.state == AlertState::Resolved;
        let looked_after = notification.is_acknowledgement();
        let fires = notification.state == AlertState::Firing && !looked_after;
        if self.receivers.is_empty() || !(ends || fires || looked_after) {
            return;
        }
        let known_at = texts::wall(notification.at_seconds + notification.late_seconds);
        if self.has_alertmanagers() && !looked_after {
            self.stand(notification, known_at);
        }
        let shared = Shared::from(notification.clone());
        for receiver in &self.receivers {
            let ReceiverKind::Webhook { resolved, acknowledged } = receiver.kind else { continue };
            let Some(ReceiverState { queue, tally, .. }) = self.states.get_mut(&*receiver.name)
            else {
                continue;
            };
            // A receiver that was notified is sent the end, regardless of the rule's present
            // severity and routes.
            let is_meant = receiver.is_meant(notification.severity, &notification.routes)
                || !fires && queue.believes(&notification.key);
            if ends && !(resolved && is_meant) {
                queue.end_untold(&notification.key, tally);
            } else if is_meant && (!looked_after || acknowledged) {
                let no_room = queue.push(&shared, known_at, tally);
                give_up((&mut self.undeliverable, tally), receiver, known_at, no_room);
            }
        }
    }

    /// Takes the state of an alert, for Alertmanagers.
    pub(crate) fn stand(&mut self, notification: &Notification, known_at: Wall) {
        let fires = notification.state != AlertState::Resolved;
        let labelled = (notification.key.clone(), notification.severity);
        // One that was sent as firing must be sent as ended under the same labels.
        let of = |severity| (notification.key.clone(), severity);
        let all = self.standings.range(of(Severity::Info)..=of(Severity::Critical));
        let others = all.map(|(other, _)| other).filter(|other| !fires || **other != labelled);
        let others: Vec<_> = others.cloned().collect();
        self.end_standing((known_at, texts::wall(notification.at_seconds)), others);
        if fires {
            let standing = ReportedAlert {
                alert: AlertmanagerAlert::of(notification),
                severity: notification.severity,
                routes: notification.routes.clone(),
                silenced: notification.silenced,
                known_at,
                ended_at: None,
            };
            self.set_standing(labelled, standing);
        }
    }

    /// Ends all alerts that do not fire.
    pub(crate) fn end_all_but(&mut self, now: Wall, fires: impl Fn(&AlertKey) -> bool) {
        let others = self.standings.keys().filter(|(key, _)| !fires(key));
        let others: Vec<_> = others.cloned().collect();
        self.end_standing((now, now), others);
    }

    fn end_standing(&mut self, (known_at, ended_at): (Wall, Wall), ending: Vec<LabelledAlert>) {
        for labelled in ending {
            let before = self.standings.get(&labelled).filter(|of| of.ended_at.is_none());
            let Some(before) = before.map(|before| (**before).clone()) else { continue };
            let ended_at = Some(ended_at);
            self.set_standing(labelled, ReportedAlert { known_at, ended_at, ..before });
        }
    }

    fn set_standing(&mut self, labelled: LabelledAlert, standing: ReportedAlert) {
        let has_room =
            self.standings.contains_key(&labelled) || self.standings.len() < ALERTS_TOLD_MAX;
        let all =
            self.receivers.iter().filter(|of| matches!(of.kind, ReceiverKind::Alertmanager { .. }));
        for receiver in all {
            let Some(state) = self.states.get_mut(&*receiver.name) else { continue };
            let is_meant = receiver.is_meant(standing.severity, &standing.routes);
            if !is_meant && !state.resend.believes(&labelled) {
                continue;
            }
            if has_room {
                state.resend.on_move(&labelled, &standing, &mut state.tally);
            } else {
                state.tally.count_undeliverable("no_room");
                let letter = (&labelled.0, AlertState::Firing);
                self.undeliverable.push(standing.known_at, &receiver.name, "no_room", letter);
            }
        }
        if has_room {
            self.standings.insert(labelled, standing.into());
        }
    }

    /// Updates which firing alerts are silenced or acknowledged now. An Alertmanager that was not
    /// sent such an alert is not sent it now. One that was sent it is still sent it: otherwise the
    /// alert would expire there, and be reported as resolved.
    pub fn hold_back(&mut self, is_held: impl Fn(&AlertKey, Severity) -> bool) {
        for (key, standing) in &mut self.standings {
            let silenced = is_held(&key.0, standing.severity);
            if standing.ended_at.is_none() && standing.silenced != silenced {
                standing.make_mut().silenced = silenced;
            }
        }
    }

    /// The next post that is to be made now, if any.
    pub fn next_post(&mut self, now: Now) -> Option<Post> {
        for receiver in &self.receivers {
            let Some(state) = self.states.get_mut(&*receiver.name) else { continue };
            if state.is_on_its_way || now.mono < state.backoff.next_at() {
                continue;
            }
            let body = match receiver.kind {
                ReceiverKind::Alertmanager { resend_every } => {
                    let how = (receiver, resend_every);
                    state.resend.next(now, how, &self.standings).map(Body::Alerts)
                }
                ReceiverKind::Webhook { .. } => {
                    for given_up in state.queue.expire(now.wall, &mut state.tally) {
                        let counted = (&mut self.undeliverable, &mut state.tally);
                        give_up(counted, receiver, now.wall, Some(given_up));
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
        let mut told = Vec::new();
        let mut given_up = None;
        match answer {
            Answer::Taken => {
                state.backoff.on_answer();
                state.tally.last_success = Some(now.wall);
                told = state.resend.on_taken(&self.standings, &mut state.tally);
                told.extend(state.queue.on_taken(&mut state.tally));
            }
            Answer::Refused(_) => {
                state.backoff.on_answer();
                state.resend.on_refused();
                given_up = state.queue.on_refused(now);
            }
            Answer::Failed(why, asked) => {
                state.backoff.on_failure(now.mono, asked, &mut self.jitter);
                state.resend.on_failed();
                given_up = state.queue.on_failed(now, !NOT_HEARD.contains(&why));
            }
        }
        give_up((&mut self.undeliverable, &mut state.tally), receiver, now.wall, given_up);
        self.let_go(now.wall);
        told.into_iter().map(|known_at| now.wall.since(known_at)).collect()
    }

    /// Drops alerts whose end was sent to all, or is too old to be sent.
    fn let_go(&mut self, now: Wall) {
        let all =
            self.receivers.iter().filter(|of| matches!(of.kind, ReceiverKind::Alertmanager { .. }));
        let names: Vec<&str> = all.map(|receiver| &*receiver.name).collect();
        let (states, undeliverable) = (&mut self.states, &mut self.undeliverable);
        self.standings.retain(|key, standing| {
            let Some(ended_at) = standing.ended_at else { return true };
            let late = now.since(standing.known_at.max(ended_at)) > RESOLVED_AGE_MAX;
            if !late
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
                    undeliverable.push(now, name, "too_old", (&key.0, AlertState::Resolved));
                }
                state.resend.forget(key);
            }
            false
        });
    }

    /// When [`Self::next_post`] next returns one; `None` while there is nothing to post.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let deadline = |receiver: &Receiver| {
            let state = self.states.get(&*receiver.name).filter(|state| !state.is_on_its_way)?;
            let due_at = match receiver.kind {
                ReceiverKind::Alertmanager { .. } => {
                    (!self.standings.is_empty()).then(|| state.resend.due_at())
                }
                ReceiverKind::Webhook { .. } => state.queue.due_at(),
            };
            due_at.map(|due_at| due_at.max(state.backoff.next_at()))
        };
        self.receivers.iter().filter_map(deadline).min()
    }

    /// Whether every receiver that answers has been sent everything.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.receivers.iter().all(|receiver| {
            self.states.get(&*receiver.name).is_none_or(|state| {
                let is_told = match receiver.kind {
                    ReceiverKind::Alertmanager { .. } => {
                        self.waits(receiver, state).notifications == 0
                    }
                    ReceiverKind::Webhook { .. } => state.queue.is_settled(),
                };
                is_told || state.backoff.is_failing()
            })
        })
    }

    fn waits(&self, receiver: &Receiver, state: &ReceiverState) -> Waits {
        match receiver.kind {
            ReceiverKind::Alertmanager { .. } => state.resend.waits(&self.standings, receiver),
            ReceiverKind::Webhook { .. } => state.queue.waits(),
        }
    }

    /// What became of notifications, by receiver.
    #[must_use]
    pub fn stats(&self) -> Vec<ReceiverStats> {
        let of = |receiver: &Receiver| {
            let state = self.states.get(&*receiver.name)?;
            let (name, tally) = (receiver.name.to_string(), state.tally.clone());
            Some(ReceiverStats { name, tally, waits: self.waits(receiver, state) })
        };
        self.receivers.iter().filter_map(of).collect()
    }

    /// How many notifications were undeliverable, over all receivers.
    pub(crate) fn given_up(&self) -> u64 {
        self.states.values().flat_map(|state| state.tally.undeliverable.values()).sum()
    }

    /// The newest undeliverable notifications, oldest first.
    pub fn undeliverable(&self) -> impl Iterator<Item = &Undeliverable> {
        self.undeliverable.kept()
    }

    /// The next undeliverable notification that is to be sent to the bus.
    pub fn next_unsaid(&mut self) -> Option<Undeliverable> {
        self.undeliverable.next_unsaid()
    }
}

fn give_up(
    (undeliverable, tally): (&mut UndeliverableLog, &mut ReceiverCounts),
    receiver: &Receiver,
    now: Wall,
    given_up: Option<GivenUp>,
) {
    let Some((notification, reason)) = given_up else { return };
    tally.count_undeliverable(reason);
    undeliverable.push(now, &receiver.name, reason, (&notification.key, notification.state));
}

#[cfg(test)]
mod tests;
