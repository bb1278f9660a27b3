//! What a node keeps of its messages, whatever their order.

use plimsoll_schemas::hardware::{LOAD1, Reading};
use plimsoll_schemas::ids::{NodeName, Operation, Seq};
use plimsoll_schemas::wire::{Header, Totals};

use crate::limits::{NODE_HIDE_AFTER, NODE_SERIES_MAX, NODE_SILENT_AFTER, SERVICE_CHECKS_MAX};

use super::*;
use crate::core::tests::events::{check, event};

/// Number `seq` of an incarnation.
fn key(incarnation: u64, seq: u64) -> MessageKey {
    MessageKey { incarnation: Incarnation(incarnation), seq: Seq(seq) }
}

/// A node that has sent one message of each of these incarnations.
fn node(incarnations: &[u64]) -> Node {
    let mut node = Node::default();
    for incarnation in incarnations {
        let header = Header {
            node: NodeName::new("n").unwrap(),
            incarnation: Incarnation(*incarnation),
            seq: Seq(1),
            start: Wall(*incarnation),
            length_ns: 1,
            totals: Totals::default(),
            last: false,
            successor: None,
            labels: Labels::default(),
        };
        node.account.book(&header, 0);
    }
    node
}

fn load(value: f64) -> Hardware {
    Hardware::all(vec![Reading::ok(&LOAD1, Labels::default(), value)])
}

/// Of its only sensor.
fn value(node: &Node) -> Option<f64> {
    node.readings.get().iter().next().and_then(|reading| reading.value)
}

#[test]
fn a_delayed_reading_does_not_replace_a_newer_one() {
    let mut node = node(&[1, 2]);
    node.take_readings(key(1, 5), load(5.0));
    node.take_readings(key(1, 4), load(4.0));
    assert_eq!(value(&node), Some(5.0));
    node.take_readings(key(2, 1), load(1.0));
    assert_eq!(value(&node), Some(1.0));
}

#[test]
fn a_delayed_former_incarnation_masks_nothing_of_the_live_one() {
    let mut node = node(&[9]);
    node.take_readings(key(9, 1), load(9.0));
    node.account = self::node(&[9, 7]).account;
    node.take_readings(key(7, 500), load(7.0));
    assert_eq!(value(&node), Some(9.0));
    node.take_readings(key(9, 2), load(9.5));
    assert_eq!(value(&node), Some(9.5));
}

#[test]
fn readings_of_unknown_sensors_are_counted_and_not_kept() {
    let mut node = node(&[1]);
    let mut strange = Reading::ok(&LOAD1, Labels::default(), 1.0);
    strange.sensor = "mood".to_owned();
    let hardware = Hardware::all(vec![strange]);
    assert_eq!(node.take_readings(key(1, 1), hardware), 1);
    assert_eq!(value(&node), None);
}

#[test]
fn a_node_is_silent_after_a_while_unless_it_left_in_order() {
    let node = Node { last_seen: Wall(1), ..Node::default() };
    let later = Wall(1).plus(NODE_SILENT_AFTER);
    assert_eq!(node.presence(Wall(1)), Presence::Up);
    assert_eq!(node.presence(later), Presence::Silent);
    // It brought nothing, so it is hidden sooner than others.
    assert!(!node.may_be_hidden(later, None));
    assert!(node.may_be_hidden(later.plus(NODE_HIDE_AFTER), None));
    assert!(!node.may_be_evicted(later.plus(NODE_HIDE_AFTER)));
}

#[test]
fn a_delayed_gauge_does_not_replace_a_newer_one() {
    let mut node = Node::default();
    let series = Series::plain(Operation::new("depth").unwrap());
    for (seq, value) in [(5, 5.0), (4, 4.0), (6, 6.0), (3, 3.0)] {
        let latency = Latency { gauges: vec![(series.clone(), value)], ..Latency::default() };
        node.take_numbers(key(1, seq), &latency);
    }
    assert_eq!(node.gauges[&series].value, 6.0);
}

#[test]
fn a_flood_of_series_is_bounded_and_counted() {
    let mut node = Node::default();
    let flood: Vec<(Series, f64)> = (0..NODE_SERIES_MAX + 7)
        .map(|i| (Series::plain(Operation::new(format!("c{i}")).unwrap()), 1.0))
        .collect();
    let latency = Latency { counters: flood, ..Latency::default() };
    assert_eq!(node.take_numbers(key(1, 1), &latency), 7);
    assert_eq!(node.counters.len(), NODE_SERIES_MAX);
}

#[test]
fn gauges_of_jobs_that_have_ended_make_room_for_new_ones() {
    let gauges = |prefix: &str, n: usize| -> Vec<(Series, f64)> {
        let series = |i| Series::plain(Operation::new(format!("{prefix}{i}")).unwrap());
        (0..n).map(|i| (series(i), 1.0)).collect()
    };
    let mut node = Node { last_seen: Wall(1), ..Node::default() };
    let take = |node: &mut Node, seq: u64, gauges: Vec<(Series, f64)>| {
        node.take_numbers(key(1, seq), &Latency { gauges, ..Latency::default() })
    };
    assert_eq!(take(&mut node, 1, gauges("old", NODE_SERIES_MAX)), 0);
    assert_eq!(take(&mut node, 2, gauges("new", 3)), 3, "all are of jobs that may go on");
    node.last_seen = Wall(1).plus(GAUGES_STALE_AFTER);
    assert_eq!(take(&mut node, 3, gauges("new", 3)), 0);
    assert_eq!(node.gauges.len(), 3);
}

fn statuses(node: &Node) -> Vec<(String, AlertType)> {
    node.check_statuses().into_iter().collect()
}

#[test]
fn the_last_status_in_the_newest_message_counts_whatever_the_order_of_arrival() {
    let mut node = Node::default();
    let newer = [check("db", AlertType::Error), check("db", AlertType::Warning)];
    assert_eq!(node.take_events(key(1, 5), &newer), 0);
    assert_eq!(node.take_events(key(1, 4), &[check("db", AlertType::Success)]), 0);
    assert_eq!(statuses(&node), [("db".to_owned(), AlertType::Warning)]);
    node.take_events(key(1, 6), &[check("db", AlertType::Success), event("db", 1)]);
    assert_eq!(statuses(&node), [("db".to_owned(), AlertType::Success)]);
    let counted: Vec<_> = node.events.values().copied().collect();
    assert_eq!(counted, [1, 2, 1, 1]);
}

#[test]
fn a_flood_of_checks_is_bounded_and_counted_and_known_ones_go_on() {
    let mut node = Node { last_seen: Wall(1), ..Node::default() };
    let flood: Vec<Event> =
        (0..SERVICE_CHECKS_MAX + 7).map(|n| check(&format!("c{n:03}"), AlertType::Info)).collect();
    assert_eq!(node.take_events(key(1, 1), &flood), 7);
    assert_eq!(node.checks.len(), SERVICE_CHECKS_MAX);
    node.take_events(key(1, 2), &[check("c000", AlertType::Error)]);
    assert_eq!(statuses(&node)[0], ("c000".to_owned(), AlertType::Error));
}
