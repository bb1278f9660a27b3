//! Budgets on real processes: nodes receive limits and count exactly over them, and operators
//! silence receivers with the command-line tool.

mod exact;
mod people;
mod priority;

use std::path::Path;

use anyhow::Result;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::summary::{BudgetRow, Summary};
use plimsoll_tests::metrics_page::await_value;

/// One line with this number of samples of one value, in milliseconds.
fn line(operation: &str, ms: &str, samples: usize) -> String {
    format!("{operation}{}|ms", format!(":{ms}").repeat(samples))
}

/// A budget judged for a node, or for the fleet when `node` is empty.
fn budget<'a>(summary: &'a Summary, name: &str, node: &str) -> Option<&'a BudgetRow> {
    summary.budgets.iter().find(|row| row.budget == name && row.scope.node() == node)
}

/// Waits until a node counts the samples over a limit.
async fn await_limit(node: &Api, operation: &str, limit_seconds: &str) -> Result<()> {
    let series = format!(
        "plimsoll_agent_limit_info{{limit_seconds=\"{limit_seconds}\",operation=\"{operation}\"}}"
    );
    await_value(node, &series, 1.0).await
}

/// Writes a rule file and returns the settings that name it.
fn rules_file(dir: &Path, text: &str) -> Result<String> {
    let path = dir.join("rules.toml");
    std::fs::write(&path, text)?;
    Ok(format!("[rules]\nfiles = [{:?}]\n", path.display().to_string()))
}
