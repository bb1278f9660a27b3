//! Retention: which windows of an operation are kept, and for which limits samples are counted.
//! The fleet keeps all windows; a node keeps those up to a configured one and those that a budget
//! judges. What a budget with a selector selects is kept apart, beside its operation.
//!
//! DESIGN A3.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::budget::{Budget, Selector, Window};
use plimsoll_schemas::ids::{Labels, Operation, RuleName};
use plimsoll_schemas::rule::Rules;

use super::window::{Limits, Retention};

/// The longest window of every node unless a configuration sets another.
pub(super) const NODES_UP_TO: Window = Window::FiveMinutes;

#[derive(Clone, Debug)]
pub(super) struct RetentionPlan {
    nodes_up_to: Window,
    /// Of operations with budgets; up to the longest window of these.
    judged: BTreeMap<Operation, Retention>,
    selections: BTreeMap<Operation, Vec<Selection>>,
    pub(super) watched_counters: BTreeSet<Operation>,
}

/// Samples that are kept apart for one budget.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) budget: RuleName,
    /// Which samples of its operation.
    pub(super) selector: Selector,
    pub(super) retention: Retention,
}

/// What each budget with a selector selects: its operation, labels of the series and of the node.
pub(super) type Selected = BTreeMap<RuleName, (Operation, Labels, Labels)>;

impl RetentionPlan {
    pub(super) fn new(rules: &Rules, nodes_up_to: Window) -> Self {
        let budgets = &rules.budgets;
        let (all, some): (Vec<_>, Vec<_>) =
            budgets.iter().partition(|budget| budget.selector.is_everything());

        let of = |operation: &Operation| {
            let budgets = || all.iter().copied().filter(|budget| budget.operation == *operation);
            let up_to = budgets().map(|budget| budget.window).max().unwrap_or(nodes_up_to);
            Retention { up_to, limits: Limits::of(budgets()) }
        };

        let operations = all.iter().map(|budget| &budget.operation);
        let judged = operations.map(|operation| (operation.clone(), of(operation))).collect();

        let mut selections: BTreeMap<Operation, Vec<Selection>> = BTreeMap::new();
        for budget in some {
            selections.entry(budget.operation.clone()).or_default().push(Selection {
                budget: budget.name.clone(),
                selector: budget.selector.clone(),
                retention: Retention { up_to: budget.window, limits: Limits::of([budget]) },
            });
        }

        let counters = rules.thresholds.iter().flat_map(|threshold| threshold.metric.counters());
        let watched_counters = counters.cloned().collect();
        Self { nodes_up_to, judged, selections, watched_counters }
    }

    /// The same for other rules.
    pub(super) fn under(&self, rules: &Rules) -> Self {
        Self::new(rules, self.nodes_up_to)
    }

    pub(super) fn of_node(&self, operation: &Operation) -> Retention {
        let judged = self.judged.get(operation);
        let up_to = judged.map_or(self.nodes_up_to, |judged| judged.up_to.max(self.nodes_up_to));
        Retention { up_to, limits: judged.map(|judged| judged.limits).unwrap_or_default() }
    }

    /// The retention in nodes of what a budget judges.
    pub(super) fn of_budget(&self, budget: &Budget) -> Retention {
        self.of_selection(&budget.name).unwrap_or_else(|| self.of_node(&budget.operation))
    }

    pub(super) fn is_judged(&self, operation: &Operation) -> bool {
        self.judged.contains_key(operation) || !self.selections(operation).is_empty()
    }

    pub(super) fn selections(&self, operation: &Operation) -> &[Selection] {
        self.selections.get(operation).map_or(&[], Vec::as_slice)
    }

    pub(super) fn of_selection(&self, budget: &RuleName) -> Option<Retention> {
        let mut all = self.selections.values().flatten();
        all.find(|selection| selection.budget == *budget).map(|selection| selection.retention)
    }

    pub(super) fn selected(&self) -> Selected {
        let of = |operation: &Operation, Selection { budget, selector, .. }: &Selection| {
            let Selector { series, nodes } = selector.clone();
            (budget.clone(), (operation.clone(), series, nodes))
        };
        let all = self.selections.iter();
        all.flat_map(|(name, all)| all.iter().map(move |one| of(name, one))).collect()
    }
}
