//! A few nodes and an aggregator, joined by hand: what is sent arrives, at once and in order.

use std::time::Duration;

use plimsoll_aggregator::core::Core as Aggregator;
use plimsoll_aggregator::core::alerting::DueNotification;
use plimsoll_node::core::outbox::Thresholds;
use plimsoll_node::core::{Bounds, outbox::OutboxBounds};
use plimsoll_node::core::{Core as Node, Identity};
use plimsoll_schemas::alert::Notification;
use plimsoll_schemas::ids::{Labels, MeshName, NodeName};
use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::subject::{Lane, SnapshotSubject};
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::transport::{BusEvent, Delivered, Delivery, Publish};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn start() -> Now {
    Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) }
}

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

/// Rerouting from 8 messages on, dropping from 16, both until 2 are left; nothing is merged.
pub(crate) fn tight() -> Bounds {
    let thresholds =
        Thresholds { drop: 16, reroute: 8, recover: 2, ..OutboxBounds::default().thresholds };
    let outbox = OutboxBounds { thresholds, coalesce_messages: 99, ..OutboxBounds::default() };
    Bounds { outbox, ..Bounds::default() }
}

pub(crate) fn node(name: &str, bounds: Bounds) -> Node {
    Node::new(identity(name), bounds, start())
}

pub(crate) fn identity(name: &str) -> Identity {
    Identity { mesh: mesh(), node: NodeName::new(name).unwrap(), labels: Labels::default() }
}

/// An aggregator that judges epoch hooks over ten seconds, and has read everything.
pub(crate) fn aggregator() -> Aggregator {
    let text = "[[budget]]
name = 'epoch_hook'
window = '10s'";
    let mut core = Aggregator::new(mesh(), effective(&[text]).unwrap(), start());
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    core
}

/// Advances time by intervals without a connection.
pub(crate) fn close_intervals(node: &mut Node, seconds: std::ops::RangeInclusive<u32>) {
    seconds.for_each(|second| node.on_deadline(start().after(second * SECOND)));
}

/// Everything that may be sent now, acknowledged at once.
pub(crate) fn send_all(node: &mut Node, now: Now) -> Vec<Publish> {
    let mut sent = Vec::new();
    while let Some(publish) = node.next_publish(now) {
        node.on_bus_event(
            now,
            &BusEvent::Acknowledged { ticket: publish.ticket, duplicate: false },
        );
        sent.push(publish);
    }
    sent
}

pub(crate) fn lane_of(publish: &Publish) -> Lane {
    publish.subject.parse::<SnapshotSubject>().unwrap().lane
}

/// Delivers messages to the aggregator.
pub(crate) fn deliver(aggregator: &mut Aggregator, now: Now, messages: &[Publish]) {
    for publish in messages {
        let sent_now = Some(now.wall);
        let message = Delivered { at: sent_now, sent: sent_now, ..delivered(publish) };
        aggregator.on_message(now, &message).unwrap();
    }
}

/// A message without its times.
pub(crate) fn delivered(publish: &Publish) -> Delivered {
    let Publish { subject, payload, .. } = publish.clone();
    let lane = lane_of(publish);
    Delivered { lane, stream_seq: 0, pending: 0, at: None, sent: None, subject, payload }
}

pub(crate) fn connected() -> BusEvent {
    BusEvent::Connected {
        delivery: Delivery::JetStream,
        server_version: String::new(),
        payload_bytes_max: 0,
    }
}

/// All notifications that wait, as if each were delivered.
pub(crate) fn notifications(aggregator: &mut Aggregator, now: Now) -> Vec<Notification> {
    let mut got = Vec::new();
    while let Some(DueNotification { token, notification, .. }) =
        aggregator.notifications().next_due(now.mono)
    {
        aggregator.notifications().on_delivered(token);
        got.push(notification);
    }
    got
}
