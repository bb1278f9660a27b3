//! Which budgets no sample has ever matched: most likely their operation or a label is misspelt.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::budget::{Budget, Selector};
use plimsoll_schemas::ids::{Labels, Operation, RuleName, Series};
use plimsoll_schemas::limits::rules::UNMATCHED_AFTER;
use plimsoll_schemas::time::Mono;

use crate::core::Core;

/// Budgets that wait for their first sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matches {
    waiting: BTreeMap<Operation, Vec<(RuleName, Selector)>>,
    /// When samples first and last came since the rules were loaded. Silence accuses no budget.
    first: Option<Mono>,
    last: Option<Mono>,
    told: BTreeSet<RuleName>,
}

impl Matches {
    pub(crate) fn new(budgets: &[Budget]) -> Self {
        let mut waiting = BTreeMap::<_, Vec<_>>::new();
        for budget in budgets {
            let entry = (budget.name.clone(), budget.selector.clone());
            waiting.entry(budget.operation.clone()).or_default().push(entry);
        }
        Self { waiting, ..Self::default() }
    }

    /// Hears of samples of a series, from a node with these labels.
    pub(crate) fn on_samples(&mut self, now: Mono, series: &Series, node: &Labels) {
        self.first.get_or_insert(now);
        self.last = Some(now);
        let Some(waiting) = self.waiting.get_mut(&series.operation) else { return };
        waiting.retain(|(_, selector)| !selector.selects(&series.labels, node));
        if waiting.is_empty() {
            self.waiting.remove(&series.operation);
        }
    }

    /// Budgets that samples have passed by for long enough, by name.
    pub(crate) fn unmatched(&self) -> BTreeSet<&RuleName> {
        let (Some(first), Some(last)) = (self.first, self.last) else { return BTreeSet::new() };
        if last.since(first) < UNMATCHED_AFTER {
            return BTreeSet::new();
        }
        self.waiting.values().flatten().map(|(name, _)| name).collect()
    }
}

impl Core {
    /// Budgets that no sample has matched though samples have come for minutes, each told once.
    pub fn next_unmatched(&mut self) -> Vec<RuleName> {
        let unmatched = self.matches.unmatched().into_iter();
        let news = unmatched.filter(|name| !self.matches.told.contains(*name));
        let news: Vec<RuleName> = news.cloned().collect();
        self.matches.told.extend(news.iter().cloned());
        news
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_schemas::budget::effective;

    use super::*;

    fn series(operation: &str, labels: &[(&str, &str)]) -> Series {
        let labels = Labels::new(labels.iter().copied()).unwrap();
        Series { operation: Operation::new(operation).unwrap(), labels }
    }

    fn names(matches: &Matches) -> Vec<&str> {
        matches.unmatched().into_iter().map(RuleName::as_str).collect()
    }

    #[test]
    fn a_budget_that_samples_pass_by_for_minutes_is_unmatched_until_one_fits() {
        let text = "[[budget]]\nname = 'misses'\noperation = 'kernel_fetch'\nquantile = 0.9\n\
                    limit = '1ms'\nlabels = { outcome = 'miss' }\nnode_labels = { rack = 'r7' }";
        let mut matches = Matches::new(&effective(&[text]).unwrap());
        let (r7, r8) = (Labels::new([("rack", "r7")]).unwrap(), Labels::default());
        let hit = series("kernel_fetch", &[("outcome", "hit")]);
        matches.on_samples(Mono(0), &hit, &r7);
        let later = Mono(0).plus(UNMATCHED_AFTER);
        assert_eq!(names(&matches), [""; 0], "no time has passed");
        matches.on_samples(later.plus(Duration::from_secs(1)), &hit, &r7);
        assert_eq!(names(&matches), ["epoch_hook", "misses", "publish"]);
        let miss = series("kernel_fetch", &[("outcome", "miss")]);
        matches.on_samples(later, &miss, &r8);
        assert_eq!(names(&matches), ["epoch_hook", "misses", "publish"], "of another rack");
        matches.on_samples(later, &miss, &r7);
        matches.on_samples(later, &series("publish", &[("a", "b")]), &r8);
        assert_eq!(names(&matches), ["epoch_hook"]);
    }

    #[test]
    fn where_nothing_comes_no_budget_is_unmatched() {
        let mut matches = Matches::new(&effective(&[]).unwrap());
        assert_eq!(names(&matches), [""; 0]);
        matches.on_samples(Mono(0), &series("o", &[]), &Labels::default());
        assert_eq!(names(&matches), [""; 0]);
    }
}
