//! Rules as configured (budgets and thresholds) and their error budgets.

use std::collections::BTreeSet;

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::budget::Budget;

use crate::core::rules::{ErrorBudget, Judge};
use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, Value, Writer};

pub(super) fn write_budgets(writer: &mut Writer, budgets: &[Budget]) {
    let help = "Limit of the budget's quantile";
    writer.family(Family::gauge("plimsoll_budget_limit_seconds", help), |rows| {
        for budget in budgets {
            let labels = rows.labels([
                ("budget", budget.name.as_str()),
                ("operation", budget.operation.as_str()),
                ("window", budget.window.as_str()),
                ("severity", budget.about.severity.as_str()),
            ]);
            rows.add(&[&labels], Value::of(budget.unit(), budget.limit_ns.into()));
        }
    });

    let help = "Quantile that the budget judges, 0 to 1";
    let of = budgets.iter().map(|of| (of.name.as_str(), of.quantile));
    writer.by_label(Family::gauge("plimsoll_budget_quantile_ratio", help), "budget", of);
    let help = "Minimum number of samples that show a breach of the budget";
    let of = budgets.iter().map(|of| (of.name.as_str(), Judge::new(of).samples_min));
    writer.by_label(Family::gauge("plimsoll_budget_min_samples", help), "budget", of);
}

pub(super) fn write_thresholds(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "Number with which the rule compares its metric";
    writer.family(Family::gauge("plimsoll_rule_threshold", help), |rows| {
        for threshold in &page.view.rules.thresholds {
            let labels = rows.labels([
                ("rule", threshold.name.as_str()),
                ("metric", threshold.metric.operation().as_str()),
                ("comparison", threshold.comparison.as_str()),
                ("severity", threshold.about.severity.as_str()),
            ]);
            rows.add(&[&labels], Value::Float(threshold.value));
        }
    });

    let help = "Share of samples that must be within the budget's limit, 0 to 1";
    let family = Family::gauge("plimsoll_error_budget_objective_ratio", help);
    write_error_budget(writer, page, family, |budget| Some(budget.objective));
}

pub(super) fn write_error_budgets(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "Remaining share of the error budget of thirty days; negative when overspent";
    let family = Family::gauge("plimsoll_error_budget_remaining_ratio", help);
    write_error_budget(writer, page, family, |budget| budget.remaining);
    // A burn rate of before is not one of now; what is left of thirty days is of all of them.
    let rows = page.view.summary.budgets.iter();
    let stale = rows.filter(|row| row.scope == Scope::Fleet && row.freshness.stale);
    let stale: BTreeSet<&str> = stale.map(|row| row.budget.as_str()).collect();
    let current = page.view.error_budgets.iter();
    let current = current.filter(|budget| !stale.contains(budget.budget.as_str()));
    let help = "Burn rate of the error budget over the window; 1 spends it in thirty days";

    writer.family(Family::gauge("plimsoll_error_budget_burn_rate", help), |rows| {
        for budget in current {
            for (window, burn_rate) in &budget.burns {
                let Some(burn_rate) = burn_rate else { continue };
                let name = budget.budget.as_str();
                let labels = rows.labels([("budget", name), ("window", window.as_str())]);
                rows.add(&[&labels], Value::Float(*burn_rate));
            }
        }
    });
}

fn write_error_budget(
    writer: &mut Writer,
    page: &LabelledView<'_>,
    family: Family<'_>,
    of: fn(&ErrorBudget) -> Option<f64>,
) {
    let all = page.view.error_budgets.iter();
    let all = all.filter_map(|budget| Some((budget.budget.as_str(), of(budget)?)));
    writer.by_label(family, "budget", all);
}
