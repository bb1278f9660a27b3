//! Alerts that fired for the wrong reason, not at all, or for ever.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use plimsoll_aggregator::core::alerting::{Receiver, ReceiverKind};
use plimsoll_aggregator::core::view::CheckpointStats;
use plimsoll_aggregator::exposition::{fleet, own};
use plimsoll_node::core::Bounds;
use plimsoll_node::core::Core as Node;
use plimsoll_node::core::spool::Wal;
use plimsoll_schemas::alert::{AlertState, Notification, Scope};
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::transport::{BusEvent, Delivered};

use super::mesh::{
    SECOND, aggregator, connected, deliver, delivered, identity, node, notifications, send_all,
    start, tight,
};

/// Nodes that publish once a second. Returns the notifications. Each plan names a node and the
/// milliseconds of its 150 samples in each second; `None` if it is silent.
fn run(plans: &[(&str, &[Option<u32>])]) -> Vec<Notification> {
    let mut aggregator = aggregator();
    let mut nodes: Vec<(Node, &[Option<u32>])> =
        plans.iter().map(|(name, plan)| (node(name, Bounds::default()), *plan)).collect();
    nodes.iter_mut().for_each(|(node, _)| node.on_bus_event(start(), &connected()));
    let seconds = plans.iter().map(|(_, plan)| plan.len()).max().unwrap_or(0);
    let mut sent = Vec::new();
    for second in 0..u32::try_from(seconds).unwrap() {
        let now = start().after((second + 1) * SECOND);
        for (node, plan) in &mut nodes {
            let value = plan.get(second as usize).copied().flatten();
            if let Some(ms) = value {
                let values = vec![ms.to_string(); 150].join(":");
                node.on_datagram(start(), format!("epoch_hook:{values}|ms").as_bytes());
            }
            node.on_deadline(now);
            deliver(&mut aggregator, now, &send_all(node, now));
        }
        aggregator.on_deadline(now);
        sent.extend(notifications(&mut aggregator, now));
    }
    sent
}

fn states(sent: &[Notification], scope: &Scope) -> Vec<AlertState> {
    sent.iter()
        .filter(|notification| notification.key.scope == *scope)
        .map(|notification| notification.state)
        .collect()
}

fn scope(name: &str) -> Scope {
    Scope::Node(plimsoll_schemas::ids::NodeName::new(name).unwrap())
}

/// Keyed by its rule alone, three nodes with one breach each would add up to a breach three
/// times in a row, and each of them would fire.
#[test]
fn one_breach_on_each_of_three_nodes_is_no_breach_three_times_in_a_row() {
    let slow = Some(40);
    let sent = run(&[
        ("a", &[slow, None, None]),
        ("b", &[None, slow, None]),
        ("c", &[None, None, slow]),
        ("d", &[Some(1); 3]),
    ]);
    // Slow samples stay in a window of ten seconds: a was judged three times, b twice, c once.
    assert_eq!(states(&sent, &scope("a")), [AlertState::Pending, AlertState::Firing]);
    assert_eq!(states(&sent, &scope("b")), [AlertState::Pending]);
    assert_eq!(states(&sent, &scope("c")), [AlertState::Pending]);
    assert_eq!(states(&sent, &scope("d")), []);
}

/// Counted over all packets, fifty breaches between packets of others would never be a streak.
#[test]
fn breaches_between_messages_of_other_nodes_and_silence_still_fire() {
    let slow: Vec<_> = (0..12).map(|second| (second % 2 == 0).then_some(40)).collect();
    let sent = run(&[("a", &[Some(1); 12]), ("slow", &slow), ("z", &[Some(1); 12])]);
    let moves = states(&sent, &scope("slow"));
    assert_eq!(moves, [AlertState::Pending, AlertState::Firing]);
    assert_eq!(states(&sent, &scope("a")), []);
}

/// A missing metric is no evidence about its alert.
#[test]
fn a_node_that_falls_silent_leaves_its_alert_where_it_was() {
    let mut plan = vec![Some(40); 6];
    plan.extend([None; 30]);
    let sent = run(&[("a", &plan)]);
    assert_eq!(states(&sent, &scope("a")), [AlertState::Pending, AlertState::Firing]);
}

/// With one state for each rule, recovery on one node would end a fault on another.
#[test]
fn a_node_that_is_well_ends_no_alert_of_another() {
    let sent = run(&[("sick", &[Some(40); 30]), ("well", &[Some(1); 30])]);
    assert_eq!(states(&sent, &scope("sick")), [AlertState::Pending, AlertState::Firing]);
    assert_eq!(states(&sent, &scope("well")), []);
}

#[test]
fn the_end_of_an_alert_is_notified_too() {
    let mut plan = vec![Some(40); 6];
    plan.extend([Some(1); 30]);
    let sent = run(&[("a", &plan)]);
    let moves = states(&sent, &scope("a"));
    assert_eq!(moves, [AlertState::Pending, AlertState::Firing, AlertState::Resolved]);
}

/// As a gauge of the last value, 149 slow hooks before a fast one would not be seen.
#[test]
fn a_latency_is_a_distribution_and_not_its_last_value() {
    let mut aggregator = aggregator();
    let mut node = node("a", Bounds::default());
    node.on_bus_event(start(), &connected());
    let values = vec!["40"; 149].join(":");
    node.on_datagram(start(), format!("epoch_hook:{values}:1|ms").as_bytes());
    let now = start().after(SECOND);
    node.on_deadline(now);
    deliver(&mut aggregator, now, &send_all(&mut node, now));
    let summary = aggregator.view(now.wall, "jetstream").summary;
    let fleet = summary.operations.iter().find(|row| row.scope == Scope::Fleet).unwrap();
    assert_eq!((fleet.total.count, fleet.total.min_ns), (150, 1_000_000));
    assert!(fleet.total.p50_ns.unwrap() >= 40_000_000, "{:?}", fleet.total);
}

/// Names of our own metrics in a page, or in what rules for Prometheus compute. What a rule records
/// has a level before its name; names in a runbook are not required.
fn metrics_of(text: &str) -> BTreeSet<&str> {
    let parts = text.split("annotations:").flat_map(|part| {
        let next = part.find("\n      - ").unwrap_or(0);
        part[next..].lines().filter(|line| !line.trim_start().starts_with('#'))
    });
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let names = parts.flat_map(move |line| line.split(move |c| !word(c)));
    names.filter(|name| name.starts_with("plimsoll_")).collect()
}

/// A receiver, since without one no post is counted.
fn pager() -> Receiver {
    let kind = ReceiverKind::Webhook { resolved: true, acknowledged: false };
    Receiver { name: "pager".into(), kind, severity_min: Severity::Info }
}

#[test]
fn every_metric_in_a_rule_is_produced() {
    let mut bounds = tight();
    bounds.outbox.thresholds.bytes_max = 12_000;
    let (aggregator, mut node) = (aggregator(), node("a", bounds));
    let mut aggregator = aggregator.with_receivers(start(), vec![pager()], 1);
    // Its spool could be written once.
    node.open_spool(start(), Wal::new(identity("a"), None), None);
    node.close_spool();
    for second in 1..=30 {
        node.on_datagram(start(), b"epoch_hook:1|ms\nkernel_fetch:1|ms");
        // More series than there is room for.
        for job in ["x", "y"] {
            let line = format!("{second:a>120}:1|ms|#job:{job:a>120}");
            node.on_datagram(start(), line.as_bytes());
        }
        node.on_deadline(start().after(second * SECOND));
    }
    let now = start().after(90 * SECOND);
    node.on_deadline(now);
    node.on_bus_event(now, &connected());
    node.on_bus_event(now, &BusEvent::RoundTrip(SECOND));
    aggregator.on_bus_event(now.mono, &BusEvent::RoundTrip(SECOND));
    deliver(&mut aggregator, now, &send_all(&mut node, now));
    // Only now a message contains what was dropped.
    let now = now.after(SECOND);
    node.on_datagram(now, b"epoch_hook:1|ms\nkernel_fetch:1|ms");
    node.on_deadline(now);
    deliver(&mut aggregator, now, &send_all(&mut node, now));
    // One with its times, from which its clock skew follows, and one that is unreadable.
    let now = now.after(SECOND);
    node.on_deadline(now);
    let publish = &send_all(&mut node, now)[0];
    let (at, sent) = (Some(now.wall), Some(start().wall));
    for (payload, is_read) in [(publish.payload.clone(), true), (Bytes::from_static(b"?"), false)] {
        let message = Delivered { at, sent, payload, ..delivered(publish) };
        assert_eq!(aggregator.on_message(now, &message).is_ok(), is_read);
    }
    aggregator.on_deadline(now);
    let mut view = aggregator.view(now.wall, "jetstream");
    // The driver adds the figures of the store and of its tasks.
    view.own.task_restarts = BTreeMap::from([("notify", 1)]);
    view.own.checkpoints = CheckpointStats { kept: true, at, ..CheckpointStats::default() };
    let page = fleet(&view, &effective_budgets()) + &own(&view);
    let rules = concat!(
        include_str!("../../../deploy/prometheus/rules/plimsoll.yml"),
        include_str!("../../../deploy/prometheus/rules/error_budgets.yml")
    );
    let (produced, wanted) = (metrics_of(&page), metrics_of(rules));
    assert!(wanted.len() > 30, "{wanted:?}");
    let orphans: Vec<_> = wanted.difference(&produced).collect();
    assert!(orphans.is_empty(), "no metric is named {orphans:?}");
}

fn effective_budgets() -> Vec<plimsoll_schemas::budget::Budget> {
    plimsoll_schemas::rule::file::effective(&[]).unwrap()
}
