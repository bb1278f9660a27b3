//! The context of a notification: which nodes are worst and what their machines reported, and the
//! samples before and during. One pass over the sums of all nodes, only when an alert fires.
//!
//! DESIGN A27.

mod bars;

use std::cmp::Reverse;

use crate::limits::WORST_NODES_MAX;
use plimsoll_schemas::alert::{AlertContext, BusContext, Scope, WorstNode};
use plimsoll_schemas::budget::{Budget, Window};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::{Wall, seconds};
use plimsoll_schemas::wire::Bus;

use crate::core::fleet::{Completeness, Fleet, Node, ReportingNode, Sums};

/// The context of a budget: its worst nodes, and the samples before and during.
pub(super) fn of_samples(
    at: Wall,
    fleet: &Fleet,
    budget: &Budget,
    window: Window,
    scope: &Scope,
) -> AlertContext {
    // Nodes keep shorter windows than the fleet. All are ranked over the longest that they have.
    let kept = fleet.longest_node_window(budget).min(window);
    let mut completeness = Completeness::default();
    let mut found: Vec<(&NodeName, &Node, Sums)> = Vec::new();

    for (name, node) in fleet.shown_in(scope) {
        let Some(windows) = node.operations.judged(budget) else { continue };
        completeness.add(at, &ReportingNode::new(at, node), windows);
        found.push((name, node, windows.sums(at, kept, budget.limit_ns)));
    }

    // An alert about one node names that node, however few of its samples are slow.
    if *scope == Scope::Fleet {
        found.retain(|(_, _, sums)| sums.over > 0);
    }
    // Stable: those equally bad stay in order of their names.
    found.sort_by_key(|(_, _, sums)| Reverse(sums.over));
    found.truncate(WORST_NODES_MAX);
    let of_fleet = fleet.windows_of(budget, &Scope::Fleet);
    let all = of_fleet.map_or(0, |windows| windows.sums(at, kept, budget.limit_ns).over);

    let worst = found.into_iter().map(|(name, node, sums)| WorstNode {
        samples: sums.samples,
        over: sums.over,
        share: share(sums.over, all),
        share_of_slow: share(sums.over, all),
        over_ratio: share(sums.over, sums.samples),
        ..worst_node(at, name, node)
    });

    let worst = worst.collect();
    let completeness = Some((completeness.nodes[kept as usize], completeness.expected));
    let context =
        AlertContext { worst, worst_window: Some(kept), completeness, ..AlertContext::default() };
    let Some(windows) = fleet.windows_of(budget, scope) else { return context };
    let (before, over_before) = windows.before(at, window, budget.limit_ns);
    let during = windows.merged(at, window);
    let over = windows.sums(at, window, budget.limit_ns).over;
    let of = [(&before, over_before.over), (&during, over)];
    let [before, during] = bars::bars(budget.unit(), budget.limit_ns, of);
    AlertContext { before, during, ..context }
}

/// The context of a rule that judges no samples.
pub(super) fn of_node(at: Wall, fleet: &Fleet, scope: &Scope) -> AlertContext {
    let node = match scope {
        Scope::Fleet => None,
        Scope::Node(name) => fleet.nodes().get(name).map(|node| worst_node(at, name, node)),
    };
    AlertContext { worst: node.into_iter().collect(), ..AlertContext::default() }
}

fn worst_node(at: Wall, name: &NodeName, node: &Node) -> WorstNode {
    WorstNode {
        node: name.clone(),
        labels: node.labels.value.clone(),
        samples: 0,
        over: 0,
        share: 0.0,
        share_of_slow: 0.0,
        over_ratio: 0.0,
        hardware: node.metrics.peaks(at),
        bus: way(&node.bus.value),
    }
}

/// Its way to the broker, as it last reported.
fn way(bus: &Bus) -> BusContext {
    BusContext {
        outbox_depth: bus.outbox_depth,
        outbox_depth_max: bus.outbox_depth_max,
        pending_bytes: bus.outbox_bytes,
        rerouted: bus.rerouted,
        dropped: bus.dropped,
        round_trip_seconds: bus.round_trip_ns.map(seconds),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn share(of: u64, all: u64) -> f64 {
    of as f64 / all.max(of).max(1) as f64
}
