//! Rules that are reloaded while alerts are active.

use std::time::Duration;

use plimsoll_schemas::alert::{AlertEndReason, AlertKey, AlertState, Notification, Scope};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, NodeName, Operation, RuleName};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::rule::file::{effective, shipped};
use plimsoll_schemas::time::Now;

use super::*;
use crate::core::tests::checkpoint::restarted;
use crate::core::tests::thresholds::world::World;

fn key(scope: Scope) -> AlertKey {
    let rule = RuleName::new("epoch_hook").unwrap();
    AlertKey { rule, scope, operation: Operation::new("epoch_hook").unwrap() }
}

fn of_node() -> AlertKey {
    key(Scope::Node(NodeName::new("a").unwrap()))
}

/// A core in which an alert of the fleet and one of the node fire, and the time. Its first second
/// was half an hour before, so that one burn rate of its error budget is judged.
fn firing() -> (Core, Speaker, Now) {
    let (mut core, mut speaker) = (core(), Speaker::new("a"));
    core.reload(start(), rules(""));
    let now = live(&mut core, &mut speaker, start(), 1).after(SECOND * 1_800);
    let now = live(&mut core, &mut speaker, now, 4);
    assert_eq!(core.alerting.alerts.state(&of_node()), AlertState::Firing);
    (core, speaker, now)
}

/// Advances some seconds, each with 200 samples of 40 ms.
fn live(core: &mut Core, speaker: &mut Speaker, from: Now, seconds: u32) -> Now {
    let mut now = from;
    for second in 1..=seconds {
        now = from.after(SECOND * second);
        deliver(core, now, &speaker.send(now, 40 * MS, 200));
        core.on_deadline(now);
    }
    now
}

fn rules(text: &str) -> Rules {
    let text = format!("[[budget]]\nname = 'epoch_hook'\nwindow = '10s'\n{text}");
    Rules::from(effective(&[&text]).unwrap())
}

fn ended(core: &Core) -> Vec<&Notification> {
    core.alerting.changes().iter().filter(|notification| notification.ended.is_some()).collect()
}

#[test]
fn a_firing_alert_outlives_a_change_of_its_limit_and_is_judged_by_the_new_one() {
    let (mut core, mut speaker, now) = firing();
    core.reload(now, rules("limit = '39ms'"));
    assert_eq!(core.alerting.alerts.state(&of_node()), AlertState::Firing);
    live(&mut core, &mut speaker, now, 5);
    assert_eq!(core.alerting.alerts.state(&of_node()), AlertState::Firing, "40 ms are over 39 ms");
    core.reload(now.after(SECOND * 5), rules("limit = '50ms'"));
    live(&mut core, &mut speaker, now.after(SECOND * 5), 5);
    assert_eq!(core.alerting.alerts.state(&of_node()), AlertState::Resolved);
    assert!(ended(&core).is_empty(), "{:?}", ended(&core));
}

#[test]
fn alerts_of_a_rule_that_is_gone_or_watches_others_end_with_a_notification() {
    let (fleet, node) = (key(Scope::Fleet), of_node());
    for (text, expected) in [
        ("enabled = false", vec![&fleet, &node]),
        ("operation = 'other'", vec![&fleet, &node]),
        ("scopes = ['fleet']", vec![&node]),
        ("labels = { kind = 'full' }", vec![&fleet, &node]),
        ("summary = 'slow'", vec![]),
    ] {
        let (mut core, _, now) = firing();
        core.reload(now, rules(text));
        let mut ended = ended(&core);
        let left =
            core.alerting.alerts.active().filter(|(key, _)| key.rule.as_str() == "epoch_hook");
        assert_eq!(left.count(), 2 - expected.len(), "{text}");
        // The alerts of its error budget go with it, and stay with the fleet's.
        let burns =
            ended.extract_if(.., |notification| notification.key.rule.as_str() != "epoch_hook");
        assert_eq!(burns.count() > 0, expected.len() == 2, "{text}");
        assert_eq!(
            ended.iter().map(|notification| &notification.key).collect::<Vec<_>>(),
            expected,
            "{text}"
        );
        for notification in ended {
            assert_eq!(notification.state, AlertState::Resolved);
            assert_eq!(notification.ended, Some(AlertEndReason::RuleRemoved));
            let evidence = notification.evidence.latency().expect("its last evidence");
            assert!((evidence.limit_seconds - 0.018).abs() < 1e-9, "{evidence:?}");
        }
    }
}

#[test]
fn alerts_of_a_rule_that_is_about_other_labels_after_a_restart_end_too() {
    for (text, left) in [("", 2), ("labels = { kind = 'full' }", 0)] {
        let (mut core, _, now) = firing();
        let mut stored = StoredRecords::default();
        core.on_changes_lost();
        stored.write(core.take_changes(now.wall).unwrap());
        let stored = stored.read().unwrap();
        let core = Core::restore(core.mesh.clone(), rules(text), now, stored);
        let core = core.with_receivers(now, Vec::new(), 1);
        let reported =
            core.alerting.alerts.active().filter(|(key, _)| key.rule.as_str() == "epoch_hook");
        assert_eq!((reported.count(), ended(&core).is_empty()), (left, left > 0), "{text}");
    }
}

#[test]
fn an_alert_of_a_threshold_that_is_about_other_labels_or_another_metric_ends() {
    let full = RuleName::new("disk_high").unwrap();
    let of = |metric: &str, labels: &[(&str, &str)]| {
        let mut rules = shipped();
        let rule = rules.thresholds.iter_mut().find(|rule| rule.name == full).unwrap();
        rule.metric = metric.parse().unwrap();
        rule.labels = Labels::new(labels.iter().copied()).unwrap();
        rules
    };
    for (rules, state) in [
        (of("disk_used_ratio", &[]), AlertState::Firing),
        (of("disk_used_ratio", &[("mount", "/")]), AlertState::Inactive),
        (of("memory_used_ratio", &[]), AlertState::Inactive),
    ] {
        let mut world = World::new(shipped());
        world.disk = 0.9;
        world.lives(61);
        assert_eq!(world.state(&full), AlertState::Firing);
        world.core.reload(world.now, rules);
        assert_eq!(world.state(&full), state);
        assert_eq!(ended(&world.core).is_empty(), state == AlertState::Firing);
    }
}

#[test]
fn a_longer_window_is_kept_from_the_reload_on_and_what_was_merged_stays() {
    let (mut core, mut speaker, now) = firing();
    let text = "[[budget]]\nname = 'epoch_hook'\nwindow = '1h'";
    core.reload(now, Rules::from(effective(&[text]).unwrap()));
    let now = live(&mut core, &mut speaker, now, 2);
    let rows = core.view(now.wall, "t").summary.operations;
    assert!(rows.iter().all(|row| row.total.count == 7 * 200), "{rows:?}");
    let row = rows.iter().find(|row| row.scope != Scope::Fleet).unwrap();
    let hour = &row.windows[&Window::OneHour];
    assert!(hour.quantiles.count >= 2 * 200, "{hour:?}");
}

#[test]
fn unmatched_budgets_are_logged_once_and_shown() {
    let (mut core, mut speaker) = (core(), Speaker::new("a"));
    let mut now = start();
    let more = "[[budget]]\nname = 'kernel_fetch'\n[[budget]]\nname = 'publish'";
    core.reload(now, rules(more));
    let mut sent = Vec::new();
    for minute in 0..=6 {
        now = start().after(Duration::from_secs(60) * minute);
        core.on_deadline(now);
        deliver(&mut core, now, &speaker.send(now, MS, 5));
        sent.extend(core.next_unmatched());
    }
    let sent: Vec<&str> = sent.iter().map(RuleName::as_str).collect();
    assert_eq!(sent, ["kernel_fetch", "publish"]);
    let view = core.view(now.wall, "t");
    assert_eq!(view.summary.rules.unmatched, ["kernel_fetch", "publish"]);
    let page = crate::exposition::own(&view);
    for row in [
        "plimsoll_budget_unmatched{budget=\"epoch_hook\"} 0",
        "plimsoll_budget_unmatched{budget=\"publish\"} 1",
    ] {
        assert!(page.contains(row), "{page}");
    }
    core.reload(now, rules("limit = '1ms'"));
    assert_eq!(core.view(now.wall, "t").summary.rules.unmatched, [""; 0], "loaded just now");
}

#[test]
fn a_budget_whose_samples_came_before_a_restart_is_not_unmatched() {
    let (mut core, mut speaker) = (core(), Speaker::new("a"));
    deliver(&mut core, start(), &speaker.send(start(), MS, 5));
    let mut core = restarted(&mut core, start());
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    let (mut other, mut samples) = (Speaker::new("b"), Histogram::default());
    samples.record(MS);
    for minute in 1..=7 {
        let now = start().after(Duration::from_secs(60) * minute);
        deliver(&mut core, now, &other.send_samples(now, &["load"], &samples));
        core.on_deadline(now);
    }
    assert!(core.is_ready());
    assert_eq!(core.next_unmatched(), []);
}

#[test]
fn a_fourth_limit_of_an_operation_is_counted_as_exactly_as_the_first() {
    let of = |n| {
        let numbers = format!("quantile = 0.9\nlimit = '{n}0ms'\nobjective = 0.9");
        format!("[[budget]]\nname = 'b{n}'\noperation = 'load'\n{numbers}\n")
    };
    let mut core = core();
    let text: String = (1..=4).map(of).collect();
    core.reload(start(), Rules::from(effective(&[&text]).unwrap()));
    let mut samples = Histogram::default();
    samples.watch(&[1, 2, 3, 4].map(|n| n * 10 * MS));
    for n in 1..=4 {
        samples.record_n(n * 10 * MS, 100);
        samples.record_n(n * 10 * MS + 1, 100);
    }
    samples.record(3_000 * MS);
    let message = Speaker::new("a").send_samples(start(), &["load"], &samples);
    deliver(&mut core, start(), &message);
    let view = core.view(start().wall, "t");
    let rows = view.summary.budgets.iter().filter(|row| row.budget.starts_with('b'));
    let seen: Vec<_> =
        rows.map(|row| (row.over, row.uncertain, row.since_limit.is_some())).collect();
    let expected = [701, 501, 301, 101].map(|over| [(over, 0, true); 2]).concat();
    assert_eq!(seen, expected);
}
