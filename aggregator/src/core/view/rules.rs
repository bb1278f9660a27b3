//! What a view says of error budgets.

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::summary::BudgetRow;

use crate::core::rules::burn_rate::ErrorBudget;
use crate::core::view::read_view::Still;

impl Still {
    /// What is left of error budgets.
    pub(super) fn error_budgets(&self) -> Vec<ErrorBudget> {
        let of = |budget: &Budget| {
            let windows = self.fleet.judged(budget)?;
            ErrorBudget::of(self.at, budget, self.rules.time_scale, windows)
        };
        self.rules.budgets.iter().filter_map(of).collect()
    }
}

/// Notes what is left in the rows of the fleet.
pub(super) fn fill(rows: &mut [(usize, BudgetRow)], error_budgets: &[ErrorBudget]) {
    for (_, row) in rows.iter_mut().filter(|(_, row)| row.scope == Scope::Fleet) {
        let of = error_budgets.iter().find(|of| of.budget == row.budget);
        row.budget_remaining = of.and_then(|of| of.remaining);
    }
}
