//! One latency budget: which operation, at which quantile, within which limit.

use super::window::Window;
use crate::annotations::RuleAnnotations;
use crate::ids::{Labels, Operation, RuleName};
use crate::scope::Scopes;
use crate::unit::Unit;

/// A latency budget: a quantile of an operation must stay within a limit over a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Its name, and that of its rule.
    pub name: RuleName,
    /// The operation.
    pub operation: Operation,
    /// Which of its samples; by default all.
    pub selector: Selector,
    /// Between 0 and 1, both excluded.
    pub quantile: f64,
    /// The largest value that the quantile may have, as a whole number of its operation's unit.
    pub limit_ns: u64,
    /// The window that is evaluated.
    pub window: Window,
    /// Least number of samples that show a breach.
    pub min_samples: u64,
    /// Confidence of the bounds that are shown beside the quantile; 0.5 to 1.
    pub confidence: f64,
    /// Consecutive evaluations with a breach before the alert fires.
    pub fire_after: u32,
    /// Consecutive evaluations within the limit before the alert resolves.
    pub clear_after: u32,
    /// The share of samples that must stay within the limit over thirty days; `None` where
    /// there is no error budget.
    pub objective: Option<f64>,
    /// The scopes in which it is evaluated.
    pub scopes: Scopes,
    /// Whether no file of the user names it: a mesh may have none of its operation.
    pub is_built_in: bool,
    /// Severity, receivers, runbook and summary.
    pub about: RuleAnnotations,
}

impl Budget {
    /// The unit of its limit and of the values that it judges.
    #[must_use]
    pub fn unit(&self) -> Unit {
        Unit::of(self.operation.as_str())
    }

    /// The share of samples that may exceed the limit, in millionths: 10 000 for a p99.
    #[must_use]
    pub fn allowed_ppm(&self) -> u32 {
        const WHOLE: f64 = 1e6;
        let allowed = ((1.0 - self.quantile) * WHOLE).round().clamp(0.0, WHOLE);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let allowed = allowed as u32;
        allowed
    }
}

/// Which samples of an operation a budget is about: those whose series and whose node have these
/// labels. An empty value also matches if there is no such label.
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
