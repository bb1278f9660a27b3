//! How the windows of every operation are kept: which of them, and for which limits. The fleet
//! has all; a node has those up to a configured one, and those that a budget judges. What a
//! budget with a selector is about is kept apart, beside its operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_schemas::budget::{Budget, Selector, Window};
use plimsoll_schemas::ids::{Labels, Operation, RuleName};
use plimsoll_schemas::rule::Rules;

use crate::core::Core;
use crate::core::fleet::node::Operations;
use crate::core::fleet::window::{Keeping, Limits};

/// The longest window of every node unless a configuration says otherwise.
pub(crate) const NODES_UP_TO: Window = Window::FiveMinutes;

/// How every operation is kept.
#[derive(Clone, Debug)]
pub(crate) struct Keepings {
    nodes_up_to: Window,
    /// Of operations with budgets; up to the longest window of these.
    judged: BTreeMap<Operation, Keeping>,
    selections: BTreeMap<Operation, Vec<Selection>>,
}

/// Samples that are kept apart for one budget.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// The budget.
    pub(crate) budget: RuleName,
    /// Which samples of its operation.
    pub(crate) selector: Selector,
    /// How a node keeps them.
    pub(crate) keeping: Keeping,
}

/// What each budget with a selector selects: its operation, labels of the series and of the node.
pub(crate) type Selected = BTreeMap<RuleName, (Operation, Labels, Labels)>;

impl Keepings {
    pub(crate) fn new(budgets: &[Budget], nodes_up_to: Window) -> Self {
        let (all, some): (Vec<_>, Vec<_>) =
            budgets.iter().partition(|budget| budget.selector.is_everything());
        let of = |operation: &Operation| {
            let budgets = || all.iter().copied().filter(|budget| budget.operation == *operation);
            let up_to = budgets().map(|budget| budget.window).max().unwrap_or(nodes_up_to);
            Keeping { up_to, limits: Limits::of(budgets()) }
        };
        let operations = all.iter().map(|budget| &budget.operation);
        let judged = operations.map(|operation| (operation.clone(), of(operation))).collect();
        let mut selections: BTreeMap<Operation, Vec<Selection>> = BTreeMap::new();
        for budget in some {
            selections.entry(budget.operation.clone()).or_default().push(Selection {
                budget: budget.name.clone(),
                selector: budget.selector.clone(),
                keeping: Keeping { up_to: budget.window, limits: Limits::of([budget]) },
            });
        }
        Self { nodes_up_to, judged, selections }
    }

    pub(crate) fn of_node(&self, operation: &Operation) -> Keeping {
        let judged = self.judged.get(operation);
        let up_to = judged.map_or(self.nodes_up_to, |judged| judged.up_to.max(self.nodes_up_to));
        Keeping { up_to, limits: judged.map(|judged| judged.limits).unwrap_or_default() }
    }

    /// How nodes keep what a budget judges.
    pub(crate) fn of_budget(&self, budget: &Budget) -> Keeping {
        self.of_selection(&budget.name).unwrap_or_else(|| self.of_node(&budget.operation))
    }

    /// What is kept apart of an operation.
    pub(crate) fn selections(&self, operation: &Operation) -> &[Selection] {
        self.selections.get(operation).map_or(&[], Vec::as_slice)
    }

    fn of_selection(&self, budget: &RuleName) -> Option<Keeping> {
        let mut all = self.selections.values().flatten();
        all.find(|selection| selection.budget == *budget).map(|selection| selection.keeping)
    }

    pub(crate) fn selected(&self) -> Selected {
        let of = |operation: &Operation, Selection { budget, selector, .. }: &Selection| {
            let Selector { series, nodes } = selector.clone();
            (budget.clone(), (operation.clone(), series, nodes))
        };
        let all = self.selections.iter();
        all.flat_map(|(name, all)| all.iter().map(move |one| of(name, one))).collect()
    }
}

impl Core {
    /// Judges by other rules from now on; what is kept for budgets that stay is kept.
    pub(crate) fn judge_by(&mut self, rules: Arc<Rules>) {
        let before = self.keepings.selected();
        self.keepings = Keepings::new(&rules.budgets, self.keepings.nodes_up_to);
        self.rules = rules;
        self.forget_other_selections(&before);
        self.keep_windows();
    }

    /// Lets go of what was kept apart for a budget of this name that selected other samples.
    pub(crate) fn forget_other_selections(&mut self, before: &Selected) {
        let selected = self.keepings.selected();
        let same = |name: &RuleName| before.get(name) == selected.get(name);
        let forget = |operations: &mut Operations| operations.retain_selected(same);
        let others = |operations: &Operations| operations.selected().any(|(name, _)| !same(name));
        if others(&self.fleet) {
            forget(Arc::make_mut(&mut self.fleet));
        }
        for (name, node) in self.nodes.iter_mut().filter(|(_, node)| others(&node.operations)) {
            forget(&mut Arc::make_mut(node).operations);
            self.unsaved.touch_node(name);
        }
    }

    /// Keeps all windows as the configuration has them, whatever kept them before.
    pub(crate) fn keep_windows(&mut self) {
        let operation = |name: &Operation| self.keepings.of_node(name);
        let budget = |name: &RuleName| self.keepings.of_selection(name);
        for (name, node) in &mut self.nodes {
            if !node.operations.are_kept(operation, budget) {
                Arc::make_mut(node).operations.keep(operation, budget);
                self.unsaved.touch_node(name);
            }
        }
        let of_fleet = |name: &Operation| operation(name).of_fleet();
        let of_budget = |name: &RuleName| Some(budget(name)?.of_fleet());
        Arc::make_mut(&mut self.fleet).keep(of_fleet, of_budget);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::alert::Scope;
    use plimsoll_schemas::rule::Scopes;
    use plimsoll_schemas::summary::{BudgetRow, Verdict};

    use super::*;
    use crate::core::durable::StoredRecords;
    use crate::core::durable::tests::restarted;
    use crate::core::tests::{MS, SECOND, Speaker, core, deliver, selecting, start};

    /// Two nodes in racks of their own, of which the second is over every limit.
    fn racks() -> Core {
        let mut core = selecting(core(), ("of_r1", "epoch_hook"), &[], &[("rack", "r1")]);
        for (node, rack, ms) in [("a", "r1", 3), ("b", "r2", 40)] {
            let labels = Labels::new([("rack", rack)]).unwrap();
            let message = Speaker::new(node).called(labels).say(start(), ms * MS, 200);
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
        let other = select(core, "r2").rules.budgets.clone();
        let core = Core::restore(racks().mesh, other, start(), stored.read().unwrap());
        assert_eq!(rows(&core, "of_r1")[0].samples, 0);
    }

    #[test]
    fn a_budget_is_judged_where_it_watches_alone() {
        let mut core = racks();
        let watch = |core: &mut Core, scopes| {
            let mut rules = Rules::clone(&core.rules);
            rules.budgets.iter_mut().for_each(|budget| budget.scopes = scopes);
            core.judge_by(Arc::new(rules));
            core.on_deadline(start().after(SECOND));
            let is_fleet = rows(core, "epoch_hook").into_iter().map(|r| r.scope == Scope::Fleet);
            let alerts =
                core.alerts.standing().filter(|(key, _)| key.rule.as_str() == "epoch_hook");
            let alerts = alerts.map(|(key, _)| key.scope == Scope::Fleet);
            (is_fleet.collect::<Vec<_>>(), alerts.collect::<Vec<_>>())
        };
        let fleet = watch(&mut core, Scopes { fleet: true, nodes: false });
        assert_eq!(fleet, (vec![true], vec![true]));
        let nodes = watch(&mut racks(), Scopes { fleet: false, nodes: true });
        assert_eq!(nodes, (vec![false, false], vec![false]));
    }

    /// What Prometheus is told of a budget must not fall while its limit stays.
    #[test]
    fn counts_go_on_while_a_limit_stays_and_begin_anew_with_another() {
        let mut core = racks();
        let mut speaker = Speaker::new("c");
        let mut limit = |core: &mut Core, ms: u64| {
            let mut rules = Rules::clone(&core.rules);
            rules.budgets[0].limit_ns = ms * MS;
            core.judge_by(Arc::new(rules));
            deliver(core, start(), &speaker.say(start(), 30 * MS, 10));
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
        deliver(&mut core, start(), &speaker.say(start(), MS, 5));
        let now = start().after(SECOND * 7_200);
        // Whatever it says lets its windows move on.
        deliver(&mut core, now, &speaker.say(now, MS, 7));
        let core = restarted(&mut core, now).measuring(Window::OneDay, &[]);
        let node = core.nodes.values().next().unwrap();
        let (_, windows) = node.operations.iter().next().unwrap();
        assert_eq!(windows.exact(now.wall, Window::OneDay).count, 12);
    }
}
