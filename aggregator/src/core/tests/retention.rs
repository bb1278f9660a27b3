//! Which windows are kept for which budgets, across reloads and restarts.

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::rule::{Rules, Scopes};
use plimsoll_schemas::summary::{BudgetRow, Verdict};

use super::*;
use crate::core::tests::checkpoint::restarted;

/// Two nodes in racks of their own, of which the second is over every limit.
fn racks() -> Core {
    let mut core = selecting(core(), ("of_r1", "epoch_hook"), &[], &[("rack", "r1")]);
    for (node, rack, ms) in [("a", "r1", 3), ("b", "r2", 40)] {
        let labels = Labels::new([("rack", rack)]).unwrap();
        let message = Speaker::new(node).called(labels).send(start(), ms * MS, 200);
        deliver(&mut core, start(), &message);
    }
    core
}

fn rows(core: &Core, budget: &str) -> Vec<BudgetRow> {
    let rows = core.view(start().wall, "t").summary.budgets;
    rows.into_iter().filter(|row| row.budget == budget).collect()
}

#[test]
fn a_budget_judges_what_it_selects_and_no_total_counts_it_twice() {
    let core = racks();
    let of = |budget| {
        let rows = rows(&core, budget).into_iter();
        rows.map(|row| (row.scope.node().to_owned(), row.samples, row.over, row.verdict))
            .collect::<Vec<_>>()
    };
    let row = |node: &str, samples, over, verdict| (node.to_owned(), samples, over, verdict);
    use Verdict::{Breach, Within};
    assert_eq!(of("of_r1"), [row("", 200, 0, Within), row("a", 200, 0, Within)]);
    let all = [row("", 400, 200, Breach), row("a", 200, 0, Within), row("b", 200, 200, Breach)];
    assert_eq!(of("epoch_hook"), all);
    let selected = &rows(&core, "of_r1")[0];
    assert_eq!((selected.completeness, selected.since_limit), ((1, 1), Some((200, 0))));
    let view = core.view(start().wall, "t");
    assert_eq!((view.summary.ledger.merged, view.totals[0].exact.count), (400, 400));
    assert_eq!(view.summary.operations.len(), 3);
}

#[test]
fn what_a_budget_selected_before_is_not_taken_for_what_it_selects_now() {
    let mut core = racks();
    let select = |core, rack| selecting(core, ("of_r1", "epoch_hook"), &[], &[("rack", rack)]);
    core = select(restarted(&mut core, start()), "r1");
    assert_eq!(rows(&core, "of_r1")[0].samples, 200);
    core = select(core, "r2");
    let [row] = &rows(&core, "of_r1")[..] else { panic!("of the fleet alone") };
    assert_eq!((row.samples, row.verdict, row.completeness), (0, Verdict::NoData, (0, 0)));
    // The same where another configuration is there after a restart.
    let (mut core, mut stored) = (racks(), StoredRecords::default());
    stored.write(core.take_changes(start().wall).unwrap());
    let other = select(core, "r2").rules().budgets.clone();
    let core = Core::restore(racks().mesh, other, start(), stored.read().unwrap());
    assert_eq!(rows(&core, "of_r1")[0].samples, 0);
}

#[test]
fn a_budget_is_judged_where_it_watches_alone() {
    let mut core = racks();
    let watch = |core: &mut Core, scopes| {
        let mut rules = Rules::clone(core.rules());
        rules.budgets.iter_mut().for_each(|budget| budget.scopes = scopes);
        judge_by(core, rules);
        core.on_deadline(start().after(SECOND));
        let is_fleet = rows(core, "epoch_hook").into_iter().map(|r| r.scope == Scope::Fleet);
        let alerts =
            core.alerting.alerts.active().filter(|(key, _)| key.rule.as_str() == "epoch_hook");
        let alerts = alerts.map(|(key, _)| key.scope == Scope::Fleet);
        (is_fleet.collect::<Vec<_>>(), alerts.collect::<Vec<_>>())
    };
    let fleet = watch(&mut core, Scopes { fleet: true, nodes: false });
    assert_eq!(fleet, (vec![true], vec![true]));
    let nodes = watch(&mut racks(), Scopes { fleet: false, nodes: true });
    assert_eq!(nodes, (vec![false, false], vec![false]));
}

/// A budget's counters for Prometheus must not fall while its limit stays.
#[test]
fn counts_go_on_while_a_limit_stays_and_begin_anew_with_another() {
    let mut core = racks();
    let mut speaker = Speaker::new("c");
    let mut limit = |core: &mut Core, ms: u64| {
        let mut rules = Rules::clone(core.rules());
        rules.budgets[0].limit_ns = ms * MS;
        judge_by(core, rules);
        deliver(core, start(), &speaker.send(start(), 30 * MS, 10));
        let row = rows(core, "epoch_hook").remove(0);
        (row.over, row.since_limit.unwrap())
    };
    assert_eq!(limit(&mut core, 18), (210, (410, 210)));
    assert_eq!(limit(&mut core, 35), (200, (10, 0)), "of old samples only windows are judged");
    assert_eq!(limit(&mut core, 35), (200, (20, 0)));
    let mut core = restarted(&mut core, start());
    assert_eq!(limit(&mut core, 35), (200, (30, 0)));
    assert_eq!(limit(&mut core, 18), (250, (10, 10)));
}

#[test]
fn the_windows_that_a_configuration_lets_nodes_keep_outlive_a_restart() {
    let (mut core, mut speaker) = (core().measuring(Window::OneDay, &[]), Speaker::new("a"));
    deliver(&mut core, start(), &speaker.send(start(), MS, 5));
    let now = start().after(SECOND * 7_200);
    // Any message of the node advances its windows.
    deliver(&mut core, now, &speaker.send(now, MS, 7));
    let core = restarted(&mut core, now).measuring(Window::OneDay, &[]);
    let node = core.fleet.nodes().values().next().unwrap();
    let (_, windows) = node.operations.iter().next().unwrap();
    assert_eq!(windows.exact(now.wall, Window::OneDay).count, 12);
}
