//! The files that rules come from: reloads, their result, and budgets that match no sample.

use crate::core::view::View;
use crate::exposition::writer::{Family, Value, Writer};

pub(super) fn write(writer: &mut Writer, view: &View) {
    let files = &view.own.rule_files;
    let help = "Reloads of the rule files, by outcome";
    let outcomes =
        [("loaded", files.loaded), ("unchanged", files.unchanged), ("refused", files.refused)];
    writer.by_label(Family::counter("plimsoll_rules_reloads_total", help), "outcome", outcomes);
    let help = "Time of the last successful read of the rule files";
    let name = "plimsoll_rules_loaded_timestamp_seconds";
    writer.gauge(name, help, Value::nanos(files.loaded_at.0));
    let help = "1 while the rule files are invalid and the previous rules stay active";
    writer.gauge("plimsoll_rules_invalid", help, files.error.is_some());
    let help = "1 for a budget that no sample has matched in minutes of samples, otherwise 0";
    let unmatched = view.unmatched.iter().map(|(budget, is_so)| (budget.as_str(), *is_so));
    writer.by_label(Family::gauge("plimsoll_budget_unmatched", help), "budget", unmatched);
    let help = "1 for a budget that has had too few samples to judge for 15 minutes, some of them \
                over its limit, otherwise 0";
    let few = view.insufficient.iter().map(|(budget, is_so)| (budget.as_str(), *is_so));
    writer.by_label(Family::gauge("plimsoll_budget_insufficient", help), "budget", few);
    let help = "1 for an operation with a budget of which samples stopped although its jobs have not \
                ended, otherwise 0";
    let absent = view.absence.iter().map(|(operation, is_so)| (operation.as_str(), *is_so));
    writer.by_label(Family::gauge("plimsoll_operation_absent", help), "operation", absent);
}
