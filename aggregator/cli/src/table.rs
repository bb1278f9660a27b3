//! A summary as a table for a terminal: budgets with their headroom, then nodes.

use std::fmt::Write;

use plimsoll_schemas::alert::{AlertState, Scope};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::summary::{BudgetRow, OperationRow, Summary, Verdict};

/// The table's window: long enough for a quantile, short enough to see change.
const SHOWN: Window = Window::TenSeconds;

/// Budgets and nodes, a line each. Rates are those since `before`, an earlier summary.
#[must_use]
pub fn table(summary: &Summary, before: Option<&Summary>) -> String {
    let mut text = format!(
        "{:<14} {:<8} {:>9} {:>9} {:>13} {:>9} {:>10}  STATE\n",
        "OPERATION", "SCOPE", "P50 ms", "P99 ms", "BUDGET", "HEADROOM", "SAMPLES/s"
    );
    for row in &summary.operations {
        let budget = summary
            .budgets
            .iter()
            .find(|budget| budget.operation == row.operation && budget.scope == row.scope);
        operation_line(&mut text, row, budget, rate(summary, before, row));
    }
    // Writing to a string cannot fail.
    let _written = writeln!(
        text,
        "\n{:<14} {:>8} {:>8} {:>8} {:>11} {:>11} {:>7}",
        "NODE", "STATE", "OUTBOX", "DROPS", "RECORDED", "MERGED", "HELD"
    );
    for node in &summary.nodes {
        let _written = writeln!(
            text,
            "{:<14} {:>8} {:>8} {:>8} {:>11} {:>11} {:>7}",
            node.node,
            node.presence.as_str(),
            node.outbox_messages_max,
            node.dropped,
            node.ledger.recorded,
            node.ledger.merged,
            node.ledger.held.saturating_add(node.ledger.unaccounted)
        );
    }
    text
}

/// Samples a second; `None` as long as there is nothing to compare with.
#[expect(clippy::cast_precision_loss, reason = "counts of a few seconds")]
fn rate(summary: &Summary, before: Option<&Summary>, row: &OperationRow) -> Option<f64> {
    let before = before?;
    let same =
        |earlier: &&OperationRow| earlier.operation == row.operation && earlier.scope == row.scope;
    let earlier = before.operations.iter().find(same)?;
    let seconds = summary.at_seconds - before.at_seconds;
    let grown = row.total.count.saturating_sub(earlier.total.count) as f64;
    (seconds > 0.0).then_some(grown / seconds)
}

fn operation_line(
    text: &mut String,
    row: &OperationRow,
    budget: Option<&BudgetRow>,
    rate: Option<f64>,
) {
    let Some(shown) = row.windows.get(&SHOWN).map(|window| &window.quantiles) else { return };
    let scope = match &row.scope {
        Scope::Fleet => "fleet",
        Scope::Node(node) => node.as_str(),
    };
    let (limit, headroom, state) = budget.map_or_else(Default::default, budget_cells);
    let rate = rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let _written = writeln!(
        text,
        "{:<14} {:<8} {:>9} {:>9} {:>13} {:>9} {:>10}  {}",
        row.operation,
        scope,
        milliseconds(shown.p50_ns),
        milliseconds(shown.p99_ns),
        limit,
        headroom,
        rate,
        state
    );
}

fn budget_cells(budget: &BudgetRow) -> (String, String, &'static str) {
    let percent = budget.quantile * 100.0;
    let limit = format!("p{percent:.0} <= {}", milliseconds(Some(budget.limit_ns)));
    let headroom = budget.value_ns.map_or_else(
        || "-".to_owned(),
        |value| format!("{:.0} %", (1.0 - ratio(value, budget.limit_ns)) * 100.0),
    );
    let state = match (budget.alert, budget.verdict) {
        (AlertState::Firing, _) => "FIRING",
        (AlertState::Pending, _) => "pending",
        (_, Verdict::Insufficient) => "too few samples",
        (_, Verdict::Breach) => "breach",
        (_, Verdict::Within) => "within",
    };
    (limit, headroom, state)
}

#[expect(clippy::cast_precision_loss, reason = "latencies are below an hour")]
fn ratio(value: u64, of: u64) -> f64 {
    value as f64 / of as f64
}

fn milliseconds(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ratio(ns, 1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_in_the_words_of_the_project() {
        let nothing = Summary {
            mesh: "m".into(),
            version: "0".into(),
            at_seconds: 0.0,
            ready: true,
            broker: "jetstream".into(),
            nodes: Vec::new(),
            operations: Vec::new(),
            budgets: Vec::new(),
            changes: Vec::new(),
        };
        let table = table(&nothing, None);
        let heading = table.lines().last().unwrap();
        let names: Vec<&str> = heading.split_whitespace().collect();
        assert_eq!(names, ["NODE", "STATE", "OUTBOX", "DROPS", "RECORDED", "MERGED", "HELD"]);
    }
}
