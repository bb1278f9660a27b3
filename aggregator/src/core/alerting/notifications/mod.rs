//! Notifications and events on their way to the bus: kept until the broker has them, bounded,
//! counted.

mod queue;

use plimsoll_schemas::alert::{AlertState, Evidence, LatencyHigh, Notification};
use plimsoll_schemas::time::{Mono, Wall, seconds};
use queue::Queue;
use serde::{Deserialize, Serialize};

use crate::core::alerting::alert::Change;

/// What became of notifications so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationCounts {
    pub raised: u64,
    /// Acknowledged by the broker.
    pub delivered: u64,
    /// Undeliverable: pushed out by newer ones, or refused for good.
    pub undeliverable: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DueNotification {
    /// What an acknowledgement names.
    pub token: u64,
    pub notification: Notification,
    /// True when it was sent before.
    pub again: bool,
}

/// Notifications and events that the broker has not acknowledged.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Notifications {
    waiting: Queue<Notification>,
    /// After these: none holds up a notification, or pushes one out.
    #[serde(default)]
    events: Queue<LatencyHigh>,
    next_token: u64,
    pub(in crate::core) counts: NotificationCounts,
    #[serde(default)]
    pub(in crate::core) event_counts: NotificationCounts,
}

impl Notifications {
    /// Queues a notification. When there is no room the oldest is dropped, since the newest state
    /// matters. A node's notification that is no end is dropped first, then any of a node, then one
    /// of the fleet.
    pub fn push(&mut self, notification: Notification) {
        self.next_token += 1;
        self.counts.raised += 1;
        self.counts.undeliverable += u64::from(self.waiting.push(self.next_token, notification));
    }

    /// Takes an event; when there is no room the oldest goes.
    pub fn push_event(&mut self, event: LatencyHigh) {
        self.next_token += 1;
        self.event_counts.raised += 1;
        self.event_counts.undeliverable += u64::from(self.events.push(self.next_token, event));
    }

    /// The next notification to send, with its token: new, or overdue for an acknowledgement. The
    /// fleet's go first.
    pub fn next_due(&mut self, now: Mono) -> Option<DueNotification> {
        let (token, notification, again) = self.waiting.next_due(now)?;
        Some(DueNotification { token, notification, again })
    }

    pub fn next_event_due(&mut self, now: Mono) -> Option<(u64, LatencyHigh)> {
        let (token, event, _) = self.events.next_due(now)?;
        Some((token, event))
    }

    /// The broker has it.
    pub fn on_delivered(&mut self, token: u64) {
        self.counts.delivered += u64::from(self.waiting.remove(token));
        self.event_counts.delivered += u64::from(self.events.remove(token));
    }

    /// The broker will never take it.
    pub fn on_refused(&mut self, token: u64) {
        self.counts.undeliverable += u64::from(self.waiting.remove(token));
        self.event_counts.undeliverable += u64::from(self.events.remove(token));
    }

    /// True when no notification is on its way; no caller waits for events.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// The event that a change of an alert is, if its budget's latency has just become too high.
pub(super) fn latency_high(
    at: Wall,
    notification: &Notification,
    change: Change,
) -> Option<LatencyHigh> {
    let rested = matches!(change.from, AlertState::Inactive | AlertState::Resolved);
    let begins = rested && matches!(change.to, AlertState::Pending | AlertState::Firing);
    let Evidence::Latency(evidence) = &notification.evidence else { return None };
    begins.then(|| LatencyHigh {
        mesh: notification.mesh.clone(),
        key: notification.key.clone(),
        at_seconds: seconds(at.0),
        evidence: evidence.clone(),
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::alert::{
        AlertKey, AlertState, Evidence, GapEvidence, LatencyEvidence, Scope,
    };
    use plimsoll_schemas::budget::Window;
    use plimsoll_schemas::ids::{MeshName, NodeName, Operation, RuleName};
    use plimsoll_schemas::limits::delivery::ACK_WAIT;

    use super::*;
    use crate::limits::NOTIFICATIONS_MAX;

    fn notification(at_seconds: f64) -> Notification {
        let key = AlertKey {
            rule: RuleName::new("r").unwrap(),
            scope: Scope::Fleet,
            operation: Operation::new("o").unwrap(),
        };
        let change = (AlertState::Pending, AlertState::Firing);
        let evidence = Evidence::Gap(GapEvidence { gap_samples: 7 });
        Notification::new(MeshName::new("m").unwrap(), key, change, at_seconds, evidence)
    }

    #[test]
    fn a_notification_is_sent_again_until_the_broker_has_it() {
        let mut notifications = Notifications::default();
        notifications.push(notification(1.0));
        let due =
            |again| Some(DueNotification { token: 1, notification: notification(1.0), again });
        assert_eq!(notifications.next_due(Mono(0)), due(false));
        assert_eq!(notifications.next_due(Mono(1)), None);
        assert_eq!(notifications.next_due(Mono(0).plus(ACK_WAIT)), due(true));
        notifications.on_delivered(1);
        notifications.on_delivered(1);
        assert!(notifications.is_empty());
        assert_eq!(
            notifications.counts,
            NotificationCounts { raised: 1, delivered: 1, undeliverable: 0 }
        );
    }

    #[test]
    fn past_the_bound_the_oldest_notification_goes_and_is_counted() {
        let mut notifications = Notifications::default();
        (0..=NOTIFICATIONS_MAX).for_each(|_| notifications.push(notification(1.0)));
        assert_eq!(notifications.next_due(Mono(0)).map(|due| due.token), Some(2));
        assert_eq!(notifications.counts.undeliverable, 1);
    }

    #[test]
    fn past_the_bound_a_nodes_goes_before_the_fleets_and_the_fleets_are_sent_first() {
        let of_node = |state| {
            let mut of_node = notification(1.0);
            of_node.key.scope = Scope::Node(NodeName::new("n").unwrap());
            of_node.state = state;
            of_node
        };
        let mut notifications = Notifications::default();
        notifications.push(of_node(AlertState::Resolved));
        notifications.push(notification(1.0));
        (0..NOTIFICATIONS_MAX).for_each(|_| notifications.push(of_node(AlertState::Firing)));
        let mut sent = || notifications.next_due(Mono(0)).map(|due| due.token);
        assert_eq!([sent(), sent(), sent()], [Some(2), Some(1), Some(5)]);
        assert_eq!(notifications.counts.undeliverable, 2);
    }

    fn event(at_seconds: f64) -> LatencyHigh {
        let Notification { mesh, key, .. } = notification(at_seconds);
        let evidence = LatencyEvidence {
            quantile: 0.99,
            value_seconds: 0.03,
            lower_seconds: 0.02,
            limit_seconds: 0.018,
            window: Window::TenSeconds,
            samples: 100,
            upper_seconds: None,
            over: 9,
            uncertain: 0,
            stretch: None,
            within_seconds: None,
            overdispersion: 1.0,
            learning: false,
        };
        LatencyHigh { mesh, key, at_seconds, evidence }
    }

    #[test]
    fn events_wait_beside_notifications_and_never_in_their_place() {
        let mut notifications = Notifications::default();
        notifications.push(notification(1.0));
        (0..=NOTIFICATIONS_MAX).for_each(|_| notifications.push_event(event(2.0)));
        assert_eq!(notifications.next_due(Mono(0)).map(|due| due.token), Some(1));
        assert_eq!(notifications.next_due(Mono(0)), None);
        assert_eq!(notifications.next_event_due(Mono(0)), Some((3, event(2.0))));
        notifications.on_delivered(1);
        notifications.on_delivered(3);
        notifications.on_refused(4);
        assert!(notifications.is_empty());
        let of = |raised, delivered, undeliverable| NotificationCounts {
            raised,
            delivered,
            undeliverable,
        };
        assert_eq!(notifications.counts, of(1, 1, 0));
        assert_eq!(notifications.event_counts, of(NOTIFICATIONS_MAX as u64 + 1, 1, 2));
    }
}
