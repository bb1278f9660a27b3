//! Figures of the aggregator itself that the walk over all rules does not check closely.

use plimsoll_schemas::alert::AlertState::{Firing, Resolved};
use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::rule::Threshold;
use plimsoll_schemas::rule::file::shipped;

use super::*;
use crate::core::tests::checkpoint::restarted;
use crate::core::tests::thresholds::world::World;
use crate::limits::HISTORY_SERIES_MAX;

fn value(world: &World, rule: &str) -> Option<Value> {
    let all = shipped().thresholds;
    let rule: &Threshold = all.iter().find(|of| of.name.as_str() == rule).unwrap();
    value_of(&world.core, rule, &Scope::Fleet)
}

fn absent(world: &World) -> f64 {
    value(world, "data_absent").unwrap().value
}

#[test]
fn samples_that_come_seldom_are_awaited_three_times_as_long_as_ever() {
    let mut world = World::new(shipped());
    let every = 400;
    for _ in 0..8 {
        world.takes_ms = Some(1);
        world.live();
        world.takes_ms = None;
        for _ in 1..every {
            world.live();
            assert_eq!(absent(&world), 0.0);
        }
    }
    world.lives(2 * every - 10);
    assert_eq!(absent(&world), 0.0);
    world.lives(20);
    let Value { value, labels } = value(&world, "data_absent").unwrap();
    // `publish`, which stopped too, is the system's own.
    assert_eq!((value, labels.get("operation")), (2.0, Some("epoch_hook")));
    // What has been absent for an hour is given up.
    world.lives(3_600);
    assert_eq!(absent(&world), 0.0);
}

#[test]
fn samples_that_no_node_could_bring_are_not_absent() {
    let mut world = World::new(shipped());
    world.lives(60);
    world.is_mute = true;
    world.lives(400);
    assert_eq!(absent(&world), 0.0, "the node is silent, which another rule reports");
    world.is_mute = false;
    world.takes_ms = None;
    world.lives(2);
    assert_eq!(absent(&world), 2.0);
}

#[test]
fn a_checkpoint_is_old_only_where_something_waits_to_be_stored() {
    let mut world = World::new(shipped());
    let age = |world: &World| value(world, "checkpoint_old").map(|of| of.value);
    world.lives(10);
    assert!(age(&world).unwrap() <= 1.0);
    world.stores = false;
    world.lives(50);
    assert_eq!(age(&world), Some(50.0));
    world.stores = true;
    world.lives(2);
    assert!(age(&world).unwrap() <= 1.0);
}

#[test]
fn a_restart_does_not_resolve_a_checkpoint_that_cannot_be_stored() {
    let rule = RuleName::new("checkpoint_old").unwrap();
    let mut world = World::new(shipped());
    world.lives(10);
    world.stores = false;
    world.lives(140);
    assert_eq!(world.state(&rule), Firing);
    world.core = restarted(&mut world.core, world.now);
    Lane::ALL.into_iter().for_each(|lane| world.core.on_positioned(lane, 0, 0, "s1"));
    world.lives(60);
    assert_eq!(world.state(&rule), Firing, "nothing has been stored since");
    world.lives(100);
    assert!(value(&world, "checkpoint_old").unwrap().value > 120.0);
    world.stores = true;
    world.lives(10);
    assert_eq!(world.state(&rule), Resolved);
}

#[test]
fn what_a_receiver_rejects_is_undeliverable_though_the_bus_took_it() {
    let mut world = World::new(shipped());
    let kind = ReceiverKind::Webhook { resolved: true, acknowledged: false };
    let pager = Receiver { name: "pager".into(), kind, severity_min: Severity::Info };
    let core = std::mem::replace(&mut world.core, World::new(shipped()).core);
    world.core = core.with_receivers(world.now, vec![pager], 1);
    world.lives(20);
    world.takes_ms = Some(40);
    let mut refused = 0.0;
    for _ in 0..30 {
        world.live();
        while let Some(post) = world.core.next_post(world.now) {
            world.core.on_answer(world.now, &post.receiver, Answer::of_status(404, None));
            refused += 1.0;
        }
    }
    world.live();
    assert!(refused > 0.0);
    assert_eq!(value(&world, "notifications_undeliverable").unwrap().value, refused);
}

#[test]
fn a_history_that_fills_with_names_fires_before_it_is_full() {
    let mut world = World::new(shipped());
    let core = std::mem::replace(&mut world.core, core());
    world.core = core.with_history(StoredHistory::default());
    world.lives(2);
    let table = |world: &World| {
        let Value { value, labels } = value(world, "table_filling").unwrap();
        (value > 0.8, labels.get("table") == Some("history"))
    };
    assert!(!table(&world).0);
    world.core.on_history_series(HISTORY_SERIES_MAX * 4 / 5 + 1);
    world.lives(2);
    assert_eq!(table(&world), (true, true));
}
