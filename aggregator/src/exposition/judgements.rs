//! The families about budgets and alerts. An alert outlives the silence of its node; the figures
//! that a silent node's windows no longer hold do not.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::summary::{BudgetRow, Verdict};

use super::families::Page;
use super::writer::{Family, LabelSet, Value, Writer};

impl Page<'_> {
    pub(super) fn judgements(&self, writer: &mut Writer) {
        let scopes: Vec<_> =
            self.view.summary.budgets.iter().map(|row| scope(writer, row)).collect();
        let names = self.names(writer, "budget");
        let all = || {
            let rows = scopes.iter().zip(&self.view.summary.budgets);
            rows.map(|(scope, row)| ([&names[row.budget.as_str()], scope], row))
        };
        let spoken = || all().filter(|(_, row)| !self.sets.quiet.contains(row.scope.node()));
        let help = "Alert state: 0 inactive, 1 pending, 2 firing, 3 resolved";
        writer.family(Family::gauge("plimsoll_budget_state", help), |rows| {
            for (labels, row) in all() {
                rows.add(&labels, Value::Count(row.alert.as_number().into()));
            }
        });
        let help = "1 under the verdict that the window's samples support";
        writer.family(Family::gauge("plimsoll_budget_verdict", help), |rows| {
            let verdicts =
                Verdict::ALL.map(|verdict| (verdict, rows.labels([("verdict", verdict.as_str())])));
            let verdicts = BTreeMap::from(verdicts);
            for ([name, scope], row) in spoken() {
                rows.add(&[name, scope, &verdicts[&row.verdict]], Value::flag(true));
            }
        });
        let help = "Samples in the budget's window";
        writer.family(Family::gauge("plimsoll_budget_samples", help), |rows| {
            spoken().for_each(|(labels, row)| rows.add(&labels, Value::Count(row.samples)));
        });
        let mut bound = |name, help, of: fn(&BudgetRow) -> Option<u64>| {
            writer.family(Family::gauge(name, help), |rows| {
                let known = spoken().filter_map(|(labels, row)| Some((labels, of(row)?)));
                known.for_each(|(labels, ns)| rows.add(&labels, Value::nanos(ns)));
            });
        };
        let help = "The budget's quantile over its window";
        bound("plimsoll_budget_value_seconds", help, |row| row.value_ns);
        let help = "Lower confidence bound of that quantile; a breach has it above the limit";
        bound("plimsoll_budget_lower_bound_seconds", help, |row| row.lower_ns);
    }

    /// The name of each budget under a key.
    fn names(&self, writer: &Writer, key: &str) -> BTreeMap<&str, LabelSet> {
        let names: BTreeSet<_> =
            self.view.summary.budgets.iter().map(|row| row.budget.as_str()).collect();
        names.into_iter().map(|name| (name, writer.labels([(key, name)]))).collect()
    }
}

fn scope(writer: &Writer, row: &BudgetRow) -> LabelSet {
    writer.labels([
        ("scope", row.scope.as_str()),
        ("node", row.scope.node()),
        ("operation", &row.operation),
    ])
}
