//! A file of rules as users write it.

use plimsoll_schemas::rule::file::load;
use plimsoll_schemas::rule::{RuleText, Rules};

/// The rules that the text names, and no others.
pub(crate) fn parse(text: &str, time_scale: u32) -> Rules {
    let file = RuleText::new("case.toml", text.into()).unwrap();
    let mut rules = load(&[], vec![file], time_scale, &mut |_| Err("there are none".to_owned()))
        .unwrap_or_else(|why| panic!("{why}"));
    let named: toml::Table = text.parse().unwrap();
    let names = |kind: &str, name: &str| {
        let all = named.get(kind).and_then(toml::Value::as_array).into_iter().flatten();
        all.filter_map(|one| one.get("name")?.as_str()).any(|one| one == name)
    };
    rules.budgets.retain(|budget| names("budget", budget.name.as_str()));
    rules.thresholds.retain(|threshold| names("rule", threshold.name.as_str()));
    rules.stragglers.retain(|straggler| names("straggler", straggler.name.as_str()));
    rules
}
