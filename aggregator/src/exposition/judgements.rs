//! The families about budgets and alerts. An alert outlives the silence of its node; the figures
//! that a silent node's windows no longer hold do not.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::summary::{BudgetRow, Verdict};
use plimsoll_schemas::time::seconds;

use super::families::Page;
use super::writer::{Family, FamilyType, LabelSet, Value, Writer};

/// A budget's row under its name and its scope.
type Labelled<'v> = ([&'v LabelSet; 2], &'v BudgetRow);

impl Page<'_> {
    pub(super) fn judgements(&self, writer: &mut Writer) {
        let scopes: Vec<_> =
            self.view.summary.budgets.iter().map(|row| scope(writer, row)).collect();
        let names = self.names(writer, "budget");
        let rows = scopes.iter().zip(&self.view.summary.budgets);
        let all: Vec<Labelled<'_>> =
            rows.map(|(scope, row)| ([&names[row.budget.as_str()], scope], row)).collect();
        let help = "Alert state: 0 inactive, 1 pending, 2 firing, 3 resolved, 4 too few samples, \
                    5 none";
        writer.family(Family::gauge("plimsoll_budget_state", help), |rows| {
            for (labels, row) in &all {
                rows.add(labels, Value::Count(row.alert.as_number().into()));
            }
        });
        since_limits(writer, &all);
        let quiet = &self.sets.quiet;
        let spoken: Vec<_> =
            all.into_iter().filter(|(_, row)| !quiet.contains(row.scope.node())).collect();
        verdicts(writer, &spoken);
        figures(writer, &spoken);
        completeness(writer, &spoken);
    }

    /// The name of each budget under a key.
    fn names(&self, writer: &Writer, key: &str) -> BTreeMap<&str, LabelSet> {
        let names: BTreeSet<_> =
            self.view.summary.budgets.iter().map(|row| row.budget.as_str()).collect();
        names.into_iter().map(|name| (name, writer.labels([(key, name)]))).collect()
    }
}

/// What the samples of a window support.
fn verdicts(writer: &mut Writer, spoken: &[Labelled<'_>]) {
    let help = "1 under the verdict that the window's samples support";
    writer.family(Family::gauge("plimsoll_budget_verdict", help), |rows| {
        let verdicts =
            Verdict::ALL.map(|verdict| (verdict, rows.labels([("verdict", verdict.as_str())])));
        let verdicts = BTreeMap::from(verdicts);
        for ([name, scope], row) in spoken {
            rows.add(&[name, scope, &verdicts[&row.verdict]], Value::flag(true));
        }
    });
}

/// What it follows from.
fn figures(writer: &mut Writer, spoken: &[Labelled<'_>]) {
    let mut family = |name, help, of: fn(&BudgetRow) -> Option<Value>| {
        writer.family(Family::gauge(name, help), |rows| {
            let known = spoken.iter().filter_map(|(labels, row)| Some((labels, of(row)?)));
            known.for_each(|(labels, value)| rows.add(labels, value));
        });
    };
    let help = "Samples in the budget's window";
    family("plimsoll_budget_samples", help, |row| Some(Value::Count(row.samples)));
    let help = "Samples in the budget's window that are over its limit";
    family("plimsoll_budget_samples_over", help, |row| Some(Value::Count(row.over)));
    let help = "Samples of which nobody knows on which side of the limit they lie";
    family("plimsoll_budget_samples_unsure", help, |row| Some(Value::Count(row.unsure)));
    let help = "Share of the window's samples that are over the budget's limit";
    family("plimsoll_budget_over_ratio", help, share_over);
    let help = "The budget's quantile over its window";
    family("plimsoll_budget_value_seconds", help, |row| row.value_ns.map(Value::nanos));
    let help = "The least that this may be where producers' wide buckets leave it open";
    let name = "plimsoll_budget_value_low_seconds";
    family(name, help, |row| Some(Value::nanos(row.within_ns?.0)));
    let help = "The most that this may be where producers' wide buckets leave it open";
    let name = "plimsoll_budget_value_high_seconds";
    family(name, help, |row| Some(Value::nanos(row.within_ns?.1)));
    let help = "Lower confidence bound of that quantile; a breach has it above the limit";
    family("plimsoll_budget_lower_bound_seconds", help, |row| row.lower_ns.map(Value::nanos));
    let help = "Upper confidence bound of that quantile; an alert clears with it within the limit";
    family("plimsoll_budget_upper_bound_seconds", help, |row| row.upper_ns.map(Value::nanos));
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
fn share_over(row: &BudgetRow) -> Option<Value> {
    (row.samples > 0).then(|| Value::Float(row.over as f64 / row.samples as f64))
}

/// How much of the fleet is in its windows.
fn completeness(writer: &mut Writer, spoken: &[Labelled<'_>]) {
    let mut family = |name, help, of: fn(&BudgetRow) -> u64| {
        writer.family(Family::gauge(name, help), |rows| {
            for (labels, row) in spoken.iter().filter(|(_, row)| row.scope == Scope::Fleet) {
                rows.add(labels, Value::Count(of(row)));
            }
        });
    };
    let help = "Nodes whose samples are in the budget's window";
    family("plimsoll_budget_nodes", help, |row| row.completeness.0);
    let help = "Nodes that have not left and ever had a sample that the budget judges";
    family("plimsoll_budget_nodes_expected", help, |row| row.completeness.1);
    let help = "Of these, nodes heard within the window whose newest sample is older than it";
    family("plimsoll_budget_nodes_late", help, |row| row.nodes_late);
}

/// Counts without end, for whoever works out shares over times of his own. Another limit is
/// another series, since what lay over it before it was known has not been counted.
fn since_limits(writer: &mut Writer, all: &[Labelled<'_>]) {
    let mut family = |name, family_type, help, of: fn((u64, u64)) -> u64| {
        writer.family(Family { name, family_type, help }, |rows| {
            for ([name, scope], row) in all {
                if let Some(since) = row.since_limit {
                    let limit = seconds(row.limit_ns).to_string();
                    let limit = rows.labels([("limit", limit.as_str())]);
                    rows.add(&[name, scope, &limit], Value::Count(of(since)));
                }
            }
        });
    };
    let help = "Samples since the budget has this limit, in seconds";
    let (name, beside) = ("plimsoll_budget_samples_total", FamilyType::CounterBeside);
    family(name, beside, help, |(samples, _)| samples);
    let help = "Samples over the limit since the budget has it";
    let name = "plimsoll_budget_over_samples_total";
    family(name, FamilyType::Counter, help, |(_, over)| over);
}

fn scope(writer: &Writer, row: &BudgetRow) -> LabelSet {
    writer.labels([
        ("scope", row.scope.as_str()),
        ("node", row.scope.node()),
        ("operation", &row.operation),
    ])
}
