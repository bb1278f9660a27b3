//! The system's own operations are apart from the samples of jobs: in what is alerted, in totals,
//! and in which nodes are shown.

use plimsoll_schemas::alert::AlertState::{Firing, Inactive};
use plimsoll_schemas::summary::SampleTotals;

use super::*;
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
fn only_a_node_with_samples_of_jobs_is_late() {
    let rule = shipped().thresholds.into_iter().find(|of| of.name.as_str() == "samples_late");
    let (mut core, mut speaker) = (core(), Speaker::new("a"));
    let scope = Scope::Node(NodeName::new("a").unwrap());
    let mut one = Histogram::default();
    one.record(MS);
    for (operation, late) in [("publish", None), ("epoch_hook", Some(90.0))] {
        let samples = speaker.send_samples(start(), &[operation], &one);
        let bus = Body::Bus(Bus { outbox_age_ns: 90_000 * MS, ..Bus::default() });
        for message in [samples, speaker.message(start(), bus, false)] {
            deliver(&mut core, start(), &message);
        }
        core.on_deadline(start().after(SECOND));
        let value = value_of(&core, rule.as_ref().unwrap(), &scope);
        assert_eq!(value.map(|of| of.value), late, "{operation}");
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
    assert!(core.alerting.alerts().active().any(|(key, _)| firing(key)), "it does fire");
    let query = ViewQuery { fleet: true, nodes: Nodes::Worst(1), native: false };
    let view = core.read_view(now.wall, "t").view(query);
    assert_eq!(view.summary.nodes[0].node, "a");
}
