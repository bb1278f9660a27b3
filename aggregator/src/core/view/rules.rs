//! What a view says of error budgets.

use plimsoll_schemas::budget::Budget;

use crate::core::burns::ErrorBudget;
use crate::core::still::Still;

impl Still {
    /// What is left of error budgets.
    pub(super) fn error_budgets(&self) -> Vec<ErrorBudget> {
        let of = |budget: &Budget| {
            let windows = self.fleet.get(&budget.operation)?;
            ErrorBudget::of(self.at, budget, self.rules.time_scale, windows)
        };
        self.rules.budgets.iter().filter_map(of).collect()
    }
}
