//! What moved an alert, and what an engineer would look up next about it.

use plimsoll_schemas::alert::{
    AlertKey, Context, Evidence, GapEvidence, LEDGER_GAP, LatencyEvidence, Scope,
};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::rule::Rule;
use plimsoll_schemas::time::{Wall, seconds};

use super::Core;
use super::judge::judge;
use super::window::Windows;

impl Core {
    /// The figures that move an alert, as of `at`; `None` when nobody knows its rule.
    pub(super) fn evidence(&self, at: Wall, key: &AlertKey) -> Option<Evidence> {
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
            Rule::Burn(..) | Rule::Threshold(_) => None,
        }
    }

    /// What an engineer would look up next.
    pub(super) fn context(&self, _at: Wall, _key: &AlertKey) -> Context {
        Context::default()
    }

    /// The samples that a budget judges in one scope.
    pub(super) fn windows_of(&self, budget: &Budget, scope: &Scope) -> Option<&Windows> {
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
    })
}
