//! Messages that were dropped, delayed or lost without being counted.

use plimsoll_node::core::outbox::BreakerState;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::transport::BusEvent;

use super::mesh::{
    SECOND, aggregator, close_intervals, connected, deliver, lane_of, node, send_all, start, tight,
};

#[test]
fn conservative_mode_ends_by_itself_although_the_queue_stays_deep() {
    let mut node = node("a", tight());
    close_intervals(&mut node, 1..=10);
    assert!(node.status().bus.conservative);
    // No message is acknowledged, so the depth alone would never end it.
    node.on_deadline(start().after(70 * SECOND));
    assert!(!node.status().bus.conservative);
    assert!(node.status().bus.outbox_messages > 8);
}

#[test]
fn acknowledgements_lower_the_depth() {
    let mut node = node("a", tight());
    close_intervals(&mut node, 1..=6);
    assert_eq!(node.status().bus.outbox_messages, 6);
    let now = start().after(6 * SECOND);
    node.on_bus_event(now, &connected());
    assert_eq!(send_all(&mut node, now).len(), 6);
    assert_eq!(node.status().bus.outbox_messages, 0);
}

#[test]
fn drops_do_not_open_the_breaker() {
    let mut node = node("a", tight());
    node.on_bus_event(start(), &connected());
    node.on_bus_event(start(), &BusEvent::Disconnected);
    close_intervals(&mut node, 1..=40);
    let status = node.status();
    assert!(status.bus.dropped > 10, "{:?}", status.bus);
    assert_eq!(status.breaker, BreakerState::Closed);
}

#[test]
fn a_message_that_waits_for_a_token_is_counted_and_held() {
    let mut bounds = tight();
    (bounds.outbox.emergency_burst, bounds.outbox.emergency_reserved) = (1, 1);
    let mut node = node("a", bounds);
    for second in 1..=14 {
        node.on_datagram(start(), b"a:1|ms");
        close_intervals(&mut node, second..=second);
    }
    let now = start().after(14 * SECOND);
    node.on_bus_event(now, &connected());
    let sent = send_all(&mut node, now);
    let bus = node.status().bus;
    assert_eq!(sent.iter().filter(|sent| lane_of(sent) == Lane::Emergency).count(), 0);
    assert_eq!(bus.rate_limited, 1);
    let placed = bus.published
        + bus.dropped
        + bus.refused
        + bus.coalesced
        + bus.combined
        + bus.outbox_messages;
    assert_eq!(bus.attempted, placed);
}

#[test]
fn the_aggregator_reads_the_emergency_lane() {
    let (mut aggregator, mut node) = (aggregator(), node("a", tight()));
    for second in 1..=10 {
        node.on_datagram(start(), b"epoch_hook:1|ms");
        node.on_deadline(start().after(second * SECOND));
    }
    let now = start().after(70 * SECOND);
    node.on_datagram(start(), b"epoch_hook:1|ms");
    node.on_deadline(now);
    node.on_bus_event(now, &connected());
    let sent = send_all(&mut node, now);
    let rerouted: Vec<_> =
        sent.into_iter().filter(|sent| lane_of(sent) == Lane::Emergency).collect();
    assert!(!rerouted.is_empty());
    deliver(&mut aggregator, now, &rerouted);
    let merged = aggregator.view(now.wall, "jetstream").summary.nodes[0].ledger.merged;
    assert!(merged > 0, "nothing of the emergency lane was merged");
}
