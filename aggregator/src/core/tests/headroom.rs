//! Headroom of all nodes, one node with all that is known of it, and what waits.

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::summary::{BudgetRow, Presence};
use plimsoll_schemas::wire::{Body, BreakerState, Bus};

use super::*;
use crate::core::view::{ReadView, UnknownNode};

/// `a` is within the limits of two operations, `b` above one; `c` sent once, long ago.
fn fleet() -> Core {
    let mut core = core();
    let mut speakers = ["a", "b"].map(Speaker::new);
    deliver(&mut core, start(), &Speaker::new("c").send(start(), 9 * MS, 100));
    for second in 600..660 {
        let now = start().after(second * SECOND);
        for (speaker, ms) in speakers.iter_mut().zip([9, 36]) {
            deliver(&mut core, now, &speaker.send(now, ms * MS, 100));
        }
        core.on_deadline(now);
    }
    core
}

fn at_end(core: &Core) -> ReadView {
    core.read_view(start().after(659 * SECOND).wall, "jetstream")
}

#[test]
fn headroom_is_that_of_the_budget_nearest_to_its_limit() {
    let view = at_end(&fleet());
    let page = view.headroom_page();
    let rows: Vec<_> = page.nodes.iter().map(|of| (of.node.as_str(), of.presence)).collect();
    let expected = [("a", Presence::Up), ("b", Presence::Up), ("c", Presence::Silent)];
    assert_eq!(rows, expected);
    assert_eq!(page.nodes[2].least, None, "its window is empty");
    let least = |n: usize| page.nodes[n].least.clone().unwrap();
    assert!((0.49..0.51).contains(&least(0).headroom), "{:?}", least(0));
    assert!((-1.01..-0.99).contains(&least(1).headroom), "{:?}", least(1));
    // The same as where the node is shown with everything.
    for (row, name) in page.nodes.iter().zip(["a", "b", "c"]) {
        let node = view.node_page(&NodeName::new(name).unwrap()).unwrap();
        let budgets = node.budgets.iter().filter(|of| of.value_ns.is_some());
        let nearest = budgets.min_by(|a, b| {
            let used =
                |of: &BudgetRow| (u128::from(of.value_ns.unwrap()) << 64) / u128::from(of.limit_ns);
            used(b).cmp(&used(a))
        });
        let shown = nearest.map(|of| (of.budget.clone(), of.value_ns.unwrap(), of.verdict));
        let least = row.least.as_ref();
        assert_eq!(least.map(|of| (of.budget.clone(), of.value_ns, of.verdict)), shown, "{name}");
        assert_eq!(row.presence, node.status.row.presence);
    }
    let alerts: Vec<_> = page.nodes.iter().map(|of| of.alert).collect();
    let severities: Vec<_> = page.nodes.iter().map(|of| of.alert_severity).collect();
    assert_eq!(severities[..2], [None, Some(Severity::Critical)]);
    assert_eq!(alerts[1], AlertState::Firing, "{alerts:?}");
    assert_eq!(alerts[0], AlertState::Inactive, "{alerts:?}");
}

#[test]
fn one_node_has_its_operations_and_ledger_and_an_unknown_one_is_an_error() {
    let view = at_end(&fleet());
    let page = view.node_page(&NodeName::new("a").unwrap()).unwrap();
    assert_eq!(page.entry.ledger.merged, 6_000);
    assert_eq!(page.status.row.ledger, page.entry.ledger);
    let of_jobs: u64 = page.operations.iter().map(|of| of.total.count).sum();
    assert_eq!(of_jobs, 6_000);
    assert!(page.budgets.iter().all(|of| of.scope == page.operations[0].scope));
    let absent = NodeName::new("absent").unwrap();
    assert_eq!(view.node_page(&absent), Err(UnknownNode(absent)));
}

#[test]
fn what_waits_is_added_up_over_nodes_that_report_and_the_fullest_come_first() {
    let mut core = fleet();
    let now = start().after(659 * SECOND);
    let open = Some(BreakerState::Open.as_number());
    let bus = |outbox_pressure, outbox_depth, breaker_state| Bus {
        outbox_pressure,
        outbox_depth,
        breaker_state,
        dropped: 2,
        ..Bus::default()
    };
    for (name, of) in [("d", bus(900_000, 40, open)), ("e", bus(100_000, 7, Some(9)))] {
        deliver(&mut core, now, &Speaker::new(name).message(now, Body::Bus(of), false));
    }
    let page = at_end(&core).backpressure_page();
    assert_eq!((page.outboxes.depth, page.outboxes.dropped), (47, 4));
    assert!((page.outboxes.pressure - 0.9).abs() < 1e-9);
    assert_eq!((page.breakers["open"], page.breakers["closed"]), (1, 0));
    let names: Vec<_> = page.nodes.iter().map(|of| of.node.as_str()).collect();
    assert_eq!(names, ["d", "e", "a", "b", "c"]);
    assert_eq!(page.nodes[0].breaker.as_deref(), Some("open"));
    let ledger = &page.ledger;
    let lost: u64 = ledger.lost.values().sum();
    let sum = ledger.merged + ledger.held + ledger.unread + ledger.unaccounted + lost;
    assert_eq!(ledger.recorded, sum);
    assert_eq!(ledger.merged, 12_100);
}

#[test]
fn a_pulse_counts_alerts_and_has_the_time_of_the_last_change() {
    let core = fleet();
    let now = start().after(659 * SECOND).wall;
    let pulse = core.pulse(now, "jetstream");
    let page = core.alerts_page(now, &AlertsQuery::default());
    let firing = page.alerts.iter().filter(|of| of.state == AlertState::Firing).count();
    assert!(firing > 0);
    assert_eq!(pulse.firing, firing as u64);
    assert_eq!(pulse.firing_severity, Some(Severity::Critical));
    let last = page.alerts.iter().map(|of| of.since_seconds).fold(0.0, f64::max);
    assert_eq!(pulse.changed_at_seconds, Some(last));
}

#[test]
fn a_pulse_has_the_worst_severity_of_what_fires() {
    let mut core = fleet();
    let mut rules = Rules::clone(core.rules());
    rules.budgets.iter_mut().for_each(|budget| budget.about.severity = Severity::Info);
    judge_by(&mut core, rules);
    let now = start().after(659 * SECOND).wall;
    let pulse = core.pulse(now, "jetstream");
    assert!(pulse.firing > 0);
    assert_eq!(pulse.firing_severity, Some(Severity::Info));
    assert_eq!(super::core().pulse(now, "jetstream").firing_severity, None);
}
