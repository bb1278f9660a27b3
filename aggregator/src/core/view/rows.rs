//! Rows of operations and budgets: each window of each operation is merged once, for its figures
//! and for the budgets that judge it.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::{AlertState, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::histogram::{ExactFigures, rank};
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::summary::{BudgetRow, OperationRow, Quantiles, WindowRow};

use super::Total;
use crate::core::alert::displayed;
use crate::core::buckets::{Buckets, ends};
use crate::core::completeness::{Completeness, Seen};
use crate::core::judge::{Judgement, judge};
use crate::core::node::{Node, Operations};
use crate::core::still::Still;
use crate::core::window::{Merged, Ranks, Windows};

/// Rows under construction.
pub(super) struct Rows<'s> {
    still: &'s Still,
    native: bool,
    /// Not inactive, by rule, node and operation.
    alerts: BTreeMap<(&'s str, &'s str, &'s str), AlertState>,
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
        let completeness = self.completeness();
        for (operation, windows) in fleet.iter() {
            let heard = completeness.get(operation).copied().unwrap_or_default();
            self.add(Scope::Fleet, operation, windows, &heard);
        }
    }

    pub(super) fn add_node(&mut self, name: &NodeName, node: &Node) {
        let seen = Seen::new(self.still.at, node);
        for (operation, windows) in node.operations.iter() {
            let mut heard = Completeness::default();
            heard.add(self.still.at, &seen, windows);
            self.add(Scope::Node(name.clone()), operation, windows, &heard);
        }
    }

    /// How many nodes each operation's windows hold.
    fn completeness(&self) -> BTreeMap<&'s Operation, Completeness> {
        let mut completeness: BTreeMap<&Operation, Completeness> = BTreeMap::new();
        for (_, node) in self.still.shown() {
            let seen = Seen::new(self.still.at, node);
            for (operation, windows) in node.operations.iter() {
                completeness.entry(operation).or_default().add(self.still.at, &seen, windows);
            }
        }
        completeness
    }

    fn add(
        &mut self,
        scope: Scope,
        operation: &Operation,
        windows: &Windows,
        heard: &Completeness,
    ) {
        let Self { still, native, alerts, merged, total, budgets, .. } = self;
        let mut rows = BTreeMap::new();
        windows.each_window(still.at, merged, total, |window, samples| {
            let mut ranks = samples.ranks();
            let row = WindowRow {
                quantiles: quantiles(samples, &mut ranks),
                nodes: heard.nodes[window as usize],
                nodes_expected: heard.expected,
                nodes_late: heard.late[window as usize],
            };
            rows.insert(window, row);
            for (number, budget) in still.rules.budgets.iter().enumerate() {
                if budget.operation == *operation && budget.window == window {
                    let key = (budget.name.as_str(), scope.node(), operation.as_str());
                    let alert = alerts.get(&key).copied().unwrap_or_default();
                    let sums = windows.sums(still.at, window, budget.limit_ns);
                    let judgement = judge(budget, &sums, |rank| ranks.find(rank));
                    budgets.push((number, budget_row(budget, scope.clone(), alert, judgement)));
                }
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
}

fn budget_row(budget: &Budget, scope: Scope, alert: AlertState, judgement: Judgement) -> BudgetRow {
    BudgetRow {
        budget: budget.name.to_string(),
        operation: budget.operation.to_string(),
        scope,
        quantile: budget.quantile,
        limit_ns: budget.limit_ns,
        window: budget.window,
        samples: judgement.sums.samples,
        value_ns: judgement.value_ns,
        lower_ns: judgement.lower_ns,
        upper_ns: judgement.upper_ns,
        over: judgement.sums.over,
        unsure: judgement.sums.unsure,
        completeness: (0, 0),
        objective: budget.objective,
        budget_remaining: None,
        verdict: judgement.verdict(),
        alert: displayed(alert, judgement.finding),
    }
}

pub(super) fn quantiles(samples: &Merged, ranks: &mut Ranks<'_>) -> Quantiles {
    let ExactFigures { count, sum_ns, min_ns, max_ns } = samples.exact();
    let mut at = |quantile| ranks.find(rank(quantile, count)).map(|found| found.value_ns);
    let mean = sum_ns.checked_div(u128::from(count)).unwrap_or(0);
    Quantiles {
        count,
        mean_ns: u64::try_from(mean).unwrap_or(u64::MAX),
        min_ns,
        max_ns,
        p50_ns: at(0.5),
        p99_ns: at(0.99),
    }
}
