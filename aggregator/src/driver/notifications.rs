//! Alert notifications on their way out: changes and events to the bus, posts to the receivers'
//! tasks. The core decides what is due; nothing is retried here.

use std::sync::Arc;

use crate::limits::NOTICE_BYTES_MAX;
use bytes::Bytes;
use plimsoll_bus::{Bus, Outgoing, UnacknowledgedMessage};
use plimsoll_schemas::alert::{AlertState, LatencyHigh, Notice};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::{alert_subject, event_subject, undelivered_subject};
use plimsoll_schemas::time::{Mono, Now};

use super::broker::Broker;
use crate::core::Core;
use crate::core::alerting::DueNotification;
use crate::core::alerting::{Answer, fields};
use crate::io::notify::Notifier;

/// The receivers' tasks, and the mesh whose subjects are published to.
pub(super) struct Notifications {
    mesh: MeshName,
    notifier: Notifier,
}

impl Notifications {
    pub(super) fn new(mesh: MeshName, notifier: Notifier) -> Self {
        Self { mesh, notifier }
    }

    /// The next receiver's answer to a post. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<(Arc<str>, Answer)> {
        self.notifier.next().await
    }

    /// Hands out everything that is due.
    pub(super) fn send(&self, core: &mut Core, broker: &Broker, now: Now) {
        publish_changes(core, broker.bus(), now.mono);
        self.post(core, now);
        if broker.is_connected() {
            self.publish_undeliverable(core, broker.bus());
        }
    }

    fn post(&self, core: &mut Core, now: Now) {
        while let Some(post) = core.next_post(now) {
            let receiver = post.receiver.clone();
            if !self.notifier.post(post) {
                core.on_answer(now, &receiver, Answer::Failed("task", None));
            }
        }
    }

    fn publish_undeliverable(&self, core: &mut Core, bus: &Bus) {
        while let Some(undelivered) = core.next_unsaid() {
            let (receiver, reason) = (&undelivered.receiver, &undelivered.reason);
            let alert = undelivered.key.to_string();
            tracing::warn!(receiver, %reason, alert, "notification undeliverable");
            let payload = Bytes::from(serde_json::to_vec(&undelivered).unwrap_or_default());
            let subject = undelivered_subject(&self.mesh);
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

fn publish_changes(core: &mut Core, bus: &Bus, now: Mono) {
    while let Some(DueNotification { token, notice, again }) = core.notices().next_due(now) {
        if !again {
            log(&notice);
        }
        let Some(payload) = payload(&notice) else {
            core.notices().on_refused(token);
            continue;
        };
        let key = &notice.key;
        let message_id =
            format!("{}-{}-{}-{}", key.rule, key.scope, notice.at_seconds, token).replace(' ', "-");
        let subject = alert_subject(&notice.mesh, &key.rule);
        if bus.try_publish(Outgoing { token, subject, message_id, payload }).is_err() {
            // It is due again when its acknowledgement is overdue.
            return;
        }
    }
    publish_events(core, bus, now);
}

fn publish_events(core: &mut Core, bus: &Bus, now: Mono) {
    while let Some((token, event)) = core.notices().next_event_due(now) {
        let name = LatencyHigh::NAME;
        let Ok(payload) = serde_json::to_vec(&event) else {
            core.notices().on_refused(token);
            continue;
        };
        let key = &event.key;
        let message_id = format!("{name}-{}-{}-{}", key.rule, event.at_seconds, token);
        let subject = event_subject(&event.mesh, name);
        let payload = Bytes::from(payload);
        if bus.try_publish(Outgoing { token, subject, message_id, payload }).is_err() {
            return;
        }
    }
}

/// A notification as published. One that is too large is published without its context.
fn payload(notice: &Notice) -> Option<Bytes> {
    let bytes = serde_json::to_vec(notice).ok()?;
    if bytes.len() <= NOTICE_BYTES_MAX || notice.context.is_none() {
        return Some(Bytes::from(bytes));
    }
    serde_json::to_vec(&Notice { context: None, ..notice.clone() }).ok().map(Bytes::from)
}

/// Logs a change: an alert that ends at INFO, every other at WARN.
fn log(notice: &Notice) {
    let Notice { key, from, state, late_seconds, .. } = notice;
    let (scope, node) = (key.scope.as_str(), key.scope.node());
    let (value, limit) = notice.evidence.value_and_limit();
    let worst = notice.context.as_ref().and_then(|context| context.worst.first());
    let (worst, share) = (worst.map(|worst| worst.node.as_str()), worst.map(|worst| worst.share));
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
                share,
                late_seconds,
                evidence = fields::evidence(notice),
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
    use plimsoll_schemas::alert::{
        AlertContext, AlertKey, AlertState, Evidence, GapEvidence, Scope,
    };
    use plimsoll_schemas::ids::{MeshName, Operation, RuleName};

    use super::*;

    #[test]
    fn a_notification_that_is_too_large_is_published_without_its_context() {
        let key = AlertKey {
            rule: RuleName::new("r").unwrap(),
            scope: Scope::Fleet,
            operation: Operation::new("o").unwrap(),
        };
        let change = (AlertState::Pending, AlertState::Firing);
        let evidence = Evidence::Gap(GapEvidence { gap_samples: 7 });
        let notice = Notice::new(MeshName::new("m").unwrap(), key, change, 1.5, evidence);
        let linked = |bytes: usize| Notice {
            context: Some(Box::new(AlertContext {
                dashboard: Some("x".repeat(bytes)),
                ..AlertContext::default()
            })),
            ..notice.clone()
        };
        let read = |notice: &Notice| -> Notice {
            serde_json::from_slice(&payload(notice).unwrap()).unwrap()
        };
        assert_eq!(read(&linked(60_000)), linked(60_000));
        assert_eq!(read(&linked(NOTICE_BYTES_MAX)), notice);
    }
}
