//! What is left of error budgets, in a view.

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::summary::{BudgetRow, BurnRow};

use super::read_view::ReadView;
use crate::core::rules::ErrorBudget;

/// What is left of error budgets.
pub(super) fn error_budgets(view: &ReadView) -> Vec<ErrorBudget> {
    let of = |budget: &Budget| {
        let windows = view.fleet.judged(budget)?;
        ErrorBudget::of(view.at, budget, view.rules.time_scale, windows)
    };
    view.rules.budgets.iter().filter_map(of).collect()
}

/// Notes what is left in the rows of the fleet.
pub(super) fn fill(rows: &mut [(usize, BudgetRow)], error_budgets: &[ErrorBudget]) {
    for (_, row) in rows.iter_mut().filter(|(_, row)| row.scope == Scope::Fleet) {
        let of = error_budgets.iter().find(|of| of.budget == row.budget);
        row.budget_remaining = of.and_then(|of| of.remaining);
        let burns = of.into_iter().flat_map(|of| &of.burns);
        row.burns = burns.map(|(window, rate)| BurnRow { window: *window, rate: *rate }).collect();
    }
}
