//! Budgets whose samples are too few to judge although some are over the limit, for minutes: most
//! likely their operation is slower than their window.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::INSUFFICIENT_AFTER;
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::RuleName;
use plimsoll_schemas::time::Wall;

use super::judge::Judge;
use crate::core::fleet::Fleet;

/// Since when each budget has had too few samples, some of them over its limit.
#[derive(Debug, Default)]
pub(in crate::core) struct InsufficientBudgets {
    since: BTreeMap<RuleName, Wall>,
    reported: BTreeSet<RuleName>,
    at: Wall,
}

impl InsufficientBudgets {
    /// Takes the fleet's samples, once for each evaluation.
    pub(super) fn observe(&mut self, at: Wall, fleet: &Fleet, budgets: &[Budget]) {
        self.at = at;
        let few = budgets.iter().filter(|budget| is_insufficient(at, budget, fleet));
        let few: BTreeSet<&RuleName> = few.map(|budget| &budget.name).collect();
        self.since.retain(|name, _| few.contains(name));
        self.reported.retain(|name| few.contains(name));
        for name in few {
            self.since.entry(name.clone()).or_insert(at);
        }
    }

    /// Budgets for which that has lasted.
    pub(in crate::core) fn all(&self) -> BTreeSet<RuleName> {
        let lasts = |since: Wall| self.at.since(since) >= INSUFFICIENT_AFTER;
        self.since
            .iter()
            .filter(|(_, since)| lasts(**since))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Those of them that were not returned before.
    pub(in crate::core) fn next(&mut self) -> Vec<RuleName> {
        let news: Vec<_> =
            self.all().into_iter().filter(|name| !self.reported.contains(name)).collect();
        self.reported.extend(news.iter().cloned());
        news
    }
}

fn is_insufficient(at: Wall, budget: &Budget, fleet: &Fleet) -> bool {
    let Some(windows) = fleet.operations().judged(budget) else { return false };
    let recent = windows.recent(at, budget.window, budget.limit_ns);
    let is_over = recent.iter().any(|slot| slot.over.over > 0);
    // A sample that is overdue has been too few all the same.
    let samples = recent.iter().fold(0_u64, |sum, slot| sum.saturating_add(slot.samples));
    is_over && samples < Judge::new(budget).samples_min
}

#[cfg(test)]
mod tests;
