//! Rules: once a second every budget, error budget and threshold is judged.
//!
//! Owns the rules that are in force, when they were last judged and are judged next, which budgets
//! no sample has matched, and what is observed of the aggregator itself. It holds no sample, moves
//! no alert and notifies no receiver.
//!
//! Interface: [`Evaluator::begin`] returns an evaluation, [`Evaluation::judge`] the findings that
//! may move an alert, which [`Evaluator::on_judged`] takes note of; [`Evaluator::evidence`] returns
//! the values behind one; [`Evaluator::replace`] takes other rules.

mod absence;
mod budgets;
mod burn_rate;
mod evaluation;
mod evidence;
mod finding;
mod insufficient;
mod judge;
mod self_monitoring;
mod thresholds;
mod unmatched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::limits::EVALUATE_EVERY;
use plimsoll_schemas::alert::{AlertKey, Evidence, GapEvidence, LEDGER_GAP, Scope, ValueEvidence};
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::limits::wire::{CONFIRMED_LIMITS_MAX, LIMITS_MAX};
use plimsoll_schemas::own_operations::{is_of_aggregators, is_own};
use plimsoll_schemas::rule::{Rule, Rules, Threshold};
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::confirmation::LatencyLimit;
use serde::{Deserialize, Serialize};

pub use burn_rate::ErrorBudget;
#[cfg(test)]
pub(crate) use burn_rate::finding as burn_finding;
pub use evaluation::{Evaluation, EvaluationTime, Judged};
pub use finding::{ActiveAlerts, ActiveScopes, AlertFinding, Finding, Hysteresis, Inputs, Value};
pub use judge::{Judge, Judgement, Stretch, lower_rank, upper_rank};
pub use self_monitoring::SelfCounts;

use super::fleet::{Fleet, MergedSamples};
use absence::AbsentOperations;
use insufficient::InsufficientBudgets;
use self_monitoring::SelfMonitoring;
use unmatched::UnmatchedBudgets;

/// The rules in force, and what is remembered from one evaluation to the next.
#[derive(Debug)]
pub struct Evaluator {
    rules: Arc<Rules>,
    /// Budgets that no sample has matched though samples have come for minutes.
    pub(super) unmatched: UnmatchedBudgets,
    /// Budgets that for minutes have had too few samples to judge, some of them over the limit.
    pub(super) insufficient: InsufficientBudgets,
    pub(super) absence: AbsentOperations,
    pub(super) self_monitoring: SelfMonitoring,
    pub(super) judged_at: Option<Wall>,
    /// When they are judged next.
    pub(super) evaluates_at: Mono,
    /// Of nodes with samples over a limit, how great their share was when it was last judged, in
    /// thousandths of what the budget allows.
    pub(super) shares: Arc<BTreeMap<NodeName, u64>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredEvaluator {
    /// Up to when rules had been judged; earlier than the checkpoint while catching up.
    pub judged_at: Option<Wall>,
    absence: AbsentOperations,
}

impl Evaluator {
    pub fn new(rules: Arc<Rules>, now: Mono) -> Self {
        Self {
            unmatched: UnmatchedBudgets::new(&rules.budgets),
            insufficient: InsufficientBudgets::default(),
            absence: AbsentOperations::default(),
            self_monitoring: SelfMonitoring::default(),
            judged_at: None,
            evaluates_at: now.plus(EVALUATE_EVERY),
            shares: Arc::default(),
            rules,
        }
    }

    /// The same after a restart.
    pub fn restore(rules: Arc<Rules>, now: Mono, stored: StoredEvaluator) -> Self {
        let StoredEvaluator { judged_at, absence } = stored;
        Self { judged_at, absence, ..Self::new(rules, now) }
    }

    pub fn checkpoint(&self) -> StoredEvaluator {
        StoredEvaluator { judged_at: self.judged_at, absence: self.absence.clone() }
    }

    /// Judges by other rules from now on.
    pub fn replace(&mut self, rules: Arc<Rules>) {
        self.unmatched = UnmatchedBudgets::new(&rules.budgets);
        self.rules = rules;
    }

    /// The rules in force.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Whether rules are to be judged now; if so, the next time is a second later.
    pub fn is_due(&mut self, now: Mono) -> bool {
        let is_due = now >= self.evaluates_at;
        if is_due {
            self.schedule(now);
        }
        is_due
    }

    /// The next evaluation is a second after `now`.
    pub fn schedule(&mut self, now: Mono) {
        self.evaluates_at = now.plus(EVALUATE_EVERY);
    }

    /// An evaluation of every rule; `active` are the alerts that are not inactive.
    pub fn begin(
        &mut self,
        time: EvaluationTime,
        inputs: Inputs<'_>,
        active: Vec<AlertKey>,
        own: SelfCounts,
    ) -> Evaluation {
        self.observe(time.at, inputs, own);
        Evaluation {
            time,
            rules: Arc::clone(&self.rules),
            fleet: inputs.fleet.frozen(),
            broker: inputs.broker,
            active,
            own: self.self_monitoring.clone(),
            found: Vec::new(),
        }
    }

    fn observe(&mut self, at: Wall, inputs: Inputs<'_>, own: SelfCounts) {
        self.absence.observe(at, inputs.fleet, &self.rules.budgets);
        let absent = self.absence.absent(at, inputs.fleet);
        self.self_monitoring.observe(at, absent, own);
        self.unmatched.on_fleet(inputs.fleet, &self.rules.budgets);
        self.insufficient.observe(at, inputs.fleet, &self.rules.budgets);
    }

    /// Takes note of an evaluation. Returns whether its findings count: rules that were replaced
    /// meanwhile are judged anew.
    pub fn on_judged(&mut self, judged: &mut Judged) -> bool {
        let is_current = Arc::ptr_eq(&judged.rules, &self.rules);
        if is_current {
            self.judged_at = Some(judged.time.at);
            self.shares = Arc::new(std::mem::take(&mut judged.shares));
        }
        is_current
    }

    /// The values behind a finding about `key`, as of `at`; `None` when its rule is gone or nothing
    /// is known.
    pub fn evidence(&self, at: Wall, key: &AlertKey, inputs: Inputs<'_>) -> Option<Evidence> {
        let fleet = inputs.fleet;
        if key.rule.as_str() == LEDGER_GAP {
            let gap_samples = NodeName::new(key.scope.node()).map(|node| fleet.gaps.samples(&node));
            let gap_samples = gap_samples.unwrap_or_default();
            return Some(Evidence::Gap(GapEvidence { gap_samples }));
        }

        match self.rules.find(&key.rule)? {
            Rule::Budget(budget) => {
                Some(evidence::of_budget(at, budget, fleet.windows_of(budget, &key.scope)?))
            }
            Rule::Burn(budget, burn) => {
                let scale = self.rules.time_scale;
                let windows = fleet.windows_of(budget, &Scope::Fleet)?;
                burn_rate::evidence(self.judged_at?, budget, &burn, scale, windows)
                    .map(Evidence::Burn)
            }
            Rule::Threshold(threshold) => {
                let Value { value, labels } = self.value_of(threshold, &key.scope, inputs)?;
                Some(Evidence::Value(ValueEvidence {
                    metric: threshold.metric.clone(),
                    labels,
                    value,
                    comparison: threshold.comparison,
                    threshold: threshold.value,
                }))
            }
            // What shows it is in no window of the fleet.
            Rule::Straggler(_) => None,
        }
    }

    /// What a threshold is compared with in one scope, as of when rules were last judged; `None` if
    /// it is unknown.
    pub fn value_of(
        &self,
        threshold: &Threshold,
        scope: &Scope,
        inputs: Inputs<'_>,
    ) -> Option<Value> {
        thresholds::value_of(self.judged_at?, threshold, scope, inputs, &self.self_monitoring)
    }

    /// Operations with a budget that have samples, and whether they are absent, as of when rules
    /// were last judged.
    pub fn absence(&self, fleet: &Fleet) -> Vec<(Operation, bool)> {
        let absent = self.judged_at.map(|at| self.absence.absent(at, fleet)).unwrap_or_default();
        let judged: BTreeSet<&Operation> =
            self.rules.budgets.iter().map(|of| &of.operation).collect();
        let known =
            judged.into_iter().filter(|of| !is_own(of) && fleet.operations().get(of).is_some());
        known.map(|of| (of.clone(), absent.contains(of))).collect()
    }

    pub fn on_samples(&mut self, now: Mono, merged: &MergedSamples) {
        for (series, _) in &merged.latency.histograms {
            self.unmatched.on_samples(now, series, &merged.node_labels);
        }
    }

    /// The limits that nodes count samples by, in nanoseconds: those of all budgets of what nodes
    /// record, by operation, whatever the budgets select. Of too many the first, in the order of
    /// the rules.
    pub fn limits(&self) -> Vec<LatencyLimit> {
        let mut limits: Vec<LatencyLimit> = Vec::new();
        let budgets = self.rules.budgets.iter();

        for budget in budgets.filter(|budget| !is_of_aggregators(&budget.operation)) {
            let (operation, limit_ns) = (budget.operation.clone(), budget.limit_ns);
            let allowed_ppm = budget.allowed_ppm();
            let of_same = || limits.iter().filter(|known| known.operation == operation);
            let has_room = of_same().count() < LIMITS_MAX && limits.len() < CONFIRMED_LIMITS_MAX;
            let same = |known: &&mut LatencyLimit| {
                known.operation == operation && known.limit_ns == limit_ns
            };

            match limits.iter_mut().find(same) {
                // Of two quantiles with one limit the stricter one is breached first.
                Some(known) => known.allowed_ppm = known.allowed_ppm.min(allowed_ppm),
                None if has_room => limits.push(LatencyLimit { operation, limit_ns, allowed_ppm }),
                None => {}
            }
        }

        limits
    }
}

#[cfg(test)]
mod tests;
