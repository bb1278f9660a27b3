//! The families about the files that rules come from.

use super::writer::{Family, NONE, Value, Writer};
use crate::core::view::View;

pub(super) fn write(writer: &mut Writer, view: &View) {
    let figures = &view.rule_files;
    let help = "Times that files of rules were read again, by what came of it";
    writer.family(Family::counter("plimsoll_rules_reload_total", help), |rows| {
        let outcomes = [
            ("loaded", figures.loaded),
            ("unchanged", figures.unchanged),
            ("refused", figures.refused),
        ];
        for (outcome, n) in outcomes {
            rows.add(&[&rows.labels([("outcome", outcome)])], Value::Count(n));
        }
    });
    let mut single = |name, help, value| {
        writer.family(Family::gauge(name, help), |rows| rows.add(&[NONE], value));
    };
    let help = "When files of rules were last read that were right, since 1970";
    let at = Value::nanos(figures.loaded_at.0);
    single("plimsoll_rules_loaded_timestamp_seconds", help, at);
    let help = "1 while files of rules are wrong and the rules of before are kept";
    single("plimsoll_rules_stale", help, Value::flag(figures.error.is_some()));
    let help = "1 for a budget that no sample has matched though samples have come for minutes";
    writer.family(Family::gauge("plimsoll_budget_unmatched", help), |rows| {
        for (budget, unmatched) in &view.unmatched {
            let labels = rows.labels([("budget", budget.as_str())]);
            rows.add(&[&labels], Value::flag(*unmatched));
        }
    });
}
