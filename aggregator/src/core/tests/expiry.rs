//! Whatever is sent again, however late and whatever the clock did, is merged once.

use std::sync::Arc;

use crate::limits::{LEDGER_EVICT_AFTER, NODE_SILENT_AFTER, NODES_MAX};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::{Now, Wall};
use plimsoll_schemas::wire::{Body, Bus};

use super::*;

fn view(core: &Core, now: Now) -> View {
    core.view(now.wall, "test")
}

/// Samples of the fleet in all.
fn total(core: &Core, now: Now) -> u64 {
    view(core, now).summary.operations[0].total.count
}

fn hours(n: u32) -> Now {
    start().after(SECOND * 3_600 * n)
}

#[test]
fn what_a_spool_sends_again_hours_after_its_node_left_in_order_counts_once() {
    let mut core = core();
    let mut speaker = Speaker::new("a");
    let messages = speaker.send(start(), MS, 5);
    deliver(&mut core, start(), &messages);
    deliver(&mut core, start(), &speaker.final_message(start()));
    let mut now = start();
    for _ in 0..3_700 {
        now = now.after(SECOND);
        core.on_deadline(now);
    }
    deliver(&mut core, now, &messages);
    assert_eq!((total(&core, now), core.fleet.counts.duplicates), (5, 1));
}

#[test]
fn a_node_that_was_cut_off_for_days_counts_once_and_is_shown_again() {
    let mut core = core();
    let mut speaker = Speaker::new("a");
    let messages = speaker.send(start(), MS, 5);
    deliver(&mut core, start(), &messages);
    let now = hours(6 * 24);
    core.on_deadline(now);
    assert!(view(&core, now).summary.nodes.is_empty());
    // It resends what no confirmation covered; that alone does not make it present.
    deliver(&mut core, now, &messages);
    assert!(view(&core, now).summary.nodes.is_empty());
    deliver(&mut core, now, &speaker.send(now, MS, 1));
    let row = view(&core, now).summary.nodes.remove(0);
    assert_eq!((row.presence, row.ledger.merged), (Presence::Up, 6));
    assert_eq!(total(&core, now), 6);
}

#[test]
fn a_hidden_node_is_not_shown_counted_or_judged_and_lets_go_of_all_but_its_account() {
    let mut core = core();
    let (mut speaker, mut other) = (Speaker::new("a"), Speaker::new("b"));
    let mut now = start();
    // A breach that fires, and a gap that does.
    speaker.send(now, MS, 7);
    for second in 0..60 {
        now = now.after(SECOND);
        if second == 10 {
            speaker.send(now, 30 * MS, 60);
        }
        deliver(&mut core, now, &speaker.send(now, 30 * MS, 60));
        deliver(&mut core, now, &speaker.message(now, Body::Bus(Bus::default()), false));
        core.on_deadline(now);
    }
    let firing = AlertState::Firing;
    assert_eq!(core.gap_alert(&NodeName::new("a").unwrap()), firing);
    now = now.after(25 * 3_600 * SECOND);
    deliver(&mut core, now, &other.send(now, MS, 1));
    core.on_deadline(now);
    let shown = view(&core, now);
    let names: Vec<&str> = shown.summary.nodes.iter().map(|row| row.node.as_str()).collect();
    assert_eq!((names, shown.nodes.len()), (vec!["b"], 1));
    assert!(shown.summary.operations.iter().all(|row| row.scope.to_string() != "node a"));
    assert!(shown.summary.budgets.iter().all(|row| row.scope.to_string() != "node a"));
    assert!(!format!("{:?}", core.alerting.alerts).contains("\"a\""), "{:?}", core.alerting.alerts);
    assert!(!crate::exposition::fleet(&shown, &[]).contains("node=\"a\""));
    let hidden = &core.fleet.nodes()[&NodeName::new("a").unwrap()];
    assert_eq!((hidden.operations.iter().count(), hidden.account.ledger().merged), (0, 3_600));
}

#[test]
fn a_ledger_entry_outlives_an_aggregator_restart_and_is_evicted_after_seven_days() {
    let mut core = core();
    let mut speaker = Speaker::new("a");
    let messages = speaker.send(start(), MS, 5);
    deliver(&mut core, start(), &messages);
    core.on_deadline(hours(25));
    let mut stored = StoredRecords::default();
    stored.write(core.take_changes(hours(25).wall).unwrap());
    let checkpoint = stored.read().unwrap();
    let (mesh, budgets) = (core.mesh.clone(), core.rules().budgets.clone());
    let mut core = Core::restore(mesh, budgets, hours(26), checkpoint);
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    core.on_deadline(hours(27));
    deliver(&mut core, hours(27), &messages);
    assert_eq!((total(&core, hours(27)), core.fleet.nodes().len()), (5, 1));
    assert!(view(&core, hours(27)).summary.nodes.is_empty());
    let end = start().after(LEDGER_EVICT_AFTER);
    core.on_deadline(Now { wall: end.wall.minus(SECOND), ..end });
    assert_eq!(core.fleet.nodes().len(), 1);
    core.on_deadline(end.after(SECOND));
    stored.write(core.take_changes(end.wall).unwrap());
    assert_eq!((core.fleet.nodes().len(), stored.read().unwrap().nodes()), (0, 0));
    let fleet = view(&core, end).summary.ledger;
    assert_eq!((fleet.recorded, fleet.merged), (5, 5), "the fleet's counters never fall");
    let page = core.statement(end.wall);
    assert_eq!((page.nodes.len(), &page.fleet, &page.evicted), (0, &fleet, &fleet));
}

#[test]
fn where_there_is_no_room_the_account_that_was_silent_longest_goes_and_is_counted() {
    let mut core = core();
    let name = |n: usize| &*Box::leak(format!("n{n:05}").into_boxed_str());
    for n in 0..NODES_MAX {
        // Two of them are older than all others, and the second is the oldest.
        let at = start().after(SECOND * [30, 0, 60][n.min(2)]);
        deliver(&mut core, at, &Speaker::new(name(n)).recorded(1).final_message(at));
    }
    core.on_deadline(start().after(SECOND * 61));
    deliver(&mut core, start(), &Speaker::new("new0").final_message(start()));
    assert_eq!(
        (core.fleet.counts.limited.get("account"), core.fleet.counts.limited["node"]),
        (None, 1)
    );
    let now = hours(1).after(SECOND * 31);
    // It finds no room, but others are silent while it is seen.
    deliver(&mut core, now, &Speaker::new("new0").final_message(now));
    core.on_deadline(now);
    let mut left = Vec::new();
    for new in ["new1", "new2", "new3"] {
        deliver(&mut core, now, &Speaker::new(new).send(now, MS, 1));
        left.push(
            [0, 1, 2].map(|n| core.fleet.nodes().contains_key(&NodeName::new(name(n)).unwrap())),
        );
    }
    // In a crowded table none of them stays for an hour.
    assert_eq!(left, [[true, false, true], [false, false, true], [false; 3]]);
    assert_eq!((core.fleet.counts.limited["account"], core.fleet.counts.limited["node"]), (3, 2));
    assert_eq!(core.fleet.nodes().len(), NODES_MAX);
}

#[test]
fn a_jump_of_the_aggregators_clock_silences_no_node_and_doubles_no_count() {
    let mut core = core();
    let mut speaker = Speaker::new("a");
    let messages = speaker.send(start(), MS, 5);
    deliver(&mut core, start(), &messages);
    let leapt = |days: u32, seconds: u32| {
        let then = start().after(SECOND * seconds);
        Now { wall: then.wall.plus(SECOND * 86_400 * days), ..then }
    };
    for now in [leapt(2, 1), leapt(30, 2)] {
        core.on_deadline(now);
        assert_eq!(view(&core, now).summary.nodes[0].presence, Presence::Up);
    }
    let now = leapt(30, 3);
    deliver(&mut core, now, &messages);
    assert_eq!((total(&core, now), core.fleet.counts.duplicates), (5, 1));
    // It is silent by what passes afterwards, as ever.
    let now = leapt(30, 2).after(NODE_SILENT_AFTER);
    core.on_deadline(now);
    assert_eq!(view(&core, now).summary.nodes[0].presence, Presence::Silent);
}

#[test]
fn a_clock_set_after_a_start_in_1970_leaves_no_node_seen_in_the_future() {
    let mut core = core();
    deliver(&mut core, start(), &Speaker::new("a").send(start(), MS, 5));
    let mono = core.ingest.ticked_at.mono;
    core.ingest.on_tick(Now { wall: Wall(1_000_000_000), mono });
    let now = start().after(SECOND);
    core.on_deadline(now);
    assert_eq!(core.read_view(now.wall, "t").shown().next().unwrap().1.last_seen, now.wall);
}

#[test]
fn a_clock_that_is_set_back_keeps_no_silent_node_alive() {
    let mut core = core();
    let mut ahead = start().after(SECOND * 7_200);
    deliver(&mut core, ahead, &Speaker::new("a").send(ahead, MS, 5));
    for second in 1..=30 {
        ahead.mono = ahead.mono.plus(SECOND);
        // Two hours ahead until now.
        let now = Now { wall: start().wall.plus(SECOND * second), ..ahead };
        core.on_deadline(now);
        let expected = if second <= 10 { Presence::Up } else { Presence::Silent };
        assert_eq!(view(&core, now).summary.nodes[0].presence, expected, "after {second} s");
    }
}

#[test]
fn what_was_taken_before_a_clock_was_set_back_does_not_come_up_again_when_it_gets_there() {
    let mut core = core();
    let ahead = start().after(SECOND * 7_200);
    deliver(&mut core, ahead, &Speaker::new("a").send(ahead, MS, 5));
    core.on_deadline(ahead.after(SECOND));
    let mut now = Now { wall: start().wall, ..ahead.after(SECOND * 2) };
    core.on_deadline(now);
    deliver(&mut core, now, &Speaker::new("b").send(now, MS, 2));
    now = now.after(SECOND * 7_200);
    core.on_deadline(now);
    let row = view(&core, now).summary.operations.remove(0);
    let in_window = |window| row.windows.get(&window).map_or(0, |row| row.quantiles.count);
    let windows = Window::ALL.map(in_window);
    assert_eq!((windows, row.total.count), ([0, 0, 0, 0, 0, 2, 2, 2, 2, 2], 7));
    for operations in
        [core.fleet.operations(), &Arc::new(core.fleet.nodes()["a"].operations.clone())]
    {
        let (_, windows) = operations.iter().next().unwrap();
        assert_eq!(windows.total().exact(), windows.total_exact());
    }
}

#[test]
fn a_node_known_by_bus_messages_alone_is_gone_within_the_hour() {
    let mut core = core();
    let bus = || Body::Bus(Bus::default());
    deliver(&mut core, start(), &Speaker::new("ghost").message(start(), bus(), false));
    deliver(&mut core, start(), &Speaker::new("real").send(start(), MS, 5));
    core.on_deadline(start().after(SECOND * 3_599));
    assert_eq!(core.fleet.nodes().len(), 2);
    core.on_deadline(hours(1));
    let names: Vec<&str> = core.fleet.nodes().keys().map(NodeName::as_str).collect();
    assert_eq!((names, view(&core, hours(1)).summary.nodes.len()), (vec!["real"], 1));
}

#[test]
fn a_table_full_of_names_that_came_once_has_room_for_a_new_node_after_minutes() {
    let mut core = core();
    let mut old = Speaker::new("old");
    deliver(&mut core, start(), &old.send(start(), MS, 5));
    let burst = hours(1);
    deliver(&mut core, burst, &old.send(burst, MS, 5));
    for n in 0..NODES_MAX {
        let name: &'static str = Box::leak(format!("n{n}").into_boxed_str());
        let claims =
            Speaker::new(name).recorded(7).message(burst, Body::Bus(Bus::default()), false);
        deliver(&mut core, burst, &claims);
    }
    assert_eq!(core.fleet.counts.limited["node"], 1);
    let later = burst.after(SECOND * 600);
    core.on_deadline(later);
    let shown = |core: &Core| core.fleet.shown().count();
    assert_eq!(shown(&core), NODES_MAX, "in an outage no node is gone");
    // The message of a node that finds no room ends that.
    let mut new = Speaker::new("new");
    deliver(&mut core, later, &new.send(later, MS, 5));
    core.on_deadline(later.after(SECOND));
    deliver(&mut core, later, &new.send(later, MS, 5));
    let shown: Vec<&str> = core.fleet.shown().map(|(name, _)| name.as_str()).collect();
    assert_eq!(shown, ["new", "old"], "what was known for an hour is not idle after minutes");
    assert_eq!(core.fleet.nodes().len(), NODES_MAX);
}
