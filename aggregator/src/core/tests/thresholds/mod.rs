//! Thresholds from real messages.

mod connection;
mod regression;
mod walk;
pub(crate) mod world;

use std::collections::BTreeSet;

use plimsoll_schemas::alert::AlertState::{Firing, Inactive, Pending, Resolved};
use plimsoll_schemas::alert::{AlertEndReason, Evidence, Scope, ValueEvidence};
use plimsoll_schemas::ids::{Labels, NodeName, Operation, RuleName, Series};
use plimsoll_schemas::rule::file::shipped;
use plimsoll_schemas::rule::{Rules, Threshold};
use plimsoll_schemas::wire::{Body, Bus, Latency};
use world::World;

use super::*;

fn named(name: &str) -> Threshold {
    shipped().thresholds.into_iter().find(|of| of.name.as_str() == name).unwrap()
}

/// A rule that requires three evaluations in a row.
fn violations() -> Threshold {
    Threshold { fire_after: 3, ..named("isolation_violations") }
}

fn only(threshold: &Threshold) -> Rules {
    Rules { thresholds: vec![threshold.clone()], time_scale: 1, ..Rules::default() }
}

fn count(speaker: &mut Speaker, now: Now, n: f64) -> (String, Vec<u8>) {
    let series = Series::plain(Operation::new("isolation.violations").unwrap());
    let latency = Latency { counters: vec![(series, n)], ..Latency::default() };
    speaker.message(now, Body::Latency(latency), false)
}

#[test]
fn one_breach_on_each_of_three_nodes_is_nobodys_third() {
    let threshold = Threshold { fire_after: 3, ..named("queue_depth") };
    let mut world = World::new(only(&threshold));
    let mut nodes = ["x", "y", "z"].map(Speaker::new);
    let mut states = BTreeSet::new();
    for deep in 0..nodes.len() {
        for (place, node) in nodes.iter_mut().enumerate() {
            let outbox_pressure = if place == deep { 600_000 } else { 0 };
            let bus = Body::Bus(Bus { outbox_pressure, ..Bus::default() });
            let message = node.message(world.now, bus, false);
            deliver(&mut world.core, world.now, &message);
        }
        world.live();
        states.extend(world.core.alerting.alerts.active().map(|(_, state)| state));
    }
    assert_eq!(states, BTreeSet::from([Pending]));
}

#[test]
fn breaches_that_come_between_other_messages_do_fire() {
    let threshold = violations();
    let mut world = World::new(only(&threshold));
    let mut other = Speaker::new("b");
    for _ in 0..50 {
        world.count("isolation.violations", 4.0);
        let message = other.send(world.now, MS, 3);
        deliver(&mut world.core, world.now, &message);
        world.live();
        let message = count(&mut other, world.now, 0.0);
        deliver(&mut world.core, world.now, &message);
    }
    let about: Vec<_> = world.core.alerting.alerts.active().collect();
    let [(key, Firing)] = about[..] else { panic!("{about:?}") };
    assert_eq!(key.scope.node(), "a");
}

#[test]
fn a_node_that_falls_silent_keeps_its_alerts_and_starts_none() {
    let (hot, memory) = (named("cpu_critical"), named("memory_critical"));
    let mut rules = only(&hot);
    rules.thresholds.push(memory.clone());
    let mut world = World::new(rules);
    world.cpu_celsius = 90.0;
    world.lives(60);
    world.memory = 0.99;
    world.live();
    assert_eq!((world.state(&hot.name), world.state(&memory.name)), (Firing, Pending));
    world.is_mute = true;
    world.lives(300);
    assert_eq!(world.state(&hot.name), Firing);
    let sent = world.state(&memory.name);
    // The node counts as present for some seconds after its last message; then there is no data.
    assert!(sent == Pending || sent == Firing, "{sent:?}");
}

#[test]
fn sensors_without_values_find_nothing() {
    let mut world = World::new(shipped());
    world.lives(5);
    let scope = Scope::Node(NodeName::new("a").unwrap());
    let value =
        |world: &World, name| value_of(&world.core, &named(name), &scope).map(|of| of.value);
    assert_eq!(value(&world, "cpu_hot"), Some(50.0));
    // Not a number is a failed reading.
    (world.cpu_celsius, world.memory, world.gpu_celsius) = (f64::NAN, f64::NAN, f64::INFINITY);
    world.lives(100);
    for name in ["cpu_hot", "cpu_critical", "memory_high"] {
        assert_eq!((value(&world, name), world.state(&named(name).name)), (None, Inactive));
    }
    // The other GPU is cool.
    assert_eq!(value(&world, "gpu_hot"), Some(40.0));
}

#[test]
fn strange_values_are_compared_and_break_nothing() {
    let mut world = World::new(shipped());
    world.lives(1);
    for value in [1e308, -1e308, f64::MIN_POSITIVE, -273.15, 4_294_967_295.0, 0.0] {
        (world.cpu_celsius, world.memory, world.disk) = (value, value, value);
        (world.gpu_memory, world.swap, world.throttled) = (value, value, value);
        world.count("isolation.violations", value);
        world.bus.dropped = u64::MAX;
        world.bus.outbox_pressure = u64::MAX;
        world.bus.breaker_state = Some(255);
        world.bus.round_trip_ns = Some(u64::MAX);
        world.lives(3);
        world.count("isolation.violations", value);
    }
    let page = crate::exposition::fleet(&world.core.view(world.now.wall, "t"), &[]);
    assert!(page.contains("plimsoll_alert_firing{rule=\"dropped\",scope=\"node\""), "{page}");
}

#[test]
fn a_selector_picks_one_of_several_and_the_evidence_names_it() {
    let labels = |pairs: &[(&str, &str)]| Labels::new(pairs.iter().copied()).unwrap();
    let of = |name: &str, pairs: &[(&str, &str)]| Threshold {
        name: RuleName::new(name).unwrap(),
        labels: labels(pairs),
        ..named("disk_full")
    };
    let whole = of("whole", &[]);
    let root = of("root", &[("mount", "/")]);
    let racked = of("racked", &[("mount", "/data"), ("rack", "r1")]);
    let elsewhere = of("elsewhere", &[("rack", "r2")]);
    let thresholds = vec![whole.clone(), root.clone(), racked.clone(), elsewhere.clone()];
    let mut world = World::new(Rules { thresholds, time_scale: 1, ..Rules::default() });
    world.node = Speaker::new("a").called(labels(&[("rack", "r1")]));
    world.disk = 0.97;
    world.lives(60);
    let states = [&whole, &root, &racked, &elsewhere].map(|of| world.state(&of.name));
    assert_eq!(states, [Firing, Inactive, Firing, Inactive]);
    let sent = world
        .core
        .alerting
        .changes()
        .iter()
        .find(|notification| notification.key.rule == whole.name)
        .unwrap();
    let Evidence::Value(ValueEvidence { labels: named, value, threshold, .. }) = &sent.evidence
    else {
        panic!("{sent:?}")
    };
    assert_eq!((named, *value, *threshold), (&labels(&[("mount", "/data")]), 0.97, 0.95));
    assert_eq!(
        sent.summary,
        "A file system is about to be full: disk_used_ratio 0.97 mount=/data is > 0.95 on node a"
    );
}

#[test]
fn a_gauge_no_longer_sent_is_no_figure() {
    let metric = "gauge:depth".parse().unwrap();
    let deep = Threshold { metric, value: 5.0, fire_after: 70, ..named("cpu_hot") };
    let mut world = World::new(only(&deep));
    let scope = Scope::Node(NodeName::new("a").unwrap());
    let value = |world: &World| value_of(&world.core, &deep, &scope).map(|of| of.value);
    world.gauge = Some(7.0);
    world.live();
    // Some producers send it once a minute.
    world.gauge = None;
    world.lives(60);
    assert_eq!(value(&world), Some(7.0));
    world.gauge = Some(8.0);
    world.live();
    world.gauge = None;
    world.lives(74);
    assert_eq!((value(&world), world.state(&deep.name)), (Some(8.0), Firing));
    world.live();
    assert_eq!(value(&world), None);
    world.lives(100);
    assert_eq!(world.state(&deep.name), Firing, "it is not known to be over");
}

#[test]
fn an_alert_on_a_gauge_that_has_ended_for_an_hour_ends() {
    let metric = "gauge:depth".parse().unwrap();
    let deep = Threshold { metric, value: 5.0, fire_after: 1, ..named("cpu_hot") };
    let mut world = World::new(only(&deep));
    world.gauge = Some(7.0);
    world.live();
    assert_eq!(world.state(&deep.name), Firing);
    world.gauge = None;
    world.lives(3_599);
    assert_eq!(world.state(&deep.name), Firing, "it is not known to be over");
    world.lives(2);
    assert_eq!(world.state(&deep.name), Inactive);
    let ended = world.core.alerting.changes().last().unwrap().ended;
    assert_eq!(ended, Some(AlertEndReason::JobEnded));
}

#[test]
fn what_another_sender_brought_under_a_nodes_name_is_a_surplus_and_fires() {
    let rule = named("unaccounted");
    let mut world = World::new(only(&rule));
    world.lives(5);
    assert_eq!(world.state(&rule.name), Inactive);
    let mut forger = Speaker::new("a");
    let seen = 3 * 5;
    (0..seen).for_each(|_| drop(forger.message(world.now, Body::Bus(Bus::default()), false)));
    world.deliver(&forger.send(world.now, MS, 1_000));
    world.lives(20);
    assert_eq!(world.state(&rule.name), Firing);
    let node = world.core.node(&NodeName::new("a").unwrap()).unwrap();
    let ledger = node.account.ledger();
    // The node's own message of the forged number, with 120 samples, counts as a repetition.
    assert_eq!((ledger.surplus, ledger.recorded + 1_000 - 120), (880, ledger.merged));
    let page = crate::exposition::fleet(&world.core.view(world.now.wall, "t"), &[]);
    let row = "plimsoll_node_surplus_samples{node=\"a\"} 880\n";
    assert!(page.contains(row) && page.contains("plimsoll_samples_surplus 880\n"), "{page}");
}

#[test]
fn alerts_of_a_node_whose_record_was_lost_wait_for_it() {
    let full = named("disk_full");
    let firing = || {
        let mut world = World::new(only(&full));
        world.disk = 0.99;
        world.lives(60);
        assert_eq!(world.state(&full.name), Firing);
        let record = world.core.alerting.record(world.now.wall);
        let mut after = World::new(only(&full));
        after.core = after.core.with_alerts(record);
        (after.now, after.is_mute, after.disk) = (world.now, true, 0.99);
        after.lives(60);
        assert_eq!(after.state(&full.name), Firing, "the node has not sent yet");
        after
    };
    let mut back = firing();
    back.is_mute = false;
    back.lives(60);
    assert_eq!(back.state(&full.name), Firing);
    back.disk = 0.5;
    back.lives(60);
    assert_eq!(back.state(&full.name), Resolved);
    let mut gone = firing();
    gone.lives(600);
    assert_eq!(gone.state(&full.name), Inactive);
    let ended = gone.core.alerting.changes().last().unwrap().ended;
    assert_eq!(ended, Some(AlertEndReason::NodeForgotten));
}

#[test]
fn no_node_is_blamed_while_the_broker_is_away_and_who_does_not_come_back_is() {
    let mut world = World::new(shipped());
    let silent = named("node_silent").name;
    let away = named("broker_unreachable").name;
    let mut other = Speaker::new("b");
    let message = other.send(world.now, MS, 3);
    world.deliver(&message);
    world.lives(5);
    world.set_broker(false);
    world.lives(60);
    assert_eq!((world.state(&silent), world.state(&away)), (Inactive, Firing));
    // One of two comes back, after a while.
    world.set_broker(true);
    world.is_mute = true;
    world.lives(10);
    world.is_mute = false;
    world.lives(15);
    assert_eq!((world.state(&silent), world.state(&away)), (Inactive, Resolved));
    world.lives(10);
    let firing = world.core.alerting.alerts.active().filter(|(_, state)| *state == Firing);
    let about: Vec<_> = firing.map(|(key, _)| (key.rule.as_str(), key.scope.node())).collect();
    assert_eq!(about[0].0, "node_silent");
    assert!(about.iter().all(|(_, node)| *node == "b"), "{about:?}");
    // That the broker is away once more is no sign of life.
    world.set_broker(false);
    world.lives(20);
    world.set_broker(true);
    world.lives(20);
    assert_eq!(world.state(&silent), Firing);
}

#[test]
fn what_was_stored_and_is_not_read_yet_is_no_silence() {
    let mut world = World::new(shipped());
    world.lives(5);
    world.pending = 500;
    world.live();
    world.is_mute = true;
    world.lives(60);
    assert_eq!(world.state(&named("node_silent").name), Inactive);
}
