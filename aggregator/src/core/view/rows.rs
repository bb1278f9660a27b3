//! Rows of operations and budgets: each window of each operation is merged once, for its figures
//! and for the budgets that judge it.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::{AlertState, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::histogram::{ExactFigures, Over, Quantile, rank};
use plimsoll_schemas::ids::{NodeName, Operation, RuleName};
use plimsoll_schemas::summary::{Approximate, BudgetRow, OperationRow, Quantiles, WindowRow};

use super::Total;
use crate::core::alerting::alert::displayed;
use crate::core::fleet::buckets::{Buckets, ends};
use crate::core::fleet::completeness::{Completeness, Seen};
use crate::core::fleet::node::{Node, Operations};
use crate::core::fleet::window::{Merged, Ranks, Windows};
use crate::core::rules::judge::{Judgement, judge};
use crate::core::view::read_view::Still;

/// Not inactive, by rule, node and operation.
type AlertsBy<'s> = BTreeMap<(&'s str, &'s str, &'s str), AlertState>;
/// How many nodes there are.
type Counted<K> = BTreeMap<K, Completeness>;

/// Rows under construction.
pub(super) struct Rows<'s> {
    still: &'s Still,
    native: bool,
    alerts: AlertsBy<'s>,
    /// Used again for each row, as is the next.
    merged: Merged,
    total: Merged,
    pub(super) operations: Vec<OperationRow>,
    pub(super) totals: Vec<Total>,
    /// With the number of its budget.
    pub(super) budgets: Vec<(usize, BudgetRow)>,
}

impl<'s> Rows<'s> {
    pub(super) fn new(still: &'s Still, native: bool) -> Self {
        let alerts = still.alerts.iter().map(|(key, state)| {
            ((key.rule.as_str(), key.scope.node(), key.operation.as_str()), *state)
        });
        Self {
            still,
            native,
            alerts: alerts.collect(),
            merged: Merged::default(),
            total: Merged::default(),
            operations: Vec::new(),
            totals: Vec::new(),
            budgets: Vec::new(),
        }
    }

    pub(super) fn add_fleet(&mut self, fleet: &Operations) {
        let (completeness, of_budgets) = self.completeness();
        for (operation, windows) in fleet.iter() {
            let heard = completeness.get(operation).copied().unwrap_or_default();
            self.add(Scope::Fleet, operation, windows, &heard);
        }
        for (number, budget) in self.still.rules.budgets.iter().enumerate() {
            let windows = fleet.judged(budget);
            // Of a budget that nobody has samples for that much is said.
            if !budget.selector.is_everything() || windows.is_none() {
                let heard = of_budgets.get(&budget.name).copied().unwrap_or_default();
                self.add_apart(&Scope::Fleet, (number, budget), windows, &heard);
            }
        }
    }

    pub(super) fn add_node(&mut self, name: &NodeName, node: &Node) {
        let seen = Seen::new(self.still.at, node);
        let scope = Scope::Node(name.clone());
        for (operation, windows) in node.operations.iter() {
            let mut heard = Completeness::default();
            heard.add(self.still.at, &seen, windows);
            self.add(scope.clone(), operation, windows, &heard);
        }
        let budgets = self.still.rules.budgets.iter().enumerate();
        for (number, budget) in budgets.filter(|(_, of)| !of.selector.is_everything()) {
            let Some(windows) = node.operations.judged(budget) else { continue };
            let mut heard = Completeness::default();
            heard.add(self.still.at, &seen, windows);
            self.add_apart(&scope, (number, budget), Some(windows), &heard);
        }
    }

    /// How many nodes the windows of each operation hold, and what is kept apart for budgets.
    fn completeness(&self) -> (Counted<&'s Operation>, Counted<&'s RuleName>) {
        let (mut operations, mut budgets) = (Counted::new(), Counted::new());
        for (_, node) in self.still.shown() {
            let seen = Seen::new(self.still.at, node);
            for (operation, windows) in node.operations.iter() {
                operations.entry(operation).or_default().add(self.still.at, &seen, windows);
            }
            for (budget, windows) in node.operations.selected() {
                budgets.entry(budget).or_default().add(self.still.at, &seen, windows);
            }
        }
        (operations, budgets)
    }

    fn add(
        &mut self,
        scope: Scope,
        operation: &Operation,
        windows: &Windows,
        heard: &Completeness,
    ) {
        let Self { still, native, merged, total, budgets, .. } = self;
        let alerts = &self.alerts;
        let mut rows = BTreeMap::new();
        let judging = still.rules.budgets.iter().enumerate().filter(|(_, budget)| {
            budget.operation == *operation && budget.selector.is_everything()
        });
        let judging: Vec<_> = judging.filter(|(_, budget)| budget.scopes.holds(&scope)).collect();
        windows.each_window(still.at, merged, total, |window, samples| {
            let mut ranks = samples.ranks();
            let row = WindowRow {
                quantiles: quantiles(samples, &mut ranks),
                nodes: heard.nodes[window as usize],
                nodes_expected: heard.expected,
                nodes_late: heard.late[window as usize],
            };
            rows.insert(window, row);
            for (number, budget) in judging.iter().filter(|(_, of)| of.window == window) {
                let sums = windows.sums(still.at, window, budget.limit_ns);
                let judgement = judge(budget, &sums, |rank| ranks.find(rank));
                let since = windows.since_known(budget.limit_ns);
                let about = (*budget, &scope, alerts);
                budgets.push((*number, budget_row(about, judgement, since, heard)));
            }
        });
        let exact = windows.total_exact();
        let ends = match scope {
            Scope::Fleet => ends(operation, &still.rules.budgets),
            Scope::Node(_) => Vec::new(),
        };
        self.totals.push(Total { exact, buckets: Buckets::of(total, &ends, *native) });
        self.operations.push(OperationRow {
            scope,
            operation: operation.to_string(),
            total: Quantiles { count: exact.count, ..quantiles(total, &mut total.ranks()) },
            windows: rows,
        });
    }

    /// Adds a budget's row, where its samples are in no operation's rows.
    fn add_apart(
        &mut self,
        scope: &Scope,
        (number, budget): (usize, &Budget),
        windows: Option<&Windows>,
        heard: &Completeness,
    ) {
        if !budget.scopes.holds(scope) {
            return;
        }
        let Self { still, merged, budgets, .. } = self;
        let sums = windows.map(|of| of.sums(still.at, budget.window, budget.limit_ns));
        match windows {
            Some(windows) => windows.show(still.at, budget.window, merged),
            None => merged.clear(),
        }
        let mut ranks = merged.ranks();
        let judgement = judge(budget, &sums.unwrap_or_default(), |rank| ranks.find(rank));
        let since = windows.and_then(|windows| windows.since_known(budget.limit_ns));
        let about = (budget, scope, &self.alerts);
        budgets.push((number, budget_row(about, judgement, since, heard)));
    }
}

fn budget_row(
    (budget, scope, alerts): (&Budget, &Scope, &AlertsBy<'_>),
    judgement: Judgement,
    since_limit: Option<(u64, Over)>,
    heard: &Completeness,
) -> BudgetRow {
    let key = (budget.name.as_str(), scope.node(), budget.operation.as_str());
    let window = budget.window as usize;
    BudgetRow {
        budget: budget.name.to_string(),
        operation: budget.operation.to_string(),
        scope: scope.clone(),
        quantile: budget.quantile,
        limit_ns: budget.limit_ns,
        window: budget.window,
        samples: judgement.sums.samples,
        value_ns: judgement.value_ns,
        within_ns: judgement.within_ns,
        lower_ns: judgement.lower_ns,
        upper_ns: judgement.upper_ns,
        over: judgement.sums.over,
        unsure: judgement.sums.unsure,
        completeness: (heard.nodes[window], heard.expected),
        nodes_late: heard.late[window],
        since_limit: since_limit.map(|(samples, over)| (samples, over.over)),
        objective: budget.objective,
        budget_remaining: None,
        verdict: judgement.verdict(),
        alert: displayed(alerts.get(&key).copied().unwrap_or_default(), judgement.finding),
    }
}

pub(super) fn quantiles(samples: &Merged, ranks: &mut Ranks<'_>) -> Quantiles {
    let ExactFigures { count, sum_ns, min_ns, max_ns } = samples.exact();
    let mut at = |quantile| ranks.find(rank(quantile, count));
    let (p50, p99) = (at(0.5), at(0.99));
    let ends = |of: Option<Quantile>| of.map_or((0, 0), |found| (found.lower_ns, found.upper_ns));
    let approximate = Approximate { p50_ns: ends(p50), p99_ns: ends(p99) };
    let mean = sum_ns.checked_div(u128::from(count)).unwrap_or(0);
    Quantiles {
        count,
        mean_ns: u64::try_from(mean).unwrap_or(u64::MAX),
        min_ns,
        max_ns,
        p50_ns: p50.map(|found| found.value_ns),
        p99_ns: p99.map(|found| found.value_ns),
        approximate: samples.is_approximate().then_some(approximate),
    }
}
