//! What moved an alert, and what an engineer would look up next about it. Reads what the core
//! holds and works nothing out that a verdict depends on.

mod bars;
mod worst;

use plimsoll_schemas::alert::{
    AlertKey, Context, Evidence, GapEvidence, LEDGER_GAP, LatencyEvidence, Scope, ValueEvidence,
};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::rule::Rule;
use plimsoll_schemas::time::{Wall, seconds};

use crate::core::Core;
use crate::core::fleet::window::Windows;
use crate::core::rules::judge::judge;
use crate::core::rules::thresholds::Value;

impl Core {
    /// The figures that move an alert, as of `at`; `None` when nobody knows its rule.
    pub(crate) fn evidence(&self, at: Wall, key: &AlertKey) -> Option<Evidence> {
        if key.rule.as_str() == LEDGER_GAP {
            let gap_samples = NodeName::new(key.scope.node()).map(|node| self.gap_samples(&node));
            return Some(Evidence::Gap(GapEvidence {
                gap_samples: gap_samples.unwrap_or_default(),
            }));
        }
        match self.rules.find(&key.rule)? {
            Rule::Budget(budget) => {
                Some(of_budget(at, budget, self.windows_of(budget, &key.scope)?))
            }
            Rule::Burn(budget, burn) => Some(Evidence::Burn(self.burn_of(budget, &burn)?)),
            Rule::Threshold(threshold) => {
                let Value { value, labels } = self.value_of(threshold, &key.scope)?;
                Some(Evidence::Value(ValueEvidence {
                    metric: threshold.metric.clone(),
                    labels,
                    value,
                    comparison: threshold.comparison,
                    threshold: threshold.value,
                }))
            }
        }
    }

    /// What an engineer would look up next.
    pub(crate) fn context(&self, at: Wall, key: &AlertKey) -> Context {
        let judged = match self.rules.find(&key.rule) {
            Some(Rule::Budget(budget)) => Some((budget, budget.window)),
            Some(Rule::Burn(budget, burn)) => Some((budget, burn.short)),
            Some(Rule::Threshold(_)) | None => None,
        };
        let context = match judged {
            Some((budget, window)) => self.of_samples(at, budget, window, &key.scope),
            None => self.of_node(at, &key.scope),
        };
        let before = judged.map(|(_, window)| 2 * window.span()).unwrap_or_default();
        Context { dashboard: self.dashboard.link(&self.mesh, key, at, before), ..context }
    }

    /// The samples that a budget judges in one scope.
    pub(crate) fn windows_of(&self, budget: &Budget, scope: &Scope) -> Option<&Windows> {
        match scope {
            Scope::Fleet => self.fleet.judged(budget),
            Scope::Node(name) => self.nodes.get(name)?.operations.judged(budget),
        }
    }
}

fn of_budget(at: Wall, budget: &Budget, windows: &Windows) -> Evidence {
    let samples = windows.merged(at, budget.window);
    let sums = windows.sums(at, budget.window, budget.limit_ns);
    let judgement = judge(budget, &sums, |rank| samples.at_rank(rank));
    Evidence::Latency(LatencyEvidence {
        quantile: budget.quantile,
        value_seconds: seconds(judgement.value_ns.unwrap_or(0)),
        lower_seconds: seconds(judgement.lower_ns.unwrap_or(0)),
        limit_seconds: seconds(budget.limit_ns),
        window: budget.window,
        samples: sums.samples,
        upper_seconds: judgement.upper_ns.map(seconds),
        over: sums.over,
        unsure: sums.unsure,
        within_seconds: judgement.within_ns.map(|(least, most)| (seconds(least), seconds(most))),
    })
}

#[cfg(test)]
mod tests;
