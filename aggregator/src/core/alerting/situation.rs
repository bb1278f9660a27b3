//! What a notification is made from: the rules, and what they are judged by.

use plimsoll_schemas::alert::{AlertContext, AlertEndReason, AlertKey, Evidence, Notification};
use plimsoll_schemas::metric::{AggregatorMetric, Metric};
use plimsoll_schemas::rule::{Rule, RuleAnnotations, Rules, Severity, Threshold};
use plimsoll_schemas::time::Wall;

use super::context;
use crate::core::blame::Blame;
use crate::core::rules::{Evaluator, Inputs};

/// The rules, and the state that they are judged by, at one point in time.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    pub evaluator: &'a Evaluator,
    /// What they are judged by.
    pub inputs: Inputs<'a>,
    /// What rules about stragglers are judged by.
    pub blame: &'a Blame,
}

impl<'a> Situation<'a> {
    pub(super) fn rules(&self) -> &'a Rules {
        self.evaluator.rules()
    }

    /// The rules about how many nodes are silent.
    pub(super) fn group_rules(&self) -> impl Iterator<Item = &'a Threshold> + use<'a> {
        let of_all = Metric::Fleet(AggregatorMetric::SilentNodes);
        self.rules().thresholds.iter().filter(move |of| of.metric == of_all)
    }

    pub(super) fn evidence(&self, at: Wall, key: &AlertKey) -> Option<Evidence> {
        let straggler = self.blame.slowest(key).map(|of| Evidence::Straggler(of.evidence));
        straggler.or_else(|| self.evaluator.evidence(at, key, self.inputs))
    }

    /// What an engineer would look up next, and the window that the rule judges, if any.
    pub(super) fn context(&self, at: Wall, key: &AlertKey) -> (AlertContext, std::time::Duration) {
        let judged = match self.rules().find(&key.rule) {
            Some(Rule::Budget(budget)) => Some((budget, budget.window)),
            Some(Rule::Burn(budget, burn)) => Some((budget, burn.short)),
            Some(Rule::Threshold(_) | Rule::Straggler(_)) | None => None,
        };
        let fleet = self.inputs.fleet;
        let context = match judged {
            Some((budget, window)) => context::of_samples(at, fleet, budget, window, &key.scope),
            None => context::of_node(at, fleet, &key.scope),
        };
        (context, judged.map(|(_, window)| window.span()).unwrap_or_default())
    }

    /// Why what an alert is about has no more samples to expect; `None` while there may be more.
    pub(super) fn reason_of_end(&self, now: Wall, key: &AlertKey) -> Option<AlertEndReason> {
        let budget = match self.rules().find(&key.rule) {
            Some(Rule::Budget(budget) | Rule::Burn(budget, _)) => Some(budget),
            Some(Rule::Threshold(Threshold { metric: Metric::Gauge(operation), .. }))
                if self.inputs.fleet.has_gauge_ended(now, &key.scope, operation) =>
            {
                return Some(AlertEndReason::JobEnded);
            }
            Some(Rule::Straggler(_)) => {
                let why = self.inputs.fleet.end_of_steps(now, &key.scope, &key.operation);
                if why.is_some() {
                    return why;
                }
                None
            }
            Some(Rule::Threshold(_)) | None => None,
        };
        let within = self.evaluator.absence.sources_within(&key.operation);
        self.inputs.fleet.reason_of_end(now, &key.scope, within, budget)
    }

    /// The texts and the severity of an alert's rule; of a rule that is gone those of its last
    /// notification, so that receivers take its end for that of the same alert.
    pub(super) fn about(
        &self,
        key: &AlertKey,
        last: Option<&Notification>,
    ) -> (RuleAnnotations, Severity) {
        if let Some(rule) = self.rules().find(&key.rule) {
            return (rule.about().clone(), rule.severity());
        }
        let Some(last) = last else { return (RuleAnnotations::default(), Severity::default()) };
        let about = RuleAnnotations {
            severity: last.severity,
            routes: last.routes.clone(),
            runbook: last.runbook.clone(),
            summary: None,
        };
        (about, last.severity)
    }
}
