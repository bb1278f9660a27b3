//! Rows of operations and budgets: each window of each operation is merged once, for its figures
//! and for the budgets that judge it.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::{AlertState, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::histogram::{ExactFigures, Quantile, rank};
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::summary::{
    BudgetRow, BurnRow, Freshness, OperationRow, QuantileBounds, Quantiles, Verdict, WindowRow,
};
use plimsoll_schemas::unit::Unit;

use super::fleet_sums::FleetSums;
use super::freshness;
use super::read_view::{ReadView, ShownScopes};
use crate::core::alerting::displayed;
use crate::core::fleet::{
    Buckets, Completeness, Merged, Node, Operations, Overdispersion, Ranks, ReportingNode, Sums,
    Windows, ends,
};
use crate::core::rules::{ErrorBudget, Finding, Judge, Judgement};

/// Not inactive, by rule, node and operation.
type AlertsBy<'s> = BTreeMap<(&'s str, &'s str, &'s str), AlertState>;

/// All samples of one operation in one scope.
#[derive(Clone, Debug)]
pub struct Total {
    /// What is known exactly.
    pub exact: ExactFigures,
    /// By bucket; fewer than there were, where a node's bound left no room for some.
    pub buckets: Buckets,
    pub unit: Unit,
}

pub(super) struct Rows<'s> {
    view: &'s ReadView,
    native: bool,
    alerts: AlertsBy<'s>,
    /// In the order of the budgets.
    judges: Vec<Judge<'s>>,
    /// Used again for each row, as is the next.
    merged: Merged,
    total: Merged,
    pub(super) operations: Vec<OperationRow>,
    pub(super) totals: Vec<Total>,
    /// With the number of its budget.
    pub(super) budgets: Vec<(usize, BudgetRow)>,
}

impl<'s> Rows<'s> {
    /// No rows yet; there will be some of these scopes.
    pub(super) fn new(view: &'s ReadView, scopes: &ShownScopes<'_>, native: bool) -> Self {
        let alerts = view.alerts_about(scopes).into_iter().map(|(key, state)| {
            ((key.rule.as_str(), key.scope.node(), key.operation.as_str()), state)
        });
        Self {
            view,
            native,
            alerts: alerts.collect(),
            judges: view.rules.budgets.iter().map(Judge::new).collect(),
            merged: Merged::default(),
            total: Merged::default(),
            operations: Vec::new(),
            totals: Vec::new(),
            budgets: Vec::new(),
        }
    }

    pub(super) fn add_fleet(&mut self, fleet: &Operations, sums: &FleetSums<'_>) {
        for (operation, windows) in fleet.iter() {
            let completeness = sums.operations.get(operation).copied().unwrap_or_default();
            self.add(Scope::Fleet, operation, windows, &completeness);
        }
        for (number, budget) in self.view.rules.budgets.iter().enumerate() {
            let windows = fleet.judged(budget);
            // A budget without samples still has its row.
            if !budget.selector.is_everything() || windows.is_none() {
                let completeness = sums.budgets.get(&budget.name).copied().unwrap_or_default();
                self.add_apart(&Scope::Fleet, number, budget, windows, &completeness);
            }
        }
    }

    pub(super) fn add_node(&mut self, name: &NodeName, node: &Node) {
        let seen = ReportingNode::new(self.view.at, node);
        let scope = Scope::Node(name.clone());
        for (operation, windows) in node.operations.iter() {
            let completeness = seen.completeness(self.view.at, windows);
            self.add(scope.clone(), operation, windows, &completeness);
        }
        self.add_budgets(name, node, |budget| !budget.selector.is_everything());
    }

    /// These budgets of a node alone, which costs one window for each of them.
    pub(super) fn add_budgets(
        &mut self,
        name: &NodeName,
        node: &Node,
        is_wanted: impl Fn(&Budget) -> bool,
    ) {
        let seen = ReportingNode::new(self.view.at, node);
        let scope = Scope::Node(name.clone());
        let budgets = self.view.rules.budgets.iter().enumerate();
        for (number, budget) in budgets.filter(|(_, budget)| is_wanted(budget)) {
            let Some(windows) = node.operations.judged(budget) else { continue };
            let completeness = seen.completeness(self.view.at, windows);
            self.add_apart(&scope, number, budget, Some(windows), &completeness);
        }
    }

    fn add(
        &mut self,
        scope: Scope,
        operation: &Operation,
        windows: &Windows,
        completeness: &Completeness,
    ) {
        let Self { view, native, merged, total, budgets, judges, .. } = self;
        let alerts = &self.alerts;
        let freshness = freshness::of_scope(view.is_silent, &scope, completeness, Some(windows));
        let mut rows = BTreeMap::new();
        let judging = view.rules.budgets.iter().enumerate().filter(|(_, budget)| {
            budget.operation == *operation && budget.selector.is_everything()
        });
        // Found once for all windows of the operation: a
        // page of ten thousand nodes asks for each of them.
        let judging: Vec<_> = judging.filter(|(_, budget)| budget.scopes.holds(&scope)).collect();

        windows.each_window(view.at, merged, total, |window, samples| {
            let mut ranks = samples.ranks();
            let row = WindowRow {
                quantiles: quantiles(samples, &mut ranks),
                nodes: completeness.nodes[window as usize],
                nodes_expected: completeness.expected,
                nodes_late: completeness.overdue[window as usize],
            };

            rows.insert(window, row);

            for (number, budget) in judging.iter().filter(|(_, of)| of.window == window) {
                let sums = windows.sums(view.at, window, budget.limit_ns);
                let recent = windows.recent(view.at, window, budget.limit_ns);
                let judge = judges[*number].of(windows.overdispersion(budget.limit_ns));
                let judgement = judge.judge(view.at, &sums, &recent, |rank| ranks.find(rank));
                let since = windows.since_known(budget.limit_ns);
                let row =
                    budget_row(budget, &scope, alerts, judgement, since, completeness, freshness);
                budgets.push((*number, row));
            }
        });

        let exact = windows.total_exact();

        let ends = match scope {
            Scope::Fleet => ends(operation, &view.rules.budgets),
            // Classic buckets are some twenty series for each operation: too many for each of
            // thousands of nodes, which have native histograms alone (A38).
            Scope::Node(_) => Vec::new(),
        };

        let unit = Unit::of(operation.as_str());
        self.totals.push(Total { exact, buckets: Buckets::of(total, &ends, *native, unit), unit });

        self.operations.push(OperationRow {
            scope,
            operation: operation.to_string(),
            unit: Unit::raw_of(operation.as_str()),
            own: is_own(operation),
            freshness,
            total: Quantiles { count: exact.count, ..quantiles(total, &mut total.ranks()) },
            windows: rows,
        });
    }

    /// Adds a budget's row, where its samples are in no operation's rows.
    fn add_apart(
        &mut self,
        scope: &Scope,
        number: usize,
        budget: &Budget,
        windows: Option<&Windows>,
        completeness: &Completeness,
    ) {
        if !budget.scopes.holds(scope) {
            return;
        }
        let Self { view, merged, budgets, judges, .. } = self;
        let sums = windows.map(|of| of.sums(view.at, budget.window, budget.limit_ns));

        match windows {
            Some(windows) => windows.show(view.at, budget.window, merged),
            // The room is reused from row to row: what the last one left in it would be judged.
            None => merged.clear(),
        }

        let mut ranks = merged.ranks();
        let recent = windows.map(|of| of.recent(view.at, budget.window, budget.limit_ns));
        let (sums, recent) = (sums.unwrap_or_default(), recent.unwrap_or_default());
        let overdispersion = windows.map(|of| of.overdispersion(budget.limit_ns));
        let judge = judges[number].of(overdispersion.unwrap_or(Overdispersion::UNKNOWN));
        let judgement = judge.judge(view.at, &sums, &recent, |rank| ranks.find(rank));
        let since = windows.and_then(|windows| windows.since_known(budget.limit_ns));
        let freshness = freshness::of_scope(view.is_silent, scope, completeness, windows);
        let row =
            budget_row(budget, scope, &self.alerts, judgement, since, completeness, freshness);
        budgets.push((number, row));
    }
}

fn budget_row(
    budget: &Budget,
    scope: &Scope,
    alerts: &AlertsBy<'_>,
    judgement: Judgement,
    since_limit: Option<Sums>,
    completeness: &Completeness,
    freshness: Freshness,
) -> BudgetRow {
    let key = (budget.name.as_str(), scope.node(), budget.operation.as_str());
    let window = budget.window as usize;
    let state = alerts.get(&key).copied().unwrap_or_default();
    let verdict = freshness::verdict(judgement.verdict(state), freshness);
    // The state that is shown follows the verdict that is shown:
    // `insufficient` beside `no_data` would contradict it.
    let finding = if verdict == Verdict::NoData { Finding::NoData } else { judgement.finding };

    BudgetRow {
        budget: budget.name.to_string(),
        operation: budget.operation.to_string(),
        unit: Unit::raw_of(budget.operation.as_str()),
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
        uncertain: judgement.sums.uncertain,
        overdispersion: judgement.overdispersion.factor,
        learning: judgement.overdispersion.is_learning,
        completeness: (completeness.nodes[window], completeness.expected),
        nodes_late: completeness.overdue[window],
        nodes_reporting: completeness.reporting,
        freshness,
        since_limit: since_limit.map(|since| (since.samples, since.over)),
        objective: budget.objective,
        budget_remaining: None,
        burns: Vec::new(),
        verdict,
        alert: displayed(state, finding),
    }
}

pub(super) fn quantiles(samples: &Merged, ranks: &mut Ranks<'_>) -> Quantiles {
    let ExactFigures { count, sum_ns, min_ns, max_ns } = samples.exact();
    let mut at = |quantile| ranks.find(rank(quantile, count));
    let (p50, p99) = (at(0.5), at(0.99));
    let ends = |of: Option<Quantile>| of.map_or((0, 0), |found| (found.lower_ns, found.upper_ns));
    let approximate = QuantileBounds { p50_ns: ends(p50), p99_ns: ends(p99) };
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

pub(super) fn error_budgets(view: &ReadView) -> Vec<ErrorBudget> {
    let of = |budget: &Budget| {
        let windows = view.fleet.judged(budget)?;
        ErrorBudget::of(view.at, budget, view.rules.time_scale, windows)
    };
    view.rules.budgets.iter().filter_map(of).collect()
}

/// Notes what is left in the rows of the fleet.
pub(super) fn fill_error_budgets<'r>(
    rows: impl Iterator<Item = &'r mut BudgetRow>,
    error_budgets: &[ErrorBudget],
) {
    for row in rows.filter(|row| row.scope == Scope::Fleet) {
        let of = error_budgets.iter().find(|of| of.budget == row.budget);
        row.budget_remaining = of.and_then(|of| of.remaining);
        let burns = of.into_iter().flat_map(|of| &of.burns);
        row.burns = burns.map(|(window, rate)| BurnRow { window: *window, rate: *rate }).collect();
    }
}
