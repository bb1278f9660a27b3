//! Notifications as the bus delivers them, with the time at which each arrived.
//!
//! An ordinary subscriber: it receives only what the aggregator published, not what the aggregator
//! reports about itself.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use plimsoll_aggregator::limits::NOTIFICATIONS_MAX;
use plimsoll_bus::{Bus, BusConfig, BusEvent, BusEvents, Listener};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::alert::{AlertKey, AlertState, LatencyHigh, Notification, Scope};
use plimsoll_schemas::ids::{MeshName, Operation, RuleName};
use plimsoll_schemas::subject::alert_filter;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::expectation::in_seconds;

const CONNECT_WAIT: Duration = Duration::from_secs(10);

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
    received: Vec<Arrival>,
    /// Payloads that were no notification.
    unreadable: u64,
    subscription: Option<Subscription>,
}

#[derive(Debug)]
struct Subscription {
    _bus: Bus,
    task: JoinHandle<()>,
    payloads: mpsc::Receiver<(Duration, Vec<u8>)>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.task.abort();
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
        self.take_in();
        let config = BusConfig::new(url.to_owned(), "plimsoll-drill".to_owned(), mesh.clone());
        let (bus, mut events) = Bus::connect(config)?;
        timeout(CONNECT_WAIT, connected(&mut events)).await.context("the broker is silent")??;
        let listener = bus.listen(alert_filter(mesh));
        let (out, payloads) = mpsc::channel(NOTIFICATIONS_MAX);
        let task = tokio::spawn(collect(events, listener, watch, out));
        self.subscription = Some(Subscription { _bus: bus, task, payloads });
        Ok(())
    }

    fn take_in(&mut self) {
        let Some(subscription) = &mut self.subscription else { return };
        while let Ok((at, payload)) = subscription.payloads.try_recv() {
            match serde_json::from_slice(&payload) {
                Ok(notification) => book(&mut self.received, Arrival { at, notification }),
                // The subscription delivers events too.
                Err(_) if serde_json::from_slice::<LatencyHigh>(&payload).is_ok() => {}
                Err(_) => self.unreadable += 1,
            }
        }
    }

    /// The notifications received so far, oldest first; one that was sent twice is here once.
    pub fn received(&mut self) -> &[Arrival] {
        self.take_in();
        &self.received
    }

    /// The first notification since then that the alert moved into `state`.
    pub fn find(&mut self, since: Duration, key: &AlertKey, state: AlertState) -> Option<&Arrival> {
        let wanted = |arrival: &&Arrival| {
            let Arrival { at, notification } = arrival;
            *at >= since && notification.key == *key && notification.state == state
        };
        self.received().iter().find(wanted)
    }

    /// What should not have been published since then: alerts that fired beside the expected ones,
    /// expected ones that fired more than once, and unreadable payloads.
    pub fn unexpected(&mut self, since: Duration, expected: &[AlertKey]) -> Vec<String> {
        let fired = self.received().iter().filter(|arrival| {
            arrival.at >= since && arrival.notification.state == AlertState::Firing
        });
        let mut found = surplus(fired.map(|arrival| &arrival.notification.key), expected);
        if self.unreadable > 0 {
            found.push(format!("{} payloads that are not notifications", self.unreadable));
        }
        found
    }
}

/// An aggregator that receives no acknowledgement sends the same notification again.
fn book(received: &mut Vec<Arrival>, arrival: Arrival) {
    if received.iter().all(|known| known.notification != arrival.notification) {
        received.push(arrival);
    }
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

async fn connected(events: &mut BusEvents) -> Result<()> {
    while let Some(event) = events.next().await {
        if matches!(event, BusEvent::Connected { .. }) {
            return Ok(());
        }
    }
    bail!("the connection was closed")
}

/// Runs until the connection ends. Events must be read, though nothing here depends on them.
async fn collect(
    mut events: BusEvents,
    mut listener: Listener,
    watch: Stopwatch,
    out: mpsc::Sender<(Duration, Vec<u8>)>,
) {
    let pass_on = async {
        while let Some(received) = listener.next().await {
            if out.send((watch.elapsed(), received.payload.to_vec())).await.is_err() {
                return;
            }
        }
    };
    let pass_over = async { while events.next().await.is_some() {} };
    tokio::join!(pass_on, pass_over);
}

/// The alert of a built-in budget, whose rule and operation share their name.
pub fn built_in_alert(name: &'static str, scope: Scope) -> AlertKey {
    AlertKey {
        rule: RuleName::new(name).expect("built-in budgets have plain names"),
        scope,
        operation: Operation::new(name).expect("built-in budgets have plain names"),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::alert::{Evidence, LatencyEvidence};
    use plimsoll_schemas::budget::Window;
    use plimsoll_schemas::ids::NodeName;

    use super::*;

    fn key(node: &str) -> AlertKey {
        built_in_alert("epoch_hook", Scope::Node(NodeName::new(node).unwrap()))
    }

    fn arrival(at: u64, node: &str, state: AlertState) -> Arrival {
        let evidence = Evidence::Latency(LatencyEvidence {
            quantile: 0.99,
            value_seconds: 0.03,
            lower_seconds: 0.03,
            limit_seconds: 0.018,
            window: Window::TenSeconds,
            samples: 200,
            upper_seconds: None,
            over: 0,
            uncertain: 0,
            stretch: None,
            within_seconds: None,
            overdispersion: 1.0,
            learning: false,
        });
        let notification = Notification::new(
            MeshName::new("drill").unwrap(),
            key(node),
            (AlertState::Pending, state),
            f64::from(u32::try_from(at).unwrap()),
            evidence,
        );
        Arrival { at: Duration::from_secs(at), notification }
    }

    fn received(arrivals: &[(u64, &str, AlertState)]) -> Notifications {
        let mut notifications = Notifications::default();
        for (at, node, state) in arrivals {
            book(&mut notifications.received, arrival(*at, node, *state));
        }
        notifications
    }

    #[test]
    fn a_notification_is_found_by_key_state_and_time() {
        use AlertState::{Firing, Resolved};
        let mut notifications = received(&[(1, "a", Firing), (2, "a", Resolved), (3, "a", Firing)]);
        let mut at = |since, node, state| {
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
        let mut notifications = received(&[(1, "a", AlertState::Firing)]);
        let again = Arrival { at: Duration::from_secs(6), ..notifications.received[0].clone() };
        book(&mut notifications.received, again);
        assert_eq!(notifications.received().len(), 1);
    }

    #[test]
    fn foreign_and_repeated_alerts_are_unexpected_and_pending_ones_are_not() {
        use AlertState::{Firing, Pending};
        let mut notifications =
            received(&[(1, "c", Firing), (2, "a", Firing), (3, "b", Firing), (4, "a", Firing)]);
        book(&mut notifications.received, arrival(5, "c", Pending));
        let found = notifications.unexpected(Duration::from_secs(2), &[key("a")]);
        assert_eq!(
            found,
            [
                "epoch_hook (node b, epoch_hook) fired",
                "epoch_hook (node a, epoch_hook) fired again"
            ]
        );
        notifications.unreadable = 2;
        assert_eq!(
            notifications.unexpected(Duration::from_secs(5), &[]),
            ["2 payloads that are not notifications"]
        );
    }
}
