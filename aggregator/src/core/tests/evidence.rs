//! Notifications of whole cores: the nodes that they name, and the evidence beside them.

use crate::limits::{BARS_MAX, NOTIFICATION_BYTES_MAX, WORST_NODES_MAX};
use plimsoll_schemas::alert::{AlertState, BusContext, Evidence, HardwareContext, Notification};
use plimsoll_schemas::budget::{Budget, Window};
use plimsoll_schemas::hardware::{
    CGROUP_CPU_PERIODS_TOTAL, CGROUP_CPU_THROTTLED_PERIODS_TOTAL, CGROUP_MEMORY_LIMIT_BYTES,
    CGROUP_MEMORY_USED_BYTES, CPU_STEAL_RATIO, CPU_THROTTLED, GPU_TEMPERATURE_CELSIUS,
    GPU_THROTTLE_REASON, MEMORY_TOTAL_BYTES, MEMORY_USED_BYTES, PRESSURE_FULL_RATIO, Reading,
    Sensor,
};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, MeshName, NodeName, Operation, RuleName};
use plimsoll_schemas::limits::wire::{
    LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, OPERATION_BYTES_MAX, TOKEN_BYTES_MAX,
};
use plimsoll_schemas::metric::{Metric, NodeMetric};
use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::rule::{Comparison, RuleAnnotations, Rules, Threshold};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Now, seconds};
use plimsoll_schemas::wire::{Body, Bus, Hardware};

use super::*;
use crate::core::alerting::RunbookPage;

/// Runs a core for some seconds; returns its notifications.
fn live(
    core: &mut Core,
    seconds: std::ops::Range<u32>,
    mut each: impl FnMut(&mut Core, Now, u32),
) -> Vec<Notification> {
    let mut sent = Vec::new();
    for second in seconds {
        let now = start().after(second * SECOND);
        each(core, now, second);
        core.on_deadline(now);
        while let Some(DueNotification { token, notification, .. }) =
            core.notifications().next_due(now.mono)
        {
            sent.push(notification);
            core.notifications().on_delivered(token);
        }
    }
    sent
}

fn firing<'n>(sent: &'n [Notification], rule: &str, node: &str) -> &'n Notification {
    let of = |notification: &&Notification| {
        notification.state == AlertState::Firing
            && notification.key.rule.as_str() == rule
            && notification.key.scope.node() == node
    };
    sent.iter().find(of).expect("it fired")
}

fn name(text: &str) -> &'static str {
    String::leak(text.to_owned())
}

#[test]
fn of_fifty_nodes_those_that_are_slow_are_named_with_their_shares() {
    let mut core = core();
    let names = (0..50).map(|n| name(&format!("n{n:02}")));
    let mut fleet: Vec<Speaker> = names.map(Speaker::new).collect();
    let sent = live(&mut core, 1..10, |core, now, _| {
        for (n, speaker) in fleet.iter_mut().enumerate() {
            deliver(core, now, &speaker.send(now, 5 * MS, 20));
            // Slow ones: three quarters and a quarter of what is bad.
            match n {
                17 => deliver(core, now, &speaker.send(now, 40 * MS, 60)),
                31 => deliver(core, now, &speaker.send(now, 30 * MS, 20)),
                _ => {}
            }
        }
    });
    let fleet = firing(&sent, "epoch_hook", "");
    let context = fleet.context.as_ref().unwrap();
    let shares = context.worst.iter().map(|of| (of.share_of_slow, of.over_ratio));
    assert_eq!(shares.collect::<Vec<_>>(), [(0.75, 0.75), (0.25, 0.5)]);
    let worst: Vec<(&str, u64, u64, f64)> =
        context.worst.iter().map(|of| (of.node.as_str(), of.over, of.samples, of.share)).collect();
    assert_eq!(worst, [("n17", 180, 240, 0.75), ("n31", 60, 120, 0.25)]);
    assert_eq!(context.completeness, Some((50, 50)));
    assert_eq!(context.worst_window, Some(Window::TenSeconds));
    let Evidence::Latency(evidence) = &fleet.evidence else { panic!("{:?}", fleet.evidence) };
    assert_eq!((evidence.over, evidence.samples), (240, 3_240));
    let node = firing(&sent, "epoch_hook", "n17");
    let worst = &node.context.as_ref().unwrap().worst;
    assert_eq!((worst.len(), worst[0].node.as_str(), worst[0].share), (1, "n17", 0.75));
    assert!(sent.iter().all(|of| of.context.is_some() == (of.state == AlertState::Firing)));
}

#[test]
fn the_machine_and_the_way_to_the_broker_of_a_slow_node_stand_beside_it() {
    let mut core = core();
    let mut slow = Speaker::new("slow");
    let gpu = |reason: &[(&str, &str)]| Labels::new([&[("gpu", "0")], reason].concat()).unwrap();
    let readings = vec![
        Reading::ok(&GPU_TEMPERATURE_CELSIUS, gpu(&[]), 88.0),
        Reading::ok(&GPU_THROTTLE_REASON, gpu(&[("reason", "hw_thermal_slowdown")]), 1.0),
        Reading::ok(&MEMORY_USED_BYTES, Labels::default(), 9.0),
        Reading::ok(&MEMORY_TOTAL_BYTES, Labels::default(), 10.0),
    ];
    let bus = Bus {
        outbox_depth: 70,
        outbox_depth_max: 90,
        outbox_bytes: 12_345,
        rerouted: 3,
        dropped: 1,
        round_trip_ns: Some(2 * MS),
        ..Bus::default()
    };
    let mut slow_publish = Histogram::default();
    slow_publish.record_n(40 * MS, 100);
    let sent = live(&mut core, 1..10, |core, now, _| {
        let hardware = Hardware::all(readings.clone());
        deliver(core, now, &slow.message(now, Body::Hardware(hardware), false));
        deliver(core, now, &slow.message(now, Body::Bus(bus.clone()), false));
        deliver(core, now, &slow.send_samples(now, &["publish"], &slow_publish));
    });
    for scope in ["", "slow"] {
        let worst = &firing(&sent, "publish", scope).context.as_ref().unwrap().worst[0];
        let machine = &worst.hardware;
        assert_eq!(
            (machine.gpu_temperature_celsius, machine.gpu_throttled, machine.memory_used_ratio),
            (Some(88.0), Some(true), Some(0.9))
        );
        assert_eq!(machine.cpu_temperature_celsius, None, "no sensor has it");
        let sent = BusContext {
            outbox_depth: 70,
            outbox_depth_max: 90,
            pending_bytes: 12_345,
            rerouted: 3,
            dropped: 1,
            round_trip_seconds: Some(0.002),
        };
        assert_eq!(worst.bus, sent);
    }
}

#[test]
fn a_budget_that_fires_names_what_held_its_machines_back() {
    let mut core = core();
    let mut slow = Speaker::new("slow");
    let mut quick = Speaker::new("quick");
    let one = |sensor: &Sensor, value| Reading::ok(sensor, Labels::default(), value);
    let memory = Labels::new([("resource", "memory")]).unwrap();
    let sent = live(&mut core, 1..10, |core, now, second| {
        let periods = 10.0 * f64::from(second);
        let readings = vec![
            one(&CPU_THROTTLED, 1.0),
            one(&CPU_STEAL_RATIO, 0.3),
            one(&CGROUP_MEMORY_USED_BYTES, 97.0),
            one(&CGROUP_MEMORY_LIMIT_BYTES, 100.0),
            one(&CGROUP_CPU_PERIODS_TOTAL, periods),
            one(&CGROUP_CPU_THROTTLED_PERIODS_TOTAL, 0.4 * periods),
            Reading::ok(&PRESSURE_FULL_RATIO, memory.clone(), 0.2),
        ];
        let hardware = Body::Hardware(Hardware::all(readings));
        deliver(core, now, &slow.message(now, hardware, false));
        deliver(core, now, &slow.send(now, 40 * MS, 60));
        deliver(core, now, &quick.send(now, 5 * MS, 60));
    });
    for scope in ["", "slow"] {
        let notification = firing(&sent, "epoch_hook", scope);
        let machine = &notification.context.as_ref().unwrap().worst[0].hardware;
        let held = HardwareContext {
            cpu_throttled: Some(true),
            cpu_steal_ratio: Some(0.3),
            cgroup_memory_used_ratio: Some(0.97),
            cgroup_cpu_throttled_ratio: Some(0.4),
            memory_stalled_ratio: Some(0.2),
            ..HardwareContext::default()
        };
        assert_eq!(*machine, held, "{scope}");
    }
}

#[test]
fn histograms_before_and_during_equal_a_naive_count() {
    let mut core = core();
    let mut node = Speaker::new("a");
    let value = |second: u32, n: u64| match second {
        0..30 => (1 + n % 17) * MS,
        _ => (10 + n % 20) * MS,
    };
    let sent = live(&mut core, 1..40, |core, now, second| {
        deliver(core, now, &node.send_all(now, (0..40).map(|n| value(second, n))));
    });
    let notification = firing(&sent, "epoch_hook", "a");
    let context = notification.context.as_ref().unwrap();
    // The window takes whole slots of a second, what was before it slots of five.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
    let fired = (notification.at_seconds - seconds(start().wall.0)).round() as u32;
    let from = fired - 10;
    let epoch = seconds(start().wall.0).rem_euclid(5.0);
    assert_eq!(epoch, 0.0, "slots of five seconds begin with the core");
    let before_from = (from - 10) / 5 * 5;
    for (bars, taken) in [(&context.before, before_from..from), (&context.during, from..fired + 1)]
    {
        let values: Vec<u64> = (1..=fired)
            .filter(|second| taken.contains(second))
            .flat_map(|second| (0..40).map(move |n| value(second, n)))
            .collect();
        let mut above = 0.0;
        for bar in bars {
            let within = |ns: &&u64| seconds(**ns) > above && seconds(**ns) <= bar.up_to;
            let naive = values.iter().filter(within).count() as u64;
            assert_eq!(bar.samples, naive, "up to {} of {bars:?}", bar.up_to);
            above = bar.up_to;
        }
        let sum: u64 = bars.iter().map(|bar| bar.samples).sum();
        assert_eq!(sum, values.len() as u64);
        assert!(bars.iter().any(|bar| bar.up_to == 0.018), "the limit is an end: {bars:?}");
    }
}

#[test]
fn what_precedes_the_longest_window_is_not_reported() {
    let text = "[[budget]]
name = 'epoch_hook'
window = '5m'";
    let mut core = Core::new(MeshName::new("m").unwrap(), effective(&[text]).unwrap(), start());
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    let mut node = Speaker::new("a");
    let sent = live(&mut core, 1..400, |core, now, second| {
        deliver(core, now, &node.send(now, if second < 390 { 5 } else { 40 } * MS, 20));
    });
    let bars = |node| firing(&sent, "epoch_hook", node).context.as_ref().unwrap().before.len();
    assert_eq!(bars("a"), 0, "a node keeps five minutes");
    assert!(bars("") > 0, "the fleet keeps all windows");
}

#[test]
fn the_longest_names_and_labels_make_a_notification_that_is_small_enough() {
    let long = |n: usize, of: char| of.to_string().repeat(n);
    // Of what a label may hold, a quote takes most room in JSON.
    let labels = Labels::new((0..LABELS_MAX).map(|n| {
        let key = format!("{n:02}{}", long(LABEL_KEY_BYTES_MAX - 2, 'k'));
        (key, long(LABEL_VALUE_BYTES_MAX, '"'))
    }));
    let labels = labels.unwrap();
    let operation = Operation::new(long(OPERATION_BYTES_MAX, '/')).unwrap();
    let budget = Budget {
        name: RuleName::new(long(TOKEN_BYTES_MAX, 'r')).unwrap(),
        operation: operation.clone(),
        objective: None,
        window: Window::TenSeconds,
        ..effective(&[]).unwrap().remove(0)
    };
    let mesh = MeshName::new(long(TOKEN_BYTES_MAX, 'm')).unwrap();
    let core = Core::new(mesh, vec![budget], start());
    let places = "{from_ms}{to_ms}{mesh}{rule}{node}{operation}{operation}{node}{node}";
    let mut core =
        core.linking(format!("http://g/{places}").parse().unwrap(), RunbookPage::default());
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    let names = (0..9).map(|n| name(&format!("{n}{}", long(TOKEN_BYTES_MAX - 1, 'n'))));
    let mut fleet: Vec<Speaker> =
        names.map(|name| Speaker::new(name).called(labels.clone())).collect();
    let mut wide = Histogram::default();
    (0..40).for_each(|power| wide.record_n(1 << power, 10));
    let sent = live(&mut core, 1..20, |core, now, _| {
        for speaker in &mut fleet {
            let (subject, payload) = speaker.send_samples(now, &[operation.as_str()], &wide);
            let subject = subject.replace(".m.", &format!(".{}.", long(TOKEN_BYTES_MAX, 'm')));
            deliver(core, now, &(subject, payload));
        }
    });
    let notification = sent.iter().find(|notification| notification.context.is_some()).unwrap();
    let context = notification.context.as_ref().unwrap();
    assert_eq!(context.worst.len(), WORST_NODES_MAX);
    assert!(context.during.len() > BARS_MAX / 2 && context.dashboard.is_some());
    let bytes = serde_json::to_vec(notification).unwrap().len();
    // The rest is for the texts of rules.
    assert!((30_000..NOTIFICATION_BYTES_MAX - 16_384).contains(&bytes), "{bytes}");
    let node = NodeName::new(fleet.len().to_string()).unwrap();
    assert!(context.worst.iter().all(|worst| worst.node != node));
}

fn rules(time_scale: u32) -> Rules {
    let threshold = Threshold {
        name: RuleName::new("queue_depth").unwrap(),
        metric: Metric::Node(NodeMetric::OutboxDepth),
        labels: Labels::default(),
        comparison: Comparison::Greater,
        value: 4_000.0,
        baseline: None,
        fire_after: 2,
        clear_after: 5,
        about: RuleAnnotations::default(),
    };
    let budgets = effective(&[]).unwrap();
    Rules { budgets, thresholds: vec![threshold], time_scale, ..Rules::default() }
}

#[test]
fn an_alert_about_a_node_that_judges_no_samples_shows_that_node_alone() {
    let mut core = Core::new(MeshName::new("m").unwrap(), rules(1), start());
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    let (mut deep, mut fine) = (Speaker::new("deep"), Speaker::new("fine"));
    let bus =
        Bus { outbox_depth: 4_001, outbox_pressure: 500_125, outbox_bytes: 9, ..Bus::default() };
    let sent = live(&mut core, 1..6, |core, now, _| {
        deliver(core, now, &deep.message(now, Body::Bus(bus.clone()), false));
        deliver(core, now, &fine.message(now, Body::Bus(Bus::default()), false));
    });
    let notification = firing(&sent, "queue_depth", "deep");
    assert_eq!(notification.evidence.value_and_limit(), (4_001.0, 4_000.0));
    let context = notification.context.as_ref().unwrap();
    let [worst] = &context.worst[..] else { panic!("{:?}", context.worst) };
    assert_eq!((worst.node.as_str(), worst.bus.pending_bytes, worst.over), ("deep", 9, 0));
    assert_eq!((context.during.len(), context.worst_window), (0, None));
}

#[test]
fn an_error_budget_that_is_spent_too_fast_names_who_spends_it() {
    // An hour is a minute, and five minutes are ten seconds.
    let mut core = Core::new(MeshName::new("m").unwrap(), rules(60), start());
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    let (mut slow, mut fine) = (Speaker::new("slow"), Speaker::new("fine"));
    let sent = live(&mut core, 1..50, |core, now, _| {
        deliver(core, now, &slow.send(now, 30 * MS, 20));
        deliver(core, now, &fine.send(now, 5 * MS, 80));
    });
    let notification = firing(&sent, "epoch_hook_burn_1h", "");
    let (burn, pace) = notification.evidence.value_and_limit();
    assert!((burn - 20.0).abs() < 1e-9 && pace == 14.4, "{burn} {pace}");
    let context = notification.context.as_ref().unwrap();
    assert_eq!(context.worst_window, Some(Window::TenSeconds));
    let worst: Vec<(&str, f64)> =
        context.worst.iter().map(|worst| (worst.node.as_str(), worst.share)).collect();
    assert_eq!(worst, [("slow", 1.0)]);
    assert!(context.during.iter().any(|bar| bar.up_to == 0.018));
}
