//! Notifications as the bus delivers them, with the time at which each arrived.
//!
//! An ordinary subscriber: it receives only what the aggregator published, not what the aggregator
//! reports about itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use plimsoll_bus::{Bus, BusConfig, BusEvent, BusEvents};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::alert::{AlertKey, AlertState, LatencyHigh, Notification};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::alert_filter;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::expectation::in_seconds;

const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// A connection of the drill itself, established. Its events are read and dropped: nothing here
/// depends on them.
///
/// # Errors
/// When there is no connection in time.
pub async fn observe(config: BusConfig) -> Result<Bus> {
    let (bus, mut events) = Bus::connect(config)?;
    timeout(CONNECT_WAIT, connected(&mut events)).await.context("the broker is silent")??;
    tokio::spawn(async move { while events.next().await.is_some() {} });
    Ok(bus)
}

async fn connected(events: &mut BusEvents) -> Result<()> {
    while let Some(event) = events.next().await {
        if matches!(event, BusEvent::Connected { .. }) {
            return Ok(());
        }
    }
    bail!("the connection was closed")
}

/// A notification and when it came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arrival {
    /// Time since the drill began.
    #[serde(rename = "arrived_seconds", serialize_with = "in_seconds")]
    pub at: Duration,
    pub notification: Notification,
}

/// The notifications received so far, and a subscription for further ones.
#[derive(Debug, Default)]
pub struct Notifications {
    inbox: Arc<Mutex<Inbox>>,
    subscription: Option<(Bus, JoinSet<()>)>,
}

#[derive(Debug, Default)]
struct Inbox {
    received: Vec<Arrival>,
    /// Payloads that were no notification.
    unreadable: u64,
}

impl Inbox {
    fn take(&mut self, at: Duration, payload: &[u8]) {
        match serde_json::from_slice(payload) {
            Ok(notification) => self.book(Arrival { at, notification }),
            // The subscription delivers events too.
            Err(_) if serde_json::from_slice::<LatencyHigh>(payload).is_ok() => {}
            Err(_) => self.unreadable += 1,
        }
    }

    /// An aggregator that receives no acknowledgement sends the same notification again.
    fn book(&mut self, arrival: Arrival) {
        if self.received.iter().all(|known| known.notification != arrival.notification) {
            self.received.push(arrival);
        }
    }
}

impl Notifications {
    /// Connects to the broker and subscribes. A repeated call opens a new connection, which is
    /// quicker than a wait until the old one detects that its broker is back. It retains what was
    /// received.
    ///
    /// # Errors
    /// When there is no connection in time.
    pub async fn listen(&mut self, url: &str, mesh: &MeshName, watch: Stopwatch) -> Result<()> {
        let name = "plimsoll-drill".to_owned();
        let bus = observe(BusConfig::new(url.to_owned(), name, mesh.clone())).await?;
        let (mut listener, inbox) = (bus.listen(alert_filter(mesh)), self.inbox.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Some(received) = listener.next().await {
                lock(&inbox).take(watch.elapsed(), &received.payload);
            }
        });
        self.subscription = Some((bus, task));
        Ok(())
    }

    /// The notifications received so far, oldest first; one that was sent twice is here once.
    pub fn received(&self) -> Vec<Arrival> {
        lock(&self.inbox).received.clone()
    }

    /// The first notification since then that the alert moved into `state`.
    pub fn find(&self, since: Duration, key: &AlertKey, state: AlertState) -> Option<Arrival> {
        let wanted = |arrival: &&Arrival| {
            let Arrival { at, notification } = arrival;
            *at >= since && notification.key == *key && notification.state == state
        };
        lock(&self.inbox).received.iter().find(wanted).cloned()
    }

    /// What should not have been published since then: alerts that fired beside the expected ones,
    /// expected ones that fired more than once, and unreadable payloads.
    pub fn unexpected(&self, since: Duration, expected: &[AlertKey]) -> Vec<String> {
        let inbox = lock(&self.inbox);
        let fired = inbox.received.iter().filter(|arrival| {
            arrival.at >= since && arrival.notification.state == AlertState::Firing
        });
        let mut found = surplus(fired.map(|arrival| &arrival.notification.key), expected);
        if inbox.unreadable > 0 {
            found.push(format!("{} payloads that are not notifications", inbox.unreadable));
        }
        found
    }
}

fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

fn surplus<'a>(fired: impl Iterator<Item = &'a AlertKey>, expected: &[AlertKey]) -> Vec<String> {
    let mut open = expected.to_vec();
    let mut found = Vec::new();
    for key in fired {
        match open.iter().position(|expected| expected == key) {
            Some(place) => drop(open.swap_remove(place)),
            None if expected.contains(key) => found.push(format!("{key} fired again")),
            None => found.push(format!("{key} fired")),
        }
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use plimsoll_schemas::alert::{Evidence, LatencyEvidence, Scope};
    use plimsoll_schemas::budget::Window;
    use plimsoll_schemas::ids::{NodeName, Operation, RuleName};

    use super::*;

    /// The alert of a budget, whose rule and operation share their name, for a node.
    fn key(node: &str) -> AlertKey {
        AlertKey {
            rule: RuleName::new("epoch_hook").unwrap(),
            scope: Scope::Node(NodeName::new(node).unwrap()),
            operation: Operation::new("epoch_hook").unwrap(),
        }
    }

    /// Evidence of a latency with a limit of 18 ms.
    pub(in crate::live) fn latency(lower_seconds: f64, samples: u64) -> Evidence {
        Evidence::Latency(LatencyEvidence {
            quantile: 0.99,
            value_seconds: 0.03,
            lower_seconds,
            limit_seconds: 0.018,
            window: Window::TenSeconds,
            samples,
            upper_seconds: None,
            over: 0,
            uncertain: 0,
            stretch: None,
            within_seconds: None,
            overdispersion: 1.0,
            learning: false,
        })
    }

    /// A notification that came `at` these seconds.
    pub(in crate::live) fn arrival(
        at: u32,
        key: AlertKey,
        state: AlertState,
        evidence: Evidence,
    ) -> Arrival {
        let (mesh, change) = (MeshName::new("drill").unwrap(), (AlertState::Pending, state));
        let notification = Notification::new(mesh, key, change, at.into(), evidence);
        Arrival { at: Duration::from_secs(at.into()), notification }
    }

    fn received(arrivals: &[(u32, &str, AlertState)]) -> Notifications {
        let notifications = Notifications::default();
        for (at, node, state) in arrivals {
            lock(&notifications.inbox).book(arrival(*at, key(node), *state, latency(0.03, 200)));
        }
        notifications
    }

    #[test]
    fn a_notification_is_found_by_key_state_and_time() {
        use AlertState::{Firing, Resolved};
        let notifications = received(&[(1, "a", Firing), (2, "a", Resolved), (3, "a", Firing)]);
        let at = |since, node, state| {
            let since = Duration::from_secs(since);
            notifications.find(since, &key(node), state).map(|arrival| arrival.at.as_secs())
        };
        assert_eq!(at(0, "a", Firing), Some(1));
        assert_eq!(at(2, "a", Firing), Some(3));
        assert_eq!(at(0, "b", Firing), None);
        assert_eq!(at(3, "a", Resolved), None);
    }

    #[test]
    fn a_notification_sent_twice_is_received_once() {
        let notifications = received(&[(1, "a", AlertState::Firing)]);
        let first = notifications.received().remove(0);
        lock(&notifications.inbox).book(Arrival { at: Duration::from_secs(6), ..first });
        assert_eq!(notifications.received().len(), 1);
    }

    #[test]
    fn foreign_and_repeated_alerts_are_unexpected_and_pending_ones_are_not() {
        use AlertState::{Firing, Pending};
        let fired = [(1, "c", Firing), (2, "a", Firing), (3, "b", Firing), (4, "a", Firing)];
        let notifications = received(&[&fired[..], &[(5, "c", Pending)]].concat());
        let found = notifications.unexpected(Duration::from_secs(2), &[key("a")]);

        assert_eq!(
            found,
            [
                "epoch_hook (node b, epoch_hook) fired",
                "epoch_hook (node a, epoch_hook) fired again"
            ]
        );

        lock(&notifications.inbox).take(Duration::ZERO, b"hello");

        assert_eq!(
            notifications.unexpected(Duration::from_secs(5), &[]),
            ["1 payloads that are not notifications"]
        );
    }
}
