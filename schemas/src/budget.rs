//! Budgets: how long an operation may take, at which quantile, over which window.

mod burn;
mod window;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::{Labels, Operation, RuleName};
use crate::limits::aggregator::BUDGETS_MAX;
use crate::rule::{About, Scopes};
use crate::time::nanos;

pub use burn::{Burn, PACES, Pace};
pub use window::Window;

/// The three budgets that every mesh judges unless a configuration says otherwise.
pub const BUILT_IN: &str = include_str!("budget/built_in.toml");

/// An operation, a quantile, a limit and a window: what may not be exceeded.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Also the name of the rule that watches it.
    pub name: RuleName,
    /// The operation.
    pub operation: Operation,
    /// Which of its samples; all where nothing is said.
    pub selector: Selector,
    /// Between 0 and 1, both excluded.
    pub quantile: f64,
    /// The quantile may reach this and must not pass it; nanoseconds.
    pub limit_ns: u64,
    /// The window that is judged.
    pub window: Window,
    /// Fewer samples than this are no evidence.
    pub min_samples: u64,
    /// How sure a breach must be that the true quantile is above the limit; 0.5 to 1.
    pub confidence: f64,
    /// Evaluations in a row that must find a breach before the alert fires.
    pub fire_after: u32,
    /// Evaluations in a row that must show it to be kept before it resolves.
    pub clear_after: u32,
    /// The share of samples that must stay within the limit over thirty days; `None` where
    /// there is no error budget.
    pub objective: Option<f64>,
    /// Whom it watches.
    pub scopes: Scopes,
    /// What it says to people.
    pub about: About,
}

/// Which samples of an operation a budget is about: those whose series and whose node have
/// these labels. An empty value also fits where there is no such label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Labels of the series.
    pub series: Labels,
    /// Labels of the node.
    pub nodes: Labels,
}

impl Selector {
    /// Whether all samples are selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.series.is_empty() && self.nodes.is_empty()
    }

    /// Whether samples of a series with these labels, of a node with those, are selected.
    #[must_use]
    pub fn selects(&self, series: &Labels, node: &Labels) -> bool {
        let fits = |wanted: &Labels, there: &Labels| {
            wanted.iter().all(|(key, value)| there.get(key).unwrap_or_default() == value)
        };
        fits(&self.series, series) && fits(&self.nodes, node)
    }
}

/// One `[[budget]]` of a configuration; what is left out keeps the value of the budget of the
/// same name that it overrides, or the default.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(default)]
pub struct BudgetEntry {
    /// Which budget; a built-in name overrides that budget.
    pub name: String,
    /// The operation to judge.
    pub operation: Option<String>,
    /// Between 0 and 1, both excluded.
    pub quantile: Option<f64>,
    /// A duration such as `18ms`.
    #[serde(with = "humantime_option")]
    pub limit: Option<Duration>,
    /// One of [`Window::ALL`], such as `5m`; default `1m`.
    pub window: Option<Window>,
    /// Default 100.
    pub min_samples: Option<u64>,
    /// Default 0.95.
    pub confidence: Option<f64>,
    /// Default 3.
    pub fire_after: Option<u32>,
    /// Default 3.
    pub clear_after: Option<u32>,
    /// Default true; false removes the budget.
    pub enabled: Option<bool>,
}

mod humantime_option {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "the shape that serde asks for")]
    pub(super) fn serialize<S: Serializer>(
        limit: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match limit {
            Some(limit) => serializer.collect_str(&humantime::format_duration(*limit)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map(Some).map_err(|error| {
            serde::de::Error::custom(format!("{text:?} is no duration such as \"18ms\": {error}"))
        })
    }
}

/// Why a set of budgets was refused; names the budget, the key and the fix.
#[derive(Debug, Error, PartialEq)]
#[error("budget {budget:?}: {problem}")]
pub struct BudgetError {
    /// The budget at fault.
    pub budget: String,
    /// The key at fault and what it should be.
    pub problem: String,
}

/// Lays `entries` over the built-in budgets, by name, and checks the result.
///
/// # Errors
/// On the first budget that lacks a key or holds one out of range.
pub fn effective(entries: &[BudgetEntry]) -> Result<Vec<Budget>, BudgetError> {
    let mut merged = built_in();
    for entry in entries {
        match merged.iter_mut().find(|known| known.name == entry.name) {
            Some(known) => overlay(known, entry),
            None => merged.push(entry.clone()),
        }
    }
    if merged.len() > BUDGETS_MAX {
        let problem = format!("{} budgets, more than {BUDGETS_MAX}", merged.len());
        return Err(BudgetError { budget: String::new(), problem });
    }
    merged.iter().filter(|entry| entry.enabled != Some(false)).map(check).collect()
}

fn built_in() -> Vec<BudgetEntry> {
    #[derive(Deserialize)]
    struct File {
        budget: Vec<BudgetEntry>,
    }
    let file: File = toml::from_str(BUILT_IN).expect("the shipped budget file is valid");
    file.budget
}

fn overlay(known: &mut BudgetEntry, entry: &BudgetEntry) {
    let entry = entry.clone();
    known.operation = entry.operation.or(known.operation.take());
    known.quantile = entry.quantile.or(known.quantile);
    known.limit = entry.limit.or(known.limit);
    known.window = entry.window.or(known.window);
    known.min_samples = entry.min_samples.or(known.min_samples);
    known.confidence = entry.confidence.or(known.confidence);
    known.fire_after = entry.fire_after.or(known.fire_after);
    known.clear_after = entry.clear_after.or(known.clear_after);
    known.enabled = entry.enabled.or(known.enabled);
}

fn check(entry: &BudgetEntry) -> Result<Budget, BudgetError> {
    let wrong = |problem: String| BudgetError { budget: entry.name.clone(), problem };
    let missing = |key: &str| wrong(format!("{key} is missing"));
    let operation = entry.operation.as_deref().ok_or_else(|| missing("operation"))?;
    let budget = Budget {
        name: RuleName::new(&entry.name).map_err(|error| wrong(format!("name: {error}")))?,
        operation: Operation::new(operation)
            .map_err(|error| wrong(format!("operation: {error}")))?,
        quantile: entry.quantile.ok_or_else(|| missing("quantile"))?,
        limit_ns: nanos(entry.limit.ok_or_else(|| missing("limit"))?),
        window: entry.window.unwrap_or(Window::OneMinute),
        min_samples: entry.min_samples.unwrap_or(100),
        confidence: entry.confidence.unwrap_or(0.95),
        fire_after: entry.fire_after.unwrap_or(3),
        clear_after: entry.clear_after.unwrap_or(3),
        selector: Selector::default(),
        objective: None,
        scopes: Scopes::ALL,
        about: About::default(),
    };
    let hour = nanos(Duration::from_secs(3_600));
    let ranges = [
        ("quantile must lie between 0 and 1", budget.quantile > 0.0 && budget.quantile < 1.0),
        ("limit must lie between 1us and 1h", (1_000..=hour).contains(&budget.limit_ns)),
        ("min_samples must be at least 1", budget.min_samples >= 1),
        ("confidence must lie between 0.5 and 1", (0.5..1.0).contains(&budget.confidence)),
        ("fire_after must be at least 1", budget.fire_after >= 1),
        ("clear_after must be at least 1", budget.clear_after >= 1),
    ];
    match ranges.into_iter().find(|(_, right)| !right) {
        Some((problem, _)) => Err(wrong(problem.to_owned())),
        None => Ok(budget),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> BudgetEntry {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_three_built_in_budgets_have_the_agreed_limits() {
        let budgets = effective(&[]).unwrap();
        let agreed: Vec<(&str, f64, u64)> = budgets
            .iter()
            .map(|budget| (budget.name.as_str(), budget.quantile, budget.limit_ns))
            .collect();
        assert_eq!(
            agreed,
            [
                ("epoch_hook", 0.99, 18_000_000),
                ("kernel_fetch", 0.5, 10_000_000),
                ("publish", 0.99, 25_000_000),
            ]
        );
    }

    #[test]
    fn an_entry_overrides_only_what_it_states() {
        let budgets =
            effective(&[entry("name = 'epoch_hook'\nlimit = '5ms'\nwindow = '10s'")]).unwrap();
        assert_eq!(budgets[0].limit_ns, 5_000_000);
        assert_eq!(budgets[0].window, Window::TenSeconds);
        assert_eq!(budgets[0].quantile, 0.99);
    }

    #[test]
    fn a_disabled_budget_is_gone() {
        let budgets = effective(&[entry("name = 'epoch_hook'\nenabled = false")]).unwrap();
        assert!(budgets.iter().all(|budget| budget.name.as_str() != "epoch_hook"));
        assert_eq!(budgets.len(), 2);
    }

    #[test]
    fn a_wrong_budget_is_refused_by_key() {
        for (text, problem) in [
            ("name = 'x'\nquantile = 0.5\nlimit = '1ms'", "operation is missing"),
            ("name = 'x'\noperation = 'x'\nlimit = '1ms'", "quantile is missing"),
            ("name = 'x'\noperation = 'x'\nquantile = 0.5", "limit is missing"),
            ("name = 'publish'\nquantile = 1.0", "quantile must lie between 0 and 1"),
            ("name = 'publish'\nlimit = '2h'", "limit must lie between 1us and 1h"),
            ("name = 'publish'\nmin_samples = 0", "min_samples must be at least 1"),
            ("name = 'publish'\nconfidence = 1.0", "confidence must lie between 0.5 and 1"),
        ] {
            assert_eq!(effective(&[entry(text)]).unwrap_err().problem, problem, "{text}");
        }
        assert!(toml::from_str::<BudgetEntry>("name = 'x'\nlimit = '18'").is_err());
    }
}
