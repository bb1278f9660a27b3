//! Latency budgets as judged: verdict, the window's figures, and counts since the budget has its
//! limit. Figures that are stale are left out; counts stay, and the fleet's verdict, which silence
//! turns into `no_data` unless it is a breach. The state of a budget's alert is among the alerts.
//!
//! DESIGN A41.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::summary::{BudgetRow, Verdict};
use plimsoll_schemas::unit::Unit;

use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, LabelSet, Value, Writer};

/// A budget's row, under the label sets of its name and of its scope.
type LabelledRow<'v> = ([&'v LabelSet; 2], &'v BudgetRow);

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    let budgets = &page.view.summary.budgets;
    let scopes: Vec<_> = budgets.iter().map(|row| scope_labels(writer, row)).collect();
    let name = |row: &BudgetRow| writer.labels([("budget", row.budget.as_str())]);
    let names: BTreeMap<_, _> =
        budgets.iter().map(|row| (row.budget.as_str(), name(row))).collect();
    let rows = scopes.iter().zip(budgets);
    let all: Vec<LabelledRow<'_>> =
        rows.map(|(scope, row)| ([&names[row.budget.as_str()], scope], row)).collect();

    write_counts_since_limit(writer, &all);
    write_newest_samples(writer, &all);
    write_verdicts(writer, &all);

    let current: Vec<_> = all.into_iter().filter(|(_, row)| !row.freshness.stale).collect();
    write_window(writer, &current);
    write_completeness(writer, &current);
}

fn write_newest_samples(writer: &mut Writer, all: &[LabelledRow<'_>]) {
    let help = "Time at which the fleet's newest sample that the budget judges was taken";
    let name = "plimsoll_budget_newest_sample_timestamp_seconds";
    writer.family(Family::gauge(name, help), |rows| {
        for (labels, row) in all.iter().filter(|(_, row)| row.scope == Scope::Fleet) {
            if let Some(at) = row.freshness.as_of_seconds {
                rows.add(labels, Value::Float(at));
            }
        }
    });
}

fn write_verdicts(writer: &mut Writer, all: &[LabelledRow<'_>]) {
    let help = "1 for the verdict on the samples of the budget's window";
    writer.family(Family::gauge("plimsoll_budget_verdict", help), |rows| {
        let verdicts =
            Verdict::ALL.map(|verdict| (verdict, rows.labels([("verdict", verdict.as_str())])));
        let verdicts = BTreeMap::from(verdicts);
        // The fleet has a verdict without data too, since a rule on `no_data` needs a series; for
        // nodes it would be thousands of series that state nothing.
        let is_shown = |row: &BudgetRow| row.scope == Scope::Fleet || !row.freshness.stale;
        for ([name, scope], row) in all.iter().filter(|(_, row)| is_shown(row)) {
            rows.add(&[name, scope, &verdicts[&row.verdict]], true.into());
        }
    });
}

/// The figures from which the verdict follows.
fn write_window(writer: &mut Writer, current: &[LabelledRow<'_>]) {
    let mut gauge = |name: &str, help: &str, of: fn(&BudgetRow) -> Option<Value>| {
        writer.family(Family::gauge(name, help), |rows| {
            let known = current.iter().filter_map(|(labels, row)| Some((labels, of(row)?)));
            known.for_each(|(labels, value)| rows.add(labels, value));
        });
    };

    let help = "Samples in the budget's window";
    gauge("plimsoll_budget_window_samples", help, |row| Some(row.samples.into()));
    let help = "Samples over the limit in the budget's window";
    gauge("plimsoll_budget_window_over_limit_samples", help, |row| Some(row.over.into()));
    let help = "Samples in the budget's window whose bucket contains the limit";
    gauge("plimsoll_budget_window_uncertain_samples", help, |row| Some(row.uncertain.into()));

    let help = "Variance of the number of samples over the limit, relative to independent samples";
    gauge("plimsoll_budget_overdispersion_ratio", help, |row| Some(row.overdispersion.into()));
    let help = "Whether the overdispersion is still assumed, since too few slow samples were seen";
    gauge("plimsoll_budget_overdispersion_learning", help, |row| Some(row.learning.into()));
    let help = "Share of samples over the limit in the budget's window, 0 to 1";
    gauge("plimsoll_budget_window_over_limit_ratio", help, share_over);

    let help = "Value of the budget's quantile over its window";
    gauge("plimsoll_budget_value_seconds", help, |row| shown(row, row.value_ns));
    let help = "Lowest possible value of the quantile, given the producers' bucket bounds";
    gauge("plimsoll_budget_value_low_seconds", help, |row| shown(row, Some(row.within_ns?.0)));
    let help = "Highest possible value of the quantile, given the producers' bucket bounds";
    gauge("plimsoll_budget_value_high_seconds", help, |row| shown(row, Some(row.within_ns?.1)));
    let help = "Lower confidence bound of the quantile; above the limit in a breach";
    gauge("plimsoll_budget_lower_bound_seconds", help, |row| shown(row, row.lower_ns));
    let help = "Upper confidence bound of the quantile; within the limit when an alert clears";
    gauge("plimsoll_budget_upper_bound_seconds", help, |row| shown(row, row.upper_ns));
}

fn unit(row: &BudgetRow) -> Unit {
    Unit::of(&row.operation)
}

/// In seconds; of an operation that holds bytes or a count in these, as its name states.
fn shown(row: &BudgetRow, raw: Option<u64>) -> Option<Value> {
    raw.map(|raw| Value::of(unit(row), raw.into()))
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
fn share_over(row: &BudgetRow) -> Option<Value> {
    (row.samples > 0).then(|| Value::Float(row.over as f64 / row.samples as f64))
}

/// How many of the fleet's nodes the fleet's window covers.
fn write_completeness(writer: &mut Writer, current: &[LabelledRow<'_>]) {
    let mut family = |name, help, of: fn(&BudgetRow) -> u64| {
        writer.family(Family::gauge(name, help), |rows| {
            for (labels, row) in current.iter().filter(|(_, row)| row.scope == Scope::Fleet) {
                rows.add(labels, of(row).into());
            }
        });
    };
    let help = "Nodes with samples in the budget's window";
    family("plimsoll_budget_window_nodes", help, |row| row.completeness.0);
    let help = "Nodes that have not left and ever had a sample that the budget judges";
    family("plimsoll_budget_window_expected_nodes", help, |row| row.completeness.1);
    let help = "Expected nodes seen within the budget's window whose newest sample is older";
    family("plimsoll_budget_window_late_nodes", help, |row| row.nodes_late);
}

/// Counters for shares over windows of the reader's choice. Each limit has series of its own, since
/// samples over a new limit were not counted before it was set.
fn write_counts_since_limit(writer: &mut Writer, all: &[LabelledRow<'_>]) {
    let mut family = |name, help, of: fn((u64, u64)) -> u64| {
        writer.family(Family::counter(name, help), |rows| {
            for ([name, scope], row) in all {
                // The limit is a label: a counter that went on after
                // a change of the limit would mix two meanings (A4).
                if let Some(since) = row.since_limit {
                    let limit = unit(row).shown(row.limit_ns).to_string();
                    let limit = rows.labels([("limit_seconds", limit.as_str())]);
                    rows.add(&[name, scope, &limit], of(since).into());
                }
            }
        });
    };

    let help = "Samples that the budget judged, by limit";
    family("plimsoll_budget_samples_total", help, |(samples, _)| samples);
    let help = "Samples over the limit that the budget judged, by limit";
    let name = "plimsoll_budget_over_limit_samples_total";
    family(name, help, |(_, over)| over);
}

fn scope_labels(writer: &Writer, row: &BudgetRow) -> LabelSet {
    writer.labels([
        ("scope", row.scope.as_str()),
        ("node", row.scope.node()),
        ("operation", &row.operation),
    ])
}
