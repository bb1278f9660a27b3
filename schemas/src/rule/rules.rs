//! The rules of one aggregator, and how to find the one that an alert follows from.

use crate::annotations::{RuleAnnotations, Severity};
use crate::budget::{Budget, BurnRate, Window};
use crate::ids::{Labels, Operation, RuleName};
use crate::metric::{Comparison, Metric};
use crate::own_operations::is_own;
use crate::scope::{AlertKey, Scope, Scopes};
use crate::straggler::StragglerMethod;
use crate::urgency::DeclaredUrgency;

/// All rules of one aggregator. No two have the same name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Latency budgets.
    pub budgets: Vec<Budget>,
    /// Thresholds on metrics.
    pub thresholds: Vec<Threshold>,
    /// Peers that are slower than others.
    pub stragglers: Vec<Straggler>,
    /// What nodes send before other messages.
    pub urgent: Vec<DeclaredUrgency>,
    /// By how much the windows of error budgets are shortened, for drills; 1 leaves them. Each
    /// becomes the nearest window that is kept.
    pub time_scale: u32,
}

/// A threshold rule: it fires while a metric compares with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The rule.
    pub name: RuleName,
    /// What is compared; see [`Metric`].
    pub metric: Metric,
    /// Only values with these labels; of several, the one that the rule warns of most counts.
    pub labels: Labels,
    /// How.
    pub comparison: Comparison,
    /// With what, in the metric's unit.
    pub value: f64,
    /// Of the metric `regression:<operation>` what it is measured against; of others `None`.
    pub baseline: Option<Baseline>,
    /// Evaluations in a row, one a second, that must find it so before the alert fires.
    pub fire_after: u32,
    /// Evaluations in a row that must not before it resolves.
    pub clear_after: u32,
    /// Severity, receivers, runbook and summary.
    pub about: RuleAnnotations,
}

/// What a regression is measured against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// A file that `plimsoll compare --baseline save` wrote.
    pub path: String,
    /// The window up to now that is compared with it.
    pub window: Window,
}

/// A rule about stragglers: it fires while a peer is shown to be slower than the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Straggler {
    /// The rule.
    pub name: RuleName,
    /// The operation that spans a step; `None` for each that has phases with a class.
    pub operation: Option<Operation>,
    /// How the slow peer shows.
    pub method: StragglerMethod,
    /// The label whose values are the peers.
    pub by: String,
    /// Labels within which peers are comparable, beside the run of their samples.
    pub cohort: Vec<String>,
    /// Classes of a peer's own work.
    pub work: Vec<String>,
    /// Classes of waiting for other peers.
    pub wait: Vec<String>,
    /// Severity, receivers, runbook and summary.
    pub about: RuleAnnotations,
}

/// One rule, whatever it watches.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule<'a> {
    /// A budget's quantile.
    Budget(&'a Budget),
    /// A budget's error budget at one pace.
    Burn(&'a Budget, BurnRate),
    /// Anything else.
    Threshold(&'a Threshold),
    /// Peers that are slower than others.
    Straggler(&'a Straggler),
}

impl<'a> Rule<'a> {
    /// Severity, receivers, runbook and summary.
    #[must_use]
    pub fn about(&self) -> &'a RuleAnnotations {
        match self {
            Self::Budget(budget) | Self::Burn(budget, _) => &budget.about,
            Self::Threshold(threshold) => &threshold.about,
            Self::Straggler(straggler) => &straggler.about,
        }
    }

    /// The labels that it selects: of the series, and of the node.
    #[must_use]
    pub fn selects(&self) -> (Labels, Labels) {
        match self {
            Self::Budget(budget) | Self::Burn(budget, _) => {
                (budget.selector.series.clone(), budget.selector.nodes.clone())
            }
            Self::Threshold(threshold) => (threshold.labels.clone(), Labels::default()),
            Self::Straggler(_) => (Labels::default(), Labels::default()),
        }
    }

    /// Severity of its alerts. The error budget of an operation of the system's own is no more
    /// severe than the budget.
    ///
    /// DESIGN S28.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::Burn(budget, burn) if is_own(&budget.operation) => {
                burn.severity.min(budget.about.severity)
            }
            Self::Burn(_, burn) => burn.severity,
            Self::Budget(_) | Self::Threshold(_) | Self::Straggler(_) => self.about().severity,
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
                budget.burn_rates(self.time_scale).into_iter().map(move |burn| (budget, burn))
            });
            let found = burns.find(|(budget, burn)| burn.rule(budget) == *name);
            found.map(|(budget, burn)| Rule::Burn(budget, burn))
        };
        let threshold = || {
            let mut thresholds = self.thresholds.iter();
            thresholds.find(|threshold| threshold.name == *name).map(Rule::Threshold)
        };
        let straggler = || {
            let mut stragglers = self.stragglers.iter();
            stragglers.find(|straggler| straggler.name == *name).map(Rule::Straggler)
        };
        budget.or_else(burn).or_else(threshold).or_else(straggler)
    }

    /// The same rules for an aggregator that judges budgets in these scopes alone. One that is left
    /// with none is not judged; its limit is still one over which nodes count samples. Stragglers
    /// are found where samples have their nodes.
    #[must_use]
    pub fn within(mut self, scopes: Scopes) -> Self {
        for budget in &mut self.budgets {
            budget.scopes.fleet &= scopes.fleet;
            budget.scopes.nodes &= scopes.nodes;
            if !scopes.fleet {
                budget.objective = None;
            }
        }
        if !scopes.nodes {
            self.stragglers.clear();
        }
        self
    }

    /// Whether a rule of this name still covers the alert's operation and scope.
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
            Some(Rule::Straggler(straggler)) => {
                let watched = straggler.operation.as_ref();
                watched.is_none_or(|watched| *watched == key.operation) && key.scope != Scope::Fleet
            }
            None => false,
        }
    }
}

impl From<Vec<Budget>> for Rules {
    /// Budgets and nothing else.
    fn from(budgets: Vec<Budget>) -> Self {
        Self { budgets, time_scale: 1, ..Self::default() }
    }
}
