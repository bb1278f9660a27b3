//! The families about thresholds and error budgets: what is watched, and what is left.

use super::families::Page;
use super::writer::{Family, Value, Writer};
use crate::core::rules::ErrorBudget;

impl Page<'_> {
    /// What does not change while rules do not.
    pub(super) fn thresholds(&self, writer: &mut Writer) {
        let help = "What the rule compares its metric with";
        writer.family(Family::gauge("plimsoll_rule_threshold", help), |rows| {
            for threshold in &self.view.rules.thresholds {
                let labels = rows.labels([
                    ("rule", threshold.name.as_str()),
                    ("metric", threshold.metric.operation().as_str()),
                    ("comparison", threshold.comparison.as_str()),
                    ("severity", threshold.about.severity.as_str()),
                ]);
                rows.add(&[&labels], Value::Float(threshold.value));
            }
        });
        let help = "The share of samples that must stay within the budget's limit, 0 to 1";
        let family = Family::gauge("plimsoll_error_budget_objective_ratio", help);
        self.of_each(writer, family, |budget| Some(budget.objective));
    }

    pub(super) fn error_budgets(&self, writer: &mut Writer) {
        let help = "What is left of the error budget of thirty days, 1 being all; below 0 it is \
                    overdrawn";
        let family = Family::gauge("plimsoll_error_budget_remaining_ratio", help);
        self.of_each(writer, family, |budget| budget.remaining);
        let help = "How many times as fast as it may be the error budget is spent over the window";
        writer.family(Family::gauge("plimsoll_error_budget_burn", help), |rows| {
            for budget in &self.view.error_budgets {
                for (window, pace) in &budget.burns {
                    let Some(pace) = pace else { continue };
                    let name = budget.budget.as_str();
                    let labels = rows.labels([("budget", name), ("window", window.as_str())]);
                    rows.add(&[&labels], Value::Float(*pace));
                }
            }
        });
    }

    fn of_each(
        &self,
        writer: &mut Writer,
        family: Family<'_>,
        of: fn(&ErrorBudget) -> Option<f64>,
    ) {
        writer.family(family, |rows| {
            for budget in &self.view.error_budgets {
                let Some(value) = of(budget) else { continue };
                let labels = rows.labels([("budget", budget.budget.as_str())]);
                rows.add(&[&labels], Value::Float(value));
            }
        });
    }
}
