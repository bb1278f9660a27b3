//! A file of rules as users write it.

use std::collections::BTreeSet;

use plimsoll_schemas::rule::file::load;
use plimsoll_schemas::rule::{Rules, Text};
use toml::{Table, Value};

/// The rules that the text names, and no others.
pub(crate) fn parse(text: &str) -> Rules {
    let file = Text::new("the case", text.into()).unwrap();
    let mut rules = load(&[], vec![file], 1, &mut |_| Err("no file".to_owned())).unwrap();
    let tables: Table = text.parse().unwrap();
    let lists = ["budget", "rule"].into_iter().filter_map(|kind| tables.get(kind)?.as_array());
    let names = lists.flatten().filter_map(|table: &Value| table.get("name")?.as_str());
    let named: BTreeSet<&str> = names.collect();
    rules.budgets.retain(|budget| named.contains(budget.name.as_str()));
    rules.thresholds.retain(|threshold| named.contains(threshold.name.as_str()));
    rules
}
