//! Budgets: how long an operation may take, at which quantile, over which window.

mod burn;
mod window;

use crate::ids::{Labels, Operation, RuleName};
use crate::rule::file::load;
use crate::rule::{About, RuleError, Scopes, Text};

pub use burn::{Burn, PACES, Pace};
pub use window::Window;

/// The three budgets that every mesh judges unless a configuration says otherwise.
pub const BUILT_IN: &str = include_str!("built_in.toml");

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

/// The budgets that come of files with these texts, laid over the built-in ones.
///
/// # Errors
/// When a text is not right.
pub fn effective(texts: &[&str]) -> Result<Vec<Budget>, RuleError> {
    let of = |text: &&str| Text::new("a text", text.as_bytes().to_vec());
    let texts = texts.iter().map(of).collect::<Result<_, _>>()?;
    let budgets = load(&[], texts, 1, &mut |_| Err("no file".to_owned()))?.budgets;
    Ok(budgets)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
