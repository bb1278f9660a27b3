//! Alert notifications on their way out: changes and events to the bus, posts to the receivers'
//! tasks. The core decides what is due; nothing is retried here.
//!
//! DESIGN A45.

use std::time::Duration;

use crate::limits::NOTIFICATION_BYTES_MAX;
use crate::limits::notifications::CHANGES_LOGGED_MAX;
use bytes::Bytes;
use plimsoll_bus::{Bus, Publish, Ticket, UnacknowledgedMessage};
use plimsoll_schemas::alert::{AlertState, LatencyHigh, Notification, Scope};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::{alert_subject, event_subject, undeliverable_subject};
use plimsoll_schemas::time::{Mono, Now};

use super::broker::Broker;
use crate::core::Core;
use crate::core::alerting::DueNotification;
use crate::core::alerting::{Answer, fields};
use crate::io::notify::{Notifier, PostOutcome};

const SECOND: Duration = Duration::from_secs(1);

/// The receivers' tasks, and the mesh whose subjects are published to.
pub(super) struct Notifications {
    mesh: MeshName,
    notifier: Notifier,
    log: ChangeLog,
}

/// Changes of alerts in the log: of nodes only this many a second. A fault of the broker changes
/// alerts of all nodes at once, and journald drops lines of a service that logs too many, important
/// ones too.
#[derive(Debug, Default)]
struct ChangeLog {
    since: Mono,
    lines: u32,
    left_out: u64,
}

impl Notifications {
    pub(super) fn new(mesh: MeshName, notifier: Notifier) -> Self {
        Self { mesh, notifier, log: ChangeLog::default() }
    }

    /// The next receiver's answer to a post. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<PostOutcome> {
        self.notifier.next().await
    }

    /// Hands out everything that is due.
    pub(super) fn send(&mut self, core: &mut Core, broker: &Broker, now: Now) {
        publish_changes(core, &broker.bus, now.mono, &mut self.log);
        self.post(core, now);
        if broker.is_connected() {
            self.publish_undeliverable(core, &broker.bus);
        }
    }

    fn post(&self, core: &mut Core, now: Now) {
        while let Some(post) = core.next_post(now) {
            let receiver = post.receiver.clone();
            // The receiver's task is being started again; the core tries this post again later.
            if !self.notifier.post(post) {
                let answer = Answer::Failed("task", None);
                core.on_cause(&receiver, answer.explained(""));
                core.on_answer(now, &receiver, answer);
            }
        }
    }

    fn publish_undeliverable(&self, core: &mut Core, bus: &Bus) {
        while let Some(undeliverable) = core.next_unreported() {
            let (receiver, reason) = (&undeliverable.receiver, &undeliverable.reason);
            let (alert, cause) = (undeliverable.key.to_string(), &undeliverable.cause);
            tracing::warn!(receiver, %reason, cause, alert, "notification undeliverable");
            let payload = Bytes::from(serde_json::to_vec(&undeliverable).unwrap_or_default());
            let subject = undeliverable_subject(&self.mesh);
            // If this is lost, the API still lists it.
            drop(bus.publish_unacknowledged(UnacknowledgedMessage {
                subject,
                headers: Vec::new(),
                payload,
            }));
        }
    }

    pub(super) async fn end(self) {
        self.notifier.end().await;
    }
}

fn publish_changes(core: &mut Core, bus: &Bus, now: Mono, changes: &mut ChangeLog) {
    changes.on_turn(now);
    while let Some(DueNotification { token, notification, again }) =
        core.notifications().next_due(now)
    {
        if !again && changes.admits(&notification.key.scope) {
            log(&notification);
        }

        let Some(payload) = payload(&notification) else {
            core.notifications().on_refused(token);
            continue;
        };

        // By its identifier a broker recognises a repetition.
        // Two changes within one second differ in the token.
        let key = &notification.key;
        let message_id =
            format!("{}-{}-{}-{}", key.rule, key.scope, notification.at_seconds, token)
                .replace(' ', "-");
        let subject = alert_subject(&notification.mesh, &key.rule);
        let (ticket, headers) = (Ticket(token), Vec::new());

        if bus.try_publish(Publish { ticket, subject, message_id, headers, payload }).is_err() {
            // It is due again when its acknowledgement is overdue.
            return;
        }
    }

    publish_events(core, bus, now);
}

fn publish_events(core: &mut Core, bus: &Bus, now: Mono) {
    while let Some((token, event)) = core.notifications().next_event_due(now) {
        let name = LatencyHigh::NAME;

        let Ok(payload) = serde_json::to_vec(&event) else {
            core.notifications().on_refused(token);
            continue;
        };

        let key = &event.key;
        let message_id = format!("{name}-{}-{}-{}", key.rule, event.at_seconds, token);
        let subject = event_subject(&event.mesh, name);
        let payload = Bytes::from(payload);
        let (ticket, headers) = (Ticket(token), Vec::new());
        if bus.try_publish(Publish { ticket, subject, message_id, headers, payload }).is_err() {
            return;
        }
    }
}

/// A notification as published. One that is too large is published without its context.
fn payload(notification: &Notification) -> Option<Bytes> {
    let bytes = serde_json::to_vec(notification).ok()?;
    if bytes.len() <= NOTIFICATION_BYTES_MAX || notification.context.is_none() {
        return Some(Bytes::from(bytes));
    }
    serde_json::to_vec(&Notification { context: None, ..notification.clone() })
        .ok()
        .map(Bytes::from)
}

impl ChangeLog {
    /// Whether a change is to be logged: each of the fleet is.
    fn admits(&mut self, scope: &Scope) -> bool {
        match scope {
            Scope::Fleet => return true,
            Scope::Node(_) if self.lines < CHANGES_LOGGED_MAX => self.lines += 1,
            Scope::Node(_) => {
                self.left_out += 1;
                return false;
            }
        }
        true
    }

    /// Begins another second, and logs how many changes were left out in the one before.
    fn on_turn(&mut self, now: Mono) {
        if now.since(self.since) < SECOND {
            return;
        }
        if self.left_out > 0 {
            let left_out = self.left_out;
            tracing::warn!(left_out, "further alerts of nodes changed; see /api/v1/alerts");
        }
        *self = Self { since: now, ..Self::default() };
    }
}

/// Logs a change: an alert that ends at INFO, every other at WARN.
fn log(notification: &Notification) {
    let Notification { key, from, state, late_seconds, .. } = notification;
    let (scope, node) = (key.scope.as_str(), key.scope.node());
    let (value, limit) = notification.evidence.value_and_limit();
    let worst = notification.context.as_ref().and_then(|context| context.worst.first());
    let share_of_slow = worst.map(|worst| worst.share_of_slow);
    let over_ratio = worst.map(|worst| worst.over_ratio);
    let worst = worst.map(|worst| worst.node.as_str());

    macro_rules! log_change {
        ($level:ident) => {
            tracing::$level!(
                rule = key.rule.as_str(),
                scope,
                node,
                operation = key.operation.as_str(),
                from = from.as_str(),
                to = state.as_str(),
                value,
                limit,
                worst,
                share_of_slow,
                over_ratio,
                late_seconds,
                evidence = fields::evidence(notification),
                "alert changed"
            )
        };
    }

    match state {
        AlertState::Resolved | AlertState::Inactive => log_change!(info),
        _ => log_change!(warn),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::alert::{AlertContext, AlertKey, Evidence, GapEvidence};
    use plimsoll_schemas::ids::{NodeName, Operation, RuleName};

    use super::*;

    #[test]
    fn a_fault_of_all_nodes_does_not_flood_the_log() {
        let mut log = ChangeLog::default();
        let node = Scope::Node(NodeName::new("n").unwrap());
        let mut logged = |at: u64| {
            log.on_turn(Mono(at));
            let lines = (0..5_000).filter(|_| log.admits(&node)).count();
            assert!(log.admits(&Scope::Fleet), "those of the fleet always");
            (lines, log.left_out)
        };
        let most = usize::try_from(CHANGES_LOGGED_MAX).unwrap();
        assert_eq!(logged(5_000_000_000), (most, 5_000 - u64::from(CHANGES_LOGGED_MAX)));
        assert_eq!(logged(5_900_000_000).0, 0, "the same second");
        assert_eq!(logged(6_000_000_000), (most, 5_000 - u64::from(CHANGES_LOGGED_MAX)));
    }

    #[test]
    fn a_notification_that_is_too_large_is_published_without_its_context() {
        let key = AlertKey {
            rule: RuleName::new("r").unwrap(),
            scope: Scope::Fleet,
            operation: Operation::new("o").unwrap(),
        };
        let change = (AlertState::Pending, AlertState::Firing);
        let evidence = Evidence::Gap(GapEvidence { gap_samples: 7 });
        let notification =
            Notification::new(MeshName::new("m").unwrap(), key, change, 1.5, evidence);
        let linked = |bytes: usize| Notification {
            context: Some(Box::new(AlertContext {
                dashboard: Some("x".repeat(bytes)),
                ..AlertContext::default()
            })),
            ..notification.clone()
        };
        let read = |notification: &Notification| -> Notification {
            serde_json::from_slice(&payload(notification).unwrap()).unwrap()
        };
        assert_eq!(read(&linked(60_000)), linked(60_000));
        assert_eq!(read(&linked(NOTIFICATION_BYTES_MAX)), notification);
    }
}
