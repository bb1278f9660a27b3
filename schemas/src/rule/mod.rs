//! What is judged: budgets, their error budgets, and thresholds on whatever else the mesh knows.
//! Every alert follows from one rule, and its rule says what it is worth to whom.

mod advice;
mod drafts;
mod fault;
pub mod file;
mod table;
#[cfg(test)]
mod tests;
mod values;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::alert::{AlertKey, Scope};
use crate::budget::{Budget, Burn};
use crate::ids::{Labels, RuleName};

pub use drafts::{BUDGET_KEYS, RULE_KEYS};
pub use fault::{RuleError, Tables, Text};

/// All rules of one aggregator. No two have the same name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// How long operations may take.
    pub budgets: Vec<Budget>,
    /// What must not be exceeded, undercut or reached.
    pub thresholds: Vec<Threshold>,
    /// By how much the windows of error budgets are shortened, for drills; 1 leaves them. Each
    /// becomes the nearest window that is kept.
    pub time_scale: u32,
}

/// How bad it is when a rule's alert fires.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// To be looked at during the day.
    #[default]
    Warning,
    /// To be looked at now.
    Critical,
}

impl Severity {
    /// The severity as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// What a rule says to people about its alerts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// How bad it is.
    pub severity: Severity,
    /// Names of the receivers that are told; none for all.
    #[serde(default)]
    pub routes: Vec<String>,
    /// Where it stands what to do.
    #[serde(default)]
    pub runbook: Option<String>,
    /// What it means, in one line.
    #[serde(default)]
    pub summary: Option<String>,
}

/// Whom a rule watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scopes {
    /// All nodes together.
    pub fleet: bool,
    /// Each node.
    pub nodes: bool,
}

impl Scopes {
    /// The fleet and each node.
    pub const ALL: Self = Self { fleet: true, nodes: true };

    /// Whether a scope is watched.
    #[must_use]
    pub const fn holds(self, scope: &Scope) -> bool {
        match scope {
            Scope::Fleet => self.fleet,
            Scope::Node(_) => self.nodes,
        }
    }
}

/// How a value is compared with its threshold; strictly, but for [`Self::Equal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// Above it.
    Greater,
    /// Below it.
    Less,
    /// Exactly it.
    Equal,
}

impl Comparison {
    /// Whether a value is what the rule warns of.
    #[must_use]
    #[expect(clippy::float_cmp, reason = "equal means equal: states and counts are whole numbers")]
    pub fn holds(self, value: f64, threshold: f64) -> bool {
        match self {
            Self::Greater => value > threshold,
            Self::Less => value < threshold,
            Self::Equal => value == threshold,
        }
    }
}

impl Comparison {
    /// The comparison as a label, and its key in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Greater => "greater",
            Self::Less => "less",
            Self::Equal => "equal",
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Greater => ">",
            Self::Less => "<",
            Self::Equal => "=",
        })
    }
}

/// A metric and what it must not come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The rule.
    pub name: RuleName,
    /// What is compared; see [`crate::metric`].
    pub metric: crate::metric::Metric,
    /// Of these labels alone; of several values that fit the worst counts.
    pub labels: Labels,
    /// How.
    pub comparison: Comparison,
    /// With what, in the metric's unit.
    pub value: f64,
    /// Evaluations in a row, one a second, that must find it so before the alert fires.
    pub fire_after: u32,
    /// Evaluations in a row that must not before it resolves.
    pub clear_after: u32,
    /// What it says to people.
    pub about: About,
}

/// One rule, whatever it watches.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule<'a> {
    /// A budget's quantile.
    Budget(&'a Budget),
    /// A budget's error budget at one pace.
    Burn(&'a Budget, Burn),
    /// Anything else.
    Threshold(&'a Threshold),
}

impl<'a> Rule<'a> {
    /// What it says to people.
    #[must_use]
    pub fn about(&self) -> &'a About {
        match self {
            Self::Budget(budget) | Self::Burn(budget, _) => &budget.about,
            Self::Threshold(threshold) => &threshold.about,
        }
    }

    /// Labels that it is about, of the series, and those of the node where they are told apart.
    #[must_use]
    pub fn selects(&self) -> (Labels, Labels) {
        match self {
            Self::Budget(budget) | Self::Burn(budget, _) => {
                (budget.selector.series.clone(), budget.selector.nodes.clone())
            }
            Self::Threshold(threshold) => (threshold.labels.clone(), Labels::default()),
        }
    }

    /// How bad its alerts are.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::Burn(_, burn) => burn.severity,
            Self::Budget(_) | Self::Threshold(_) => self.about().severity,
        }
    }
}

impl Rules {
    /// The rule of this name.
    #[must_use]
    pub fn find(&self, name: &RuleName) -> Option<Rule<'_>> {
        let budget = self.budgets.iter().find(|budget| budget.name == *name).map(Rule::Budget);
        let burn = || {
            let mut burns = self.budgets.iter().flat_map(|budget| {
                budget.burns(self.time_scale).into_iter().map(move |burn| (budget, burn))
            });
            let found = burns.find(|(budget, burn)| burn.rule(budget) == *name);
            found.map(|(budget, burn)| Rule::Burn(budget, burn))
        };
        let threshold = || {
            let mut thresholds = self.thresholds.iter();
            thresholds.find(|threshold| threshold.name == *name).map(Rule::Threshold)
        };
        budget.or_else(burn).or_else(threshold)
    }

    /// Whether a rule still is about what an alert is about: its operation, its scope.
    #[must_use]
    pub fn watch(&self, key: &AlertKey) -> bool {
        match self.find(&key.rule) {
            Some(Rule::Budget(budget)) => {
                budget.operation == key.operation && budget.scopes.holds(&key.scope)
            }
            Some(Rule::Burn(budget, _)) => {
                budget.operation == key.operation && key.scope == Scope::Fleet
            }
            Some(Rule::Threshold(threshold)) => threshold.metric.operation() == key.operation,
            None => false,
        }
    }
}

impl From<Vec<Budget>> for Rules {
    /// Budgets and nothing else.
    fn from(budgets: Vec<Budget>) -> Self {
        Self { budgets, thresholds: Vec::new(), time_scale: 1 }
    }
}
