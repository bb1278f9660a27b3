//! The system's own operations are apart from the samples of jobs: in what is alerted, in totals,
//! and in which nodes are shown.

use plimsoll_schemas::alert::AlertState::{Firing, Inactive};
use plimsoll_schemas::own_operations::{is_own, is_own_name};
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::summary::SampleTotals;

use super::*;
use crate::core::alerting::AlertsQuery;
use crate::core::fleet::Trouble;
use crate::core::tests::thresholds::world::World;

#[test]
fn losses_of_its_own_alone_alert_nobody_and_one_of_a_job_does() {
    let rule = RuleName::new("samples_lost").unwrap();
    let mut world = World::new(shipped());
    world.lives(20);
    world.node.record(3);
    world.node.lose_own(3);
    world.lives(5);
    let view = |world: &World| world.core.view(world.now.wall, "t");
    let row = &view(&world).summary.nodes[0];
    assert_eq!((row.ledger.lost["own"], row.ledger.is_settled()), (3, true));
    assert_eq!(world.state(&rule), Inactive);
    assert_eq!(view(&world).troubles.values().sum::<u64>(), 0);
    world.node.record(1);
    world.node.lose(1);
    world.live();
    assert_eq!(world.state(&rule), Firing);
    assert_eq!(view(&world).troubles[&Trouble::SamplesLost], 1);
}

#[test]
fn only_a_node_with_samples_of_jobs_is_delayed() {
    let rule = shipped().thresholds.into_iter().find(|of| of.name.as_str() == "samples_late");
    let (mut core, mut speaker) = (core(), Speaker::new("a"));
    let scope = Scope::Node(NodeName::new("a").unwrap());
    let mut one = Histogram::default();
    one.record(MS);
    for (operation, delayed) in [("publish", None), ("epoch_hook", Some(90.0))] {
        let samples = speaker.send_samples(start(), &[operation], &one);
        let bus = Body::Bus(Bus { outbox_age_ns: 90_000 * MS, ..Bus::default() });
        for message in [samples, speaker.message(start(), bus, false)] {
            deliver(&mut core, start(), &message);
        }
        core.on_deadline(start().after(SECOND));
        let value = value_of(&core, rule.as_ref().unwrap(), &scope);
        assert_eq!(value.map(|of| of.value), delayed, "{operation}");
    }
}

#[test]
fn totals_count_samples_of_jobs_and_the_systems_own_apart() {
    let (mut core, mut speaker) = (core(), Speaker::new("a"));
    deliver(&mut core, start(), &speaker.send_all(start(), [MS, MS]));
    let view = core.view(start().wall, "t");
    assert_eq!(view.summary.samples, Some(SampleTotals { jobs: 4, own: 2 }));
    let own = view.summary.operations.iter().filter(|row| row.own);
    let own: Vec<_> = own.map(|row| (row.scope.node(), row.operation.as_str())).collect();
    assert_eq!(own, [("", "publish"), ("a", "publish")]);
    let page = crate::exposition::fleet(&view, &[]);
    for line in ["plimsoll_samples_jobs_total 4", "plimsoll_samples_own_total 2"] {
        assert!(page.lines().any(|of| of == line), "{line}");
    }
}

#[test]
fn jobs_come_before_the_system_in_lists_of_alerts_and_budgets() {
    let mut rules = shipped();
    // The system's budgets are first in the file, and the more severe.
    rules.budgets.rotate_left(2);
    for budget in rules.budgets.iter_mut().filter(|of| !is_own(&of.operation)) {
        budget.about.severity = Severity::Info;
    }
    let mut world = World::new(rules);
    world.takes_ms = Some(400);
    world.lives(20);

    let page = world.core.alerts_page(world.now.wall, &AlertsQuery::default());
    let firing = page.alerts.iter().filter(|row| row.state == Firing);
    let own: Vec<bool> = firing.map(|row| is_own(&row.key.operation)).collect();
    assert!(own.is_sorted() && own.contains(&true) && own.contains(&false), "{own:?}");

    let view = world.core.view(world.now.wall, "t");
    let budgets = view.summary.budgets.iter();
    let own: Vec<bool> = budgets.map(|row| is_own_name(&row.operation)).collect();
    assert!(own.is_sorted() && own.contains(&true) && own.contains(&false), "{own:?}");
}

#[test]
fn a_node_that_is_slow_to_publish_is_not_shown_before_others() {
    let mut core = core();
    let mut speakers = ["a", "b"].map(Speaker::new);
    let mut slow = Histogram::default();
    slow.record_n(400 * MS, 200);
    for second in 0..13 {
        let now = start().after(second * SECOND);
        deliver(&mut core, now, &speakers[0].send(now, MS, 200));
        deliver(&mut core, now, &speakers[1].send_samples(now, &["publish"], &slow));
        core.on_deadline(now);
    }
    let now = start().after(12 * SECOND);
    let firing = |key: &AlertKey| key.rule.as_str() == "publish" && key.scope.node() == "b";
    assert!(core.alerting.alerts.active().any(|(key, _)| firing(key)), "it does fire");
    let query = ViewQuery { fleet: true, nodes: Nodes::Worst(1), native: false };
    let view = core.read_view(now.wall, "t");
    let page = view.headroom_page();
    assert_eq!(view.view(query).summary.nodes[0].node, "a");
    let rows: Vec<_> = page.nodes.iter().map(|of| (of.alert, of.least.is_some())).collect();
    assert_eq!(rows, [(Inactive, true), (Inactive, false)], "a slow broker is not b's fault");
}
