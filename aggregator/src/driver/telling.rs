//! What the driver tells: notices on the bus, confirmations to nodes, and the log.

use crate::limits::{CONFIRM_PAUSE, CONFIRMATIONS_AT_ONCE_MAX, NOTICE_BYTES_MAX};
use bytes::Bytes;
use plimsoll_bus::{Aside, Outgoing};
use plimsoll_schemas::alert::{LatencyHigh, Notice};
use plimsoll_schemas::subject::{alert_subject, confirm_subject, event_subject};
use plimsoll_schemas::time::{Mono, Now};

use super::Driver;
use crate::core::alerting::DueNotification;

impl Driver {
    /// Tells nodes what is stored, some at a time: what a checkpoint of a large fleet confirms
    /// must neither hold up this loop nor find a listener's buffer full.
    pub(super) fn confirm(&mut self, now: Mono) {
        self.confirmations.offer(self.keeper.take_confirmations());
        if self.delivery.is_none() {
            return self.confirmations.discard();
        }
        if now < self.confirms_at || self.confirmations.is_empty() {
            return;
        }
        self.confirms_at = now.plus(CONFIRM_PAUSE);
        let (bus, mesh) = (&self.bus, &self.mesh);
        let mut room = CONFIRMATIONS_AT_ONCE_MAX;
        let limits = self.core.limits();
        self.confirmations.say_all(now, &limits, |node, payload| {
            let subject = confirm_subject(mesh, node);
            let aside = Aside { subject, headers: Vec::new(), payload };
            let said = room > 0 && bus.tell(aside).is_ok();
            room -= usize::from(said);
            said
        });
    }

    pub(super) fn send_notices(&mut self, now: Now) {
        while let Some(DueNotification { token, notice, again }) =
            self.core.notices().next_due(now.mono)
        {
            if !again {
                log(&notice);
            }
            let Some(payload) = payload(&notice) else {
                self.core.notices().on_refused(token);
                continue;
            };
            let key = &notice.key;
            let message_id = format!("{}-{}-{}-{}", key.rule, key.scope, notice.at_seconds, token)
                .replace(' ', "-");
            let subject = alert_subject(&notice.mesh, &key.rule);
            if self.bus.try_publish(Outgoing { token, subject, message_id, payload }).is_err() {
                // It is due again when its acknowledgement is overdue.
                return;
            }
        }
        self.send_events(now);
    }

    fn send_events(&mut self, now: Now) {
        while let Some((token, event)) = self.core.notices().next_event_due(now.mono) {
            let name = LatencyHigh::NAME;
            let Ok(payload) = serde_json::to_vec(&event) else {
                self.core.notices().on_refused(token);
                continue;
            };
            let key = &event.key;
            let message_id = format!("{name}-{}-{}-{}", key.rule, event.at_seconds, token);
            let subject = event_subject(&event.mesh, name);
            let payload = Bytes::from(payload);
            if self.bus.try_publish(Outgoing { token, subject, message_id, payload }).is_err() {
                return;
            }
        }
    }

    pub(super) fn tell_absence(&mut self, now: Mono) {
        match self.delivery {
            Some(_) if !self.silent => self.absence.on_present(),
            _ => self.absence.on_absent(now),
        }
        if let Some(away) = self.absence.on_deadline(now) {
            let (url, away_s) = (&self.url, away.as_secs());
            tracing::warn!(
                url,
                away_s,
                "broker is away; check bus.url, its credentials, and the broker"
            );
        }
    }

    pub(super) fn tell_conflict(&mut self, now: Mono) {
        if let Some(node) = self.core.next_conflict(now) {
            tracing::warn!(
                %node,
                "two nodes with one name both send; give one of them another `name` in its settings"
            );
        }
    }

    pub(super) fn tell_readiness(&mut self) {
        if self.core.is_ready() && !std::mem::replace(&mut self.was_ready, true) {
            // Whoever was told of readiness must not be shown a part of the past.
            self.looks.forget();
            tracing::info!("the stream's past has been read");
        }
    }
}

/// A notice as it is sent. One that is too large goes without its context rather than not at all.
fn payload(notice: &Notice) -> Option<Bytes> {
    let bytes = serde_json::to_vec(notice).ok()?;
    if bytes.len() <= NOTICE_BYTES_MAX || notice.context.is_none() {
        return Some(Bytes::from(bytes));
    }
    serde_json::to_vec(&Notice { context: None, ..notice.clone() }).ok().map(Bytes::from)
}

fn log(notice: &Notice) {
    let Notice { key, from, state, evidence, late_seconds, .. } = notice;
    let (rule, scope, operation) = (&key.rule, &key.scope, &key.operation);
    let (from, to) = (from.as_str(), state.as_str());
    let (value, limit) = evidence.value_and_limit();
    let worst = notice.context.as_ref().and_then(|context| context.worst.first());
    let (worst, share) = (worst.map(|worst| worst.node.as_str()), worst.map(|worst| worst.share));
    let evidence = serde_json::to_string(evidence).unwrap_or_default();
    tracing::warn!(
        %rule,
        %scope,
        %operation,
        from,
        to,
        value,
        limit,
        worst,
        share,
        late_seconds,
        evidence,
        "alert changed"
    );
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::alert::{AlertKey, AlertState, Context, Evidence, GapEvidence, Scope};
    use plimsoll_schemas::ids::{MeshName, Operation, RuleName};

    use super::*;

    #[test]
    fn a_notice_that_is_too_large_goes_without_its_context() {
        let key = AlertKey {
            rule: RuleName::new("r").unwrap(),
            scope: Scope::Fleet,
            operation: Operation::new("o").unwrap(),
        };
        let change = (AlertState::Pending, AlertState::Firing);
        let evidence = Evidence::Gap(GapEvidence { gap_samples: 7 });
        let notice = Notice::new(MeshName::new("m").unwrap(), key, change, 1.5, evidence);
        let linked = |bytes: usize| Notice {
            context: Some(Box::new(Context {
                dashboard: Some("x".repeat(bytes)),
                ..Context::default()
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
