//! Which budgets of the user no sample has ever matched: most likely their operation or a label is
//! misspelt. A built-in budget is about an operation that a mesh may not have.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::budget::{Budget, Selector};
use plimsoll_schemas::ids::{Labels, Operation, RuleName, Series};
use plimsoll_schemas::limits::rules::UNMATCHED_AFTER;
use plimsoll_schemas::own_operations::is_own_series;
use plimsoll_schemas::time::Mono;

use crate::core::fleet::Fleet;

/// Budgets that no sample has matched yet.
#[derive(Clone, Debug, Default)]
pub(in crate::core) struct UnmatchedBudgets {
    waiting: BTreeMap<Operation, Vec<(RuleName, Selector)>>,
    /// When samples of jobs first and last came since the rules were loaded. Without any no budget
    /// counts as unmatched.
    first: Option<Mono>,
    last: Option<Mono>,
    reported: BTreeSet<RuleName>,
}

impl UnmatchedBudgets {
    pub(super) fn new(budgets: &[Budget]) -> Self {
        let mut waiting = BTreeMap::<_, Vec<_>>::new();
        for budget in budgets.iter().filter(|budget| !budget.is_built_in) {
            let entry = (budget.name.clone(), budget.selector.clone());
            waiting.entry(budget.operation.clone()).or_default().push(entry);
        }
        Self { waiting, ..Self::default() }
    }

    /// Budgets whose samples are known, such as from before a restart, have been matched.
    pub(super) fn on_fleet(&mut self, fleet: &Fleet, budgets: &[Budget]) {
        if self.waiting.is_empty() {
            return;
        }
        let known = budgets.iter().filter(|budget| fleet.operations().judged(budget).is_some());
        for budget in known {
            let Some(waiting) = self.waiting.get_mut(&budget.operation) else { continue };
            waiting.retain(|(name, _)| *name != budget.name);
            if waiting.is_empty() {
                self.waiting.remove(&budget.operation);
            }
        }
    }

    pub(super) fn on_samples(&mut self, now: Mono, series: &Series, node: &Labels) {
        // What a node takes of itself comes without any job.
        if !is_own_series(series) {
            self.first.get_or_insert(now);
            self.last = Some(now);
        }
        let Some(waiting) = self.waiting.get_mut(&series.operation) else { return };
        waiting.retain(|(_, selector)| !selector.selects(&series.labels, node));
        if waiting.is_empty() {
            self.waiting.remove(&series.operation);
        }
    }

    /// Budgets that no sample has matched though samples have come for minutes.
    pub(in crate::core) fn all(&self) -> BTreeSet<&RuleName> {
        let (Some(first), Some(last)) = (self.first, self.last) else { return BTreeSet::new() };
        if last.since(first) < UNMATCHED_AFTER {
            return BTreeSet::new();
        }
        self.waiting.values().flatten().map(|(name, _)| name).collect()
    }

    /// Those of them that were not returned before.
    pub(in crate::core) fn next(&mut self) -> Vec<RuleName> {
        let all = self.all().into_iter();
        let news: Vec<RuleName> =
            all.filter(|name| !self.reported.contains(*name)).cloned().collect();
        self.reported.extend(news.iter().cloned());
        news
    }
}

#[cfg(test)]
mod tests;
