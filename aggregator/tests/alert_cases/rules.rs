//! A file of rules as users write it.

use plimsoll_schemas::budget::{BudgetEntry, effective};
use plimsoll_schemas::rule::Rules;
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    budget: Vec<BudgetEntry>,
}

/// The rules that the text names, and no others.
pub(crate) fn parse(text: &str) -> Rules {
    let file: File = toml::from_str(text).unwrap();
    let mut budgets = effective(&file.budget).unwrap();
    budgets.retain(|budget| file.budget.iter().any(|named| budget.name == named.name));
    budgets.into()
}
