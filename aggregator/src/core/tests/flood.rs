//! Nodes that send as much as messages can hold, and nodes that all come at once: memory stays
//! bounded, what finds no room is counted, and no other node is harmed.

use std::ops::Range;

use crate::limits::{NODE_BYTES_MAX, OPERATIONS_MAX};
use plimsoll_schemas::histogram::layout;
use plimsoll_schemas::limits::wire::MESSAGE_BYTES_MAX;
use plimsoll_schemas::wire::Hardware;

use super::checkpoint::restarted;
use super::*;

/// This many samples in as many different buckets as a message has room for, of 256 operations.
fn wide(round: usize) -> Latency {
    let histograms = (0..256).map(|operation| {
        let mut histogram = Histogram::default();
        let buckets = (0..layout::LEN).skip((operation + round * 37) % 61).step_by(61);
        buckets.for_each(|bucket| histogram.record(layout::lowest(bucket)));
        (Series::plain(Operation::new(format!("o{operation:03}")).unwrap()), histogram)
    });
    Latency { histograms: histograms.collect(), ..Latency::default() }
}

/// A node's first message, with a sample of each of this many operations.
pub(super) fn names(node: &'static str, numbers: Range<usize>) -> (String, Vec<u8>) {
    let mut one = Histogram::default();
    one.record(MS);
    let names: Vec<String> = numbers.map(|n| format!("name{n:06}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Speaker::new(node).send_samples(start(), &names, &one)
}

/// Samples of all operations of the fleet, and those in buckets of windows and totals.
fn samples(core: &Core) -> (u64, u64) {
    let of = |(_, windows): (_, &Windows)| (windows.total_exact().count, windows.total().count());
    let all = core.fleet.operations().iter().map(of);
    all.fold((0, 0), |(exact, buckets), (n, m)| (exact + n, buckets + m))
}

#[test]
fn after_two_hundred_thousand_names_a_new_operation_has_its_row_within_ten_minutes() {
    let mut core = core();
    let mut node = Speaker::new("a");
    let mut one = Histogram::default();
    one.record(MS);
    for message in 0..100 {
        let now = start().after(Duration::from_millis(70 * message));
        let names: Vec<String> = (0..2_000).map(|n| format!("name{message:02}{n:04}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        deliver(&mut core, now, &node.send_samples(now, &names, &one));
    }
    let operation = Operation::new("eval_step").unwrap();
    let (mut sent, mut placed) = (200_000, None);
    for second in 8..=600 {
        let now = start().after(SECOND * second);
        deliver(&mut core, now, &node.send_samples(now, &["eval_step"], &one));
        sent += 1;
        core.on_deadline(now);
        if second == 60 {
            core = restarted(&mut core, now);
            Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
        }
        let row = core.fleet.operations().get(&operation).is_some();
        placed = placed.or_else(|| row.then_some(second));
    }
    assert!(placed.is_some_and(|second| second > 60), "{placed:?}");
    assert_eq!(samples(&core), (sent, sent));
    let node = core.node(&NodeName::new("a").unwrap()).unwrap();
    assert!(node.operations.get(&operation).is_some(), "in the node's own table too");
    let of_node: u64 = node.operations.iter().map(|(_, of)| of.total_exact().count).sum();
    assert_eq!((of_node, node.account.ledger().merged), (200_593, 200_593));
    // A fifth of both tables is free again.
    let evicted = |what: &str| core.fleet.counts.limited[what];
    assert!(core.fleet.operations().iter().len() <= OPERATIONS_MAX * 4 / 5 + 1);
    assert!(evicted("operation") > 50 && evicted("node_operation") > 50);
}

#[test]
fn a_node_that_repeats_its_names_for_ever_keeps_no_other_from_its_own() {
    let mut core = core();
    let (mut hostile, mut honest) = (Speaker::new("a"), Speaker::new("b"));
    let mut one = Histogram::default();
    one.record(MS);
    let names: Vec<String> = (0..300).map(|n| format!("name{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut sent = 0;
    for second in 0..200_u32 {
        let now = start().after(SECOND * second);
        deliver(&mut core, now, &hostile.send_samples(now, &names, &one));
        let own = format!("own{second:03}");
        deliver(&mut core, now, &honest.send_samples(now, &[&own], &one));
        sent += 301;
        core.on_deadline(now);
        if second < 100 {
            let has_row = core.fleet.operations().get(&Operation::new(own).unwrap()).is_some();
            assert!(has_row, "second {second}");
        }
    }
    // Neither has more than the other, and what was evicted is in the sums.
    let of = |prefix: &str| {
        let all = core.fleet.operations().iter();
        all.filter(|(name, _)| name.as_str().starts_with(prefix)).count()
    };
    assert_eq!((of("own").abs_diff(of("name")) <= 1, samples(&core)), (true, (sent, sent)));
}

#[test]
fn in_an_outage_and_while_the_clock_is_set_no_name_is_idle() {
    let mut core = core();
    let mut node = Speaker::new("a");
    let mut one = Histogram::default();
    one.record(MS);
    let names: Vec<String> = (0..240).map(|n| format!("name{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let run = |n: &str| Labels::new([("run", n)]).unwrap();
    core.group_by(&[Definition::of_label("run")]);
    for n in 0..240 {
        let mut node = Speaker::new("b").of(n).called(run(&n.to_string()));
        deliver(&mut core, start(), &node.send(start(), MS, 1));
    }
    deliver(&mut core, start(), &node.send_samples(start(), &names, &one));
    let tables = |core: &Core| {
        let of_node = core.node(&NodeName::new("a").unwrap()).unwrap().operations.iter().len();
        (core.fleet.operations().iter().len(), of_node, core.rollups().iter().count())
    };
    core.on_deadline(start().after(SECOND));
    let before = tables(&core);
    assert_eq!((before.0 > 240, before.1), (true, 240));
    // No message for an hour, and then a clock that is set a day ahead.
    let after_outage = start().after(SECOND * 3_600);
    core.on_deadline(after_outage);
    assert_eq!(tables(&core), before);
    let set = |seconds: u32| {
        let then = after_outage.after(SECOND * seconds);
        Now { wall: then.wall.plus(SECOND * 86_400), ..then }
    };
    let all: Vec<&str> = names.iter().copied().take(100).collect();
    deliver(&mut core, after_outage, &node.send_samples(after_outage, &names, &one));
    for second in 1..=100 {
        deliver(&mut core, set(second), &node.send_samples(set(second), &all, &one));
        core.on_deadline(set(second));
    }
    assert_eq!((tables(&core).0, tables(&core).1), (before.0, before.1));
}

#[test]
fn operations_of_budgets_are_nobodys_share() {
    let mut core = core();
    let of_budget = |n: usize| Operation::new(format!("judged{n:02}")).unwrap();
    let mut rules = Rules::clone(core.rules());
    let name = |n: usize| RuleName::new(format!("judged{n:02}")).unwrap();
    let budget = |n| Budget { name: name(n), operation: of_budget(n), ..rules.budgets[0].clone() };
    let budgets: Vec<_> = (0..60).map(budget).collect();
    rules.budgets.extend(budgets);
    judge_by(&mut core, rules);
    let mut one = Histogram::default();
    one.record(MS);
    let mut bring = |node: &'static str, names: &[String]| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut node = Speaker::new(node);
        deliver(&mut core, start(), &node.send_samples(start(), &names, &one));
        deliver(&mut core, start(), &node.send_samples(start(), &names, &one));
    };
    bring("judged", &(0..60).map(|n| format!("judged{n:02}")).collect::<Vec<_>>());
    for node in ["a", "b", "c", "d", "e", "f", "g"] {
        bring(node, &(0..30).map(|n| format!("{node}{n}")).collect::<Vec<_>>());
    }
    bring("new", &["own".to_owned()]);
    assert!(core.fleet.operations().get(&Operation::new("own").unwrap()).is_some());
}

#[test]
fn a_node_that_floods_wide_histograms_is_bounded_and_harms_no_other() {
    let mut core = core();
    let (mut hostile, mut honest) = (Speaker::new("hostile"), Speaker::new("honest"));
    let mut sent = 0;
    for round in 0..24_u32 {
        let now = start().after(SECOND * round);
        let latency = wide(round as usize);
        sent += latency.samples();
        hostile = hostile.recorded(sent);
        let message = hostile.message(now, Body::Latency(latency), false);
        assert!(message.1.len() < MESSAGE_BYTES_MAX);
        let bytes = message.1.len();
        deliver(&mut core, now, &message);
        deliver(&mut core, now, &honest.send(now, MS, 10));
        core.on_deadline(now);
        let held = core.node(&NodeName::new("hostile").unwrap()).unwrap().operations.heap_bytes();
        // One message more than the bound: it is checked before a message is added.
        assert!(held < NODE_BYTES_MAX + 2 * bytes, "{held} bytes in round {round}");
    }
    let node = |name: &str| core.node(&NodeName::new(name).unwrap()).unwrap();
    let sum = |node: &Node| node.operations.iter().map(|(_, w)| w.total_exact().count).sum::<u64>();
    let in_buckets: u64 = node("hostile").operations.iter().map(|(_, w)| w.total().count()).sum();
    assert_eq!((sum(node("hostile")), sum(node("honest"))), (sent, 240));
    assert_eq!(core.fleet.counts.limited["node_window"], sent - in_buckets);
    assert!(core.fleet.counts.limited["node_window"] > 0);
    // Of the fleet's 257 operations one is judged; all samples are in its windows.
    let fleet: u64 =
        core.fleet.operations().iter().map(|(_, windows)| windows.total().count()).sum();
    assert_eq!(fleet, sent + 240);
    let (_, windows) = node("honest").operations.iter().next().unwrap();
    assert_eq!(windows.total().count(), 240);
}

#[test]
fn a_full_node_takes_samples_again_once_time_has_emptied_its_windows() {
    let mut core = core();
    let mut node = Speaker::new("a");
    let mut sent = 0;
    let mut send = |core: &mut Core, now: Now, latency: Latency| {
        sent += latency.samples();
        node = std::mem::replace(&mut node, Speaker::new("a")).recorded(sent);
        deliver(core, now, &node.message(now, Body::Latency(latency), false));
    };
    (0..24).for_each(|second| {
        send(&mut core, start().after(SECOND * second), wide(second as usize % 4));
    });
    let refused = core.fleet.counts.limited["node_window"];
    let later = start().after(SECOND * 700);
    // Any message of the node advances its windows.
    send(&mut core, later, Latency::default());
    send(&mut core, later, wide(1));
    assert_eq!(core.fleet.counts.limited["node_window"], refused);
}

#[test]
fn ten_thousand_nodes_that_join_within_one_second_are_all_judged_in_it() {
    let mut core = core();
    let names: Vec<&str> =
        (0..10_000).map(|n| &*Box::leak(format!("n{n}").into_boxed_str())).collect();
    for name in &names {
        let mut speaker = Speaker::new(name);
        let readings = Body::Hardware(Hardware::default());
        deliver(&mut core, start(), &speaker.message(start(), readings, false));
        deliver(&mut core, start(), &speaker.send(start(), 30 * MS, 100));
    }
    core.on_deadline(start().after(SECOND));
    assert_eq!(core.notifications().counts.raised, 10_001);
    let operation = Operation::new("epoch_hook").unwrap();
    assert_eq!(core.fleet.operations().get(&operation).unwrap().total_exact().count, 1_000_000);
    assert_eq!((core.fleet.nodes().len(), core.fleet.counts.limited.get("node")), (10_000, None));
    let active = core.alerting.alerts.alive(&core.rules().budgets[0].name);
    assert_eq!(active.len(), 10_001, "every node and the fleet");
}
