//! Nodes that send as much as messages can hold, and nodes that all come at once: memory stays
//! bounded, what finds no room is counted, and no other node is harmed.

use crate::limits::NODE_BYTES_MAX;
use plimsoll_schemas::histogram::layout;
use plimsoll_schemas::limits::wire::MESSAGE_BYTES_MAX;
use plimsoll_schemas::wire::Hardware;

use super::*;

/// So many samples in as many different buckets as a message has room for, of 256 operations.
fn wide(round: usize) -> Latency {
    let histograms = (0..256).map(|operation| {
        let mut histogram = Histogram::default();
        let buckets = (0..layout::LEN).skip((operation + round * 37) % 61).step_by(61);
        buckets.for_each(|bucket| histogram.record(layout::lowest(bucket)));
        (Series::plain(Operation::new(format!("o{operation:03}")).unwrap()), histogram)
    });
    Latency { histograms: histograms.collect(), ..Latency::default() }
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
    assert_eq!(core.fleet.counts().limited["node_window"], sent - in_buckets);
    assert!(core.fleet.counts().limited["node_window"] > 0);
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
    let refused = core.fleet.counts().limited["node_window"];
    let later = start().after(SECOND * 700);
    // Any message of the node advances its windows.
    send(&mut core, later, Latency::default());
    send(&mut core, later, wide(1));
    assert_eq!(core.fleet.counts().limited["node_window"], refused);
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
    assert_eq!(core.notifications().counts().raised, 10_001);
    let operation = Operation::new("epoch_hook").unwrap();
    assert_eq!(core.fleet.operations().get(&operation).unwrap().total_exact().count, 1_000_000);
    assert_eq!((core.fleet.nodes().len(), core.fleet.counts().limited.get("node")), (10_000, None));
    let active = core.alerting.alerts().alive(&core.rules().budgets[0].name);
    assert_eq!(active.len(), 10_001, "every node and the fleet");
}
