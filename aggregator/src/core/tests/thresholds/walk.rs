//! Every rule that is shipped, and every metric that a rule may watch. A fault makes the rule fire
//! after as many evaluations as it sets, and the repair resolves it. The messages are real: a rule
//! whose metric no producer sends would never fire.

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_schemas::alert::AlertState::{Firing, Inactive, Pending, Resolved};
use plimsoll_schemas::hardware::{
    CGROUP_CPU_PERIODS_TOTAL, CGROUP_CPU_THROTTLED_PERIODS_TOTAL, CGROUP_MEMORY_USED_BYTES,
    CLOCK_SYNCHRONIZED, CPU_THROTTLED, DISK_INODES_USED, FILE_HANDLES, GPU_ECC_ERRORS_TOTAL,
    GPU_FAULTS_TOTAL, GPUS_LOST, OOM_KILLS_TOTAL, PRESSURE_FULL_RATIO, SENSORS_UNREAD, sensor,
};
use plimsoll_schemas::ids::{LossReason, RuleName};
use plimsoll_schemas::metric::{AggregatorMetric, Metric, NodeMetric};
use plimsoll_schemas::rule::file::shipped;
use plimsoll_schemas::rule::{Comparison, Rules, Threshold};
use plimsoll_schemas::subject::Lane;

use super::*;
use crate::core::tests::flood::names;
use crate::core::tests::thresholds::world::World;

/// What is done each second to make a rule fire, and once to repair it.
type Case = (&'static str, fn(&mut World), fn(&mut World));

/// Eleven nodes that send one message, or their final one.
fn strangers(world: &mut World, leave: bool) {
    for name in ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10"] {
        let mut node = Speaker::new(name);
        let first = node.message(world.now, Body::Bus(Bus::default()), false);
        let last = node.final_message(world.now);
        world.deliver(if leave { &last } else { &first });
    }
}

const CASES: &[Case] = &[
    ("queue_depth", |w| w.bus.outbox_pressure = 500_001, |w| w.bus.outbox_pressure = 500_000),
    ("rerouted", |w| w.bus.rerouted += 1, |_| {}),
    ("dropped", |w| w.bus.dropped += 1, |_| {}),
    ("breaker_open", |w| w.bus.breaker_state = Some(2), |w| w.bus.breaker_state = Some(0)),
    ("task_restarting", |w| w.bus.task_restarts += 1, |_| {}),
    (
        "spool_not_durable",
        |w| w.bus.spool_durable = Some(false),
        |w| w.bus.spool_durable = Some(true),
    ),
    ("message_ids_taken", |w| w.bus.taken_ids += 1, |_| {}),
    (
        "confirmations_refused",
        |w| {
            let reason = LossReason::new("signature").unwrap();
            *w.bus.confirmations_refused.entry(reason).or_default() += 1;
        },
        |_| {},
    ),
    ("conservative_mode", |w| w.bus.conservative = true, |w| w.bus.conservative = false),
    ("link_slow", |w| w.bus.round_trip_ns = Some(1_900 * MS), |w| w.bus.round_trip_ns = Some(MS)),
    ("node_silent", |w| w.is_mute = true, |w| w.is_mute = false),
    ("clock_skew", |w| w.clock_ahead_s = 10, |w| w.clock_ahead_s = 0),
    (
        "duplicate_name",
        |w| {
            w.twin.get_or_insert_with(|| Speaker::new("a").of(2));
        },
        |w| w.twin = None,
    ),
    ("samples_late", |w| w.bus.outbox_age_ns = 60_001 * MS, |w| w.bus.outbox_age_ns = 60_000 * MS),
    (
        "samples_lost",
        |w| {
            w.node.send(w.now, MS, 5);
            w.node.lose(5);
        },
        |_| {},
    ),
    (
        "run_crashed",
        |w| {
            if w.node.incarnation() == 1 {
                w.node = Speaker::new("a").of(2);
            }
        },
        |_| {},
    ),
    ("kernel_dropped", |w| w.bus.kernel_dropped += 1, |_| {}),
    (
        "unaccounted",
        |w| {
            if w.lost.is_none() {
                w.lost = Some(w.node.send(w.now, MS, 5));
                let last = w.node.send(w.now, MS, 5);
                w.deliver(&last);
                w.node = Speaker::new("a").of(2);
            }
        },
        |_| {},
    ),
    (
        "ledger_gap",
        |w| {
            if w.lost.is_none() {
                w.lost = Some(w.node.send(w.now, MS, 5));
            }
        },
        |w| {
            let lost = w.lost.take().unwrap();
            w.deliver(&lost);
        },
    ),
    ("data_absent", |w| w.takes_ms = None, |w| w.takes_ms = Some(1)),
    ("memory_high", |w| w.memory = 0.86, |w| w.memory = 0.85),
    ("memory_critical", |w| w.memory = 0.96, |w| w.memory = 0.5),
    ("cpu_hot", |w| w.cpu_celsius = 76.0, |w| w.cpu_celsius = 75.0),
    ("cpu_critical", |w| w.cpu_celsius = 86.0, |w| w.cpu_celsius = 70.0),
    ("gpu_hot", |w| w.gpu_celsius = 76.0, |w| w.gpu_celsius = 75.0),
    ("gpu_memory_high", |w| w.gpu_memory = 0.86, |w| w.gpu_memory = 0.84),
    ("gpu_memory_critical", |w| w.gpu_memory = 0.96, |w| w.gpu_memory = 0.5),
    ("gpu_throttled", |w| w.throttled = 1.0, |w| w.throttled = 0.0),
    ("disk_high", |w| w.disk = 0.86, |w| w.disk = 0.84),
    ("disk_full", |w| w.disk = 0.96, |w| w.disk = 0.5),
    ("sensors_unread", |w| w.sense(&SENSORS_UNREAD, 1.0), |w| w.sense(&SENSORS_UNREAD, 0.0)),
    ("gpu_lost", |w| w.sense(&GPUS_LOST, 1.0), |w| w.sense(&GPUS_LOST, 0.0)),
    ("gpu_fault", |w| w.tick(&GPU_FAULTS_TOTAL, 1.0), |_| {}),
    ("gpu_memory_errors", |w| w.tick(&GPU_ECC_ERRORS_TOTAL, 1.0), |_| {}),
    ("cpu_throttled", |w| w.sense(&CPU_THROTTLED, 1.0), |w| w.sense(&CPU_THROTTLED, 0.0)),
    (
        "cgroup_memory_high",
        |w| w.sense(&CGROUP_MEMORY_USED_BYTES, 86.0),
        |w| w.sense(&CGROUP_MEMORY_USED_BYTES, 85.0),
    ),
    (
        "cgroup_memory_critical",
        |w| w.sense(&CGROUP_MEMORY_USED_BYTES, 96.0),
        |w| w.sense(&CGROUP_MEMORY_USED_BYTES, 90.0),
    ),
    (
        "cgroup_cpu_throttled",
        |w| {
            w.tick(&CGROUP_CPU_PERIODS_TOTAL, 10.0);
            w.tick(&CGROUP_CPU_THROTTLED_PERIODS_TOTAL, 3.0);
        },
        |_| {},
    ),
    (
        "memory_stalled",
        |w| w.sense(&PRESSURE_FULL_RATIO, 0.11),
        |w| w.sense(&PRESSURE_FULL_RATIO, 0.1),
    ),
    ("oom_kills", |w| w.tick(&OOM_KILLS_TOTAL, 1.0), |_| {}),
    ("inodes_high", |w| w.sense(&DISK_INODES_USED, 86.0), |w| w.sense(&DISK_INODES_USED, 85.0)),
    ("inodes_full", |w| w.sense(&DISK_INODES_USED, 96.0), |w| w.sense(&DISK_INODES_USED, 5.0)),
    ("file_handles_high", |w| w.sense(&FILE_HANDLES, 91.0), |w| w.sense(&FILE_HANDLES, 90.0)),
    (
        "clock_unsynchronized",
        |w| w.sense(&CLOCK_SYNCHRONIZED, 0.0),
        |w| w.sense(&CLOCK_SYNCHRONIZED, 1.0),
    ),
    ("isolation_violations", |w| w.count("isolation.violations", 4.0), |_| {}),
    ("compile_retries", |w| w.count("compile.retries", 2.0), |_| {}),
    ("broker_unreachable", |w| w.set_broker(false), |w| w.set_broker(true)),
    (
        "broker_slow",
        |w| {
            w.round_trip = Duration::from_millis(600);
            w.bus.round_trip_ns = Some(700 * MS);
        },
        |w| w.round_trip = Duration::from_millis(1),
    ),
    (
        "stream_full",
        |w| w.core.on_stream_used(Lane::Normal, 0.96),
        |w| w.core.on_stream_used(Lane::Normal, 0.5),
    ),
    ("nodes_silent", |w| strangers(w, false), |w| strangers(w, true)),
    ("table_filling", |w| w.deliver(&names("flood", 0..250)), |_| {}),
    (
        "undecodable",
        |w| w.deliver(&("plimsoll.v1.m.normal.a.bus".to_owned(), vec![0xc1; 40])),
        |_| {},
    ),
    (
        "notifications_undeliverable",
        |w| (w.broker_refuses, w.takes_ms) = (true, Some(40)),
        |w| (w.broker_refuses, w.takes_ms) = (false, Some(1)),
    ),
    (
        "aggregator_task_restarting",
        |w| {
            w.task_restarts += 1;
            w.core.on_task_restarts(w.task_restarts);
        },
        |_| {},
    ),
    ("checkpoint_old", |w| w.stores = false, |w| w.stores = true),
    ("swap", |w| w.swap = 0.9, |w| w.swap = 0.1),
    ("outbox_bytes", |w| w.bus.outbox_bytes = 2_000, |w| w.bus.outbox_bytes = 10),
    ("outbox_depth", |w| w.bus.outbox_depth = 2_000, |w| w.bus.outbox_depth = 10),
    ("outbox_age", |w| w.bus.outbox_age_ns = 2_000 * MS, |w| w.bus.outbox_age_ns = MS),
    ("round_trip", |w| w.bus.round_trip_ns = Some(2_000 * MS), |w| w.bus.round_trip_ns = Some(MS)),
    ("pending", |w| w.pending = 2_000, |w| w.pending = 0),
    ("depth", |w| w.gauge = Some(-1.0), |w| w.gauge = Some(0.0)),
];

/// The case of a rule on a sensor follows from the rule: a reading beyond its value, and one at it.
fn sense(world: &mut World, rule: &Threshold, is_wrong: bool) {
    let Metric::Sensor(name) = &rule.metric else { panic!("CASES lacks {}", rule.name) };
    let value = match (rule.comparison, is_wrong) {
        (Comparison::Greater, true) | (Comparison::Equal, false) => rule.value + 1.0,
        (Comparison::Less, true) => rule.value - 1.0,
        (Comparison::Greater | Comparison::Less, false) | (Comparison::Equal, true) => rule.value,
    };
    world.sense(sensor(name).unwrap(), value);
}

/// Longer than anything a rule of these waits for, with what its metric remembers.
const PATIENCE_S: u32 = 800;

/// Thresholds on what no shipped rule watches.
fn others() -> Vec<Threshold> {
    use Comparison::{Greater, Less};
    let rules = [
        ("swap", "swap_used_ratio", Greater, 0.8),
        ("outbox_bytes", "outbox_bytes", Greater, 1_000.0),
        ("outbox_depth", "outbox_depth", Greater, 1_000.0),
        ("outbox_age", "outbox_age_seconds", Greater, 1.0),
        ("round_trip", "round_trip_seconds", Greater, 1.0),
        ("pending", "pending_messages", Greater, 1_000.0),
        ("load", "sensor:load1", Greater, 100.0),
        ("depth", "gauge:depth", Less, 0.0),
    ];
    let like = shipped().thresholds.remove(0);
    let threshold = |(name, metric, comparison, value): (&str, &str, _, _)| Threshold {
        name: RuleName::new(name).unwrap(),
        metric: metric.parse().unwrap(),
        comparison,
        value,
        ..like.clone()
    };
    rules.into_iter().map(threshold).collect()
}

fn all() -> Rules {
    let mut rules = shipped();
    rules.thresholds.extend(others());
    rules
}

#[test]
fn every_rule_and_every_figure_has_a_producer_that_is_tried() {
    let thresholds = all().thresholds;
    let follows = |of: &&Threshold| matches!(of.metric, Metric::Sensor(_)) && of.labels.is_empty();
    let cased = thresholds.iter().filter(|of| !follows(of));
    let rules: BTreeSet<&str> = cased.map(|of| of.name.as_str()).collect();
    let tried: BTreeSet<&str> = CASES.iter().map(|(name, ..)| *name).collect();
    assert_eq!(rules, tried, "a rule without a case here, or a case without its rule");
    let watched: BTreeSet<&Metric> = thresholds.iter().map(|of| &of.metric).collect();
    let nodes = NodeMetric::ALL.iter().map(|figure| Metric::Node(*figure));
    let fleet = AggregatorMetric::ALL.iter().map(|figure| Metric::Fleet(*figure));
    let untried: Vec<_> = nodes.chain(fleet).filter(|metric| !watched.contains(metric)).collect();
    assert_eq!(untried, [], "figures that no rule here watches");
}

#[test]
fn while_all_is_well_no_rule_finds_anything() {
    let mut world = World::new(all());
    world.lives(1_000);
    assert_eq!(world.core.alerting.alerts.active().count(), 0);
}

#[test]
fn every_rule_fires_on_its_fault_and_resolves_when_that_is_fixed() {
    for threshold in all().thresholds {
        let name = &threshold.name;
        let case = CASES.iter().find(|case| case.0 == name.as_str());
        // Without the others, which take most of the time.
        let mut world = World::new(Rules { thresholds: vec![threshold.clone()], ..all() });
        world.lives(20);
        assert_eq!(world.state(&threshold.name), Inactive, "{name}");
        let mut pending = 0;
        for _ in 0..PATIENCE_S {
            match case {
                Some((_, wrong, _)) => wrong(&mut world),
                None => sense(&mut world, &threshold, true),
            }
            world.live();
            pending += u32::from(world.state(&threshold.name) == Pending);
            if world.state(&threshold.name) == Firing {
                break;
            }
        }
        assert_eq!(world.state(&threshold.name), Firing, "{name}");
        assert_eq!(pending + 1, threshold.fire_after, "{name}");
        match case {
            Some((.., fix)) => fix(&mut world),
            None => sense(&mut world, &threshold, false),
        }
        let resolved = (0..PATIENCE_S).position(|_| {
            world.live();
            world.state(&threshold.name) == Resolved
        });
        let resolved = resolved.unwrap_or_else(|| panic!("{name} never resolves"));
        assert!(resolved + 1 >= threshold.clear_after as usize, "{name} {resolved}");
    }
}
