//! Budgets on real processes: nodes learn limits and count exactly over them, files of rules are
//! taken while everything runs, and people keep receivers quiet with the operator's command.

#[path = "mesh_budgets/exact.rs"]
mod exact;
#[path = "mesh_budgets/people.rs"]
mod people;
#[path = "mesh_budgets/reload.rs"]
mod reload;
#[path = "mesh_budgets/selector.rs"]
mod selector;

use std::path::Path;

use anyhow::Result;
use plimsoll_mesh::api::Api;
use plimsoll_schemas::summary::{BudgetRow, Summary};
use plimsoll_tests::page::shown;

/// One line with so many samples of one value, in milliseconds.
fn line(operation: &str, ms: &str, samples: usize) -> String {
    format!("{operation}{}|ms", format!(":{ms}").repeat(samples))
}

/// A budget judged for a node, or for the fleet when `node` is empty.
fn budget<'a>(summary: &'a Summary, name: &str, node: &str) -> Option<&'a BudgetRow> {
    summary.budgets.iter().find(|row| row.budget == name && row.scope.node() == node)
}

/// Waits until a node counts what is over a limit.
async fn knows(node: &Api, operation: &str, limit_seconds: &str) -> Result<()> {
    let series = format!(
        "plimsoll_agent_limit_info{{limit_seconds=\"{limit_seconds}\",operation=\"{operation}\"}}"
    );
    shown(node, &series, 1.0).await
}

/// Writes a file of rules, and gives the settings that name it.
fn rules_file(dir: &Path, text: &str) -> Result<String> {
    let path = dir.join("rules.toml");
    std::fs::write(&path, text)?;
    Ok(format!("[rules]\nfiles = [{:?}]\n", path.display().to_string()))
}
