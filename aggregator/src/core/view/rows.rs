//! Rows of operations and budgets: each window of each operation is merged once, for its figures
//! and for the budgets that judge it.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::{AlertState, Scope};
use plimsoll_schemas::budget::{Budget, Window};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::summary::{BudgetRow, OperationRow, Quantiles, WindowRow};

use super::Total;
use crate::core::buckets::{Buckets, ends};
use crate::core::completeness::Completeness;
use crate::core::judge::judge;
use crate::core::node::{Node, Operations};
use crate::core::still::Still;
use crate::core::window::Windows;

/// Rows under construction.
pub(super) struct Rows<'s> {
    still: &'s Still,
    native: bool,
    pub(super) operations: Vec<OperationRow>,
    pub(super) totals: Vec<Total>,
    /// With the number of its budget.
    pub(super) budgets: Vec<(usize, BudgetRow)>,
}

impl<'s> Rows<'s> {
    pub(super) fn new(still: &'s Still, native: bool) -> Self {
        let (operations, totals, budgets) = (Vec::new(), Vec::new(), Vec::new());
        Self { still, native, operations, totals, budgets }
    }

    pub(super) fn add_fleet(&mut self, fleet: &Operations) {
        let completeness = self.completeness();
        for (operation, windows) in fleet.iter() {
            let heard = completeness.get(operation).copied().unwrap_or_default();
            self.add(Scope::Fleet, operation, windows, &heard);
        }
    }

    pub(super) fn add_node(&mut self, name: &NodeName, node: &Node) {
        for (operation, windows) in node.operations.iter() {
            let mut heard = Completeness::default();
            heard.add(self.still.at, node, windows);
            self.add(Scope::Node(name.clone()), operation, windows, &heard);
        }
    }

    /// How many nodes each operation's windows hold.
    fn completeness(&self) -> BTreeMap<&'s Operation, Completeness> {
        let mut completeness: BTreeMap<&Operation, Completeness> = BTreeMap::new();
        for (_, node) in self.still.shown() {
            for (operation, windows) in node.operations.iter() {
                completeness.entry(operation).or_default().add(self.still.at, node, windows);
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
        let mut rows = BTreeMap::new();
        windows.each_window(self.still.at, |window, samples| {
            let row = WindowRow {
                quantiles: quantiles(samples),
                nodes: heard.nodes[window as usize],
                nodes_expected: heard.expected,
                nodes_late: heard.late[window as usize],
            };
            rows.insert(window, row);
            self.judge(&scope, operation, window, samples);
        });
        let (exact, total) = (windows.total_exact(), windows.total());
        let ends = match scope {
            Scope::Fleet => ends(operation, &self.still.budgets),
            Scope::Node(_) => Vec::new(),
        };
        self.totals.push(Total { exact, buckets: Buckets::of(&total, &ends, self.native) });
        self.operations.push(OperationRow {
            scope,
            operation: operation.to_string(),
            total: Quantiles { count: exact.count, ..quantiles(&total) },
            windows: rows,
        });
    }

    fn judge(&mut self, scope: &Scope, operation: &Operation, window: Window, samples: &Histogram) {
        let budgets = self.still.budgets.iter().enumerate();
        for (number, budget) in budgets {
            if budget.operation == *operation && budget.window == window {
                let alert = self.still.alert(budget, scope);
                self.budgets.push((number, budget_row(budget, scope.clone(), alert, samples)));
            }
        }
    }
}

fn budget_row(budget: &Budget, scope: Scope, alert: AlertState, samples: &Histogram) -> BudgetRow {
    let judgement = judge(budget, samples);
    BudgetRow {
        budget: budget.name.to_string(),
        operation: budget.operation.to_string(),
        scope,
        quantile: budget.quantile,
        limit_ns: budget.limit_ns,
        window: budget.window,
        samples: judgement.samples,
        value_ns: judgement.value.map(|value| value.value_ns),
        lower_ns: judgement.lower_ns,
        verdict: judgement.verdict,
        alert,
    }
}

pub(super) fn quantiles(histogram: &Histogram) -> Quantiles {
    let at = |quantile| histogram.quantile(quantile).map(|found| found.value_ns);
    let mean = histogram.sum_ns().checked_div(u128::from(histogram.count())).unwrap_or(0);
    Quantiles {
        count: histogram.count(),
        mean_ns: u64::try_from(mean).unwrap_or(u64::MAX),
        min_ns: histogram.min_ns(),
        max_ns: histogram.max_ns(),
        p50_ns: at(0.5),
        p99_ns: at(0.99),
    }
}
