//! The operations of one scope: a node or the fleet. Bounded in number, with room kept for those
//! that a budget judges. What a budget with a selector is about is kept a second time, apart and
//! under the budget's name: it is in no total and on no page but as that budget's figures.
//!
//! A table that is crowded evicts idle operations: their samples go to [`OVERFLOW`], in total and
//! in each window, so that sums over all operations stay what they were.
//!
//! DESIGN A73, A150.

use std::time::Duration;

use crate::limits::OPERATIONS_MAX;
use litemap::LiteMap;
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::{Operation, RuleName};
pub use plimsoll_schemas::limits::api::OVERFLOW;
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::summary::SampleTotals;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::unit::{Unit, is_overflow};
use serde::{Deserialize, Serialize};

use super::bounded::{is_crowded, longest_idle};
use super::window::{Batch, Phase, Retention, Times, Windows};

/// Operations of one scope, by name. Most nodes have a few; the maps are no larger than what they
/// hold, since nodes are copied.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Operations {
    all: LiteMap<Operation, Windows>,
    /// As many as there are budgets with a selector at the most.
    selected: LiteMap<RuleName, Windows>,
}

impl Operations {
    /// Adds samples of an operation that is kept in this way; where there is no room for one
    /// more operation they go to [`OVERFLOW`]. Returns how many were folded.
    pub fn add(
        &mut self,
        operation: &Operation,
        retention: &Retention,
        times: Times,
        batch: &Batch,
    ) -> u64 {
        if self.has_room_for(operation, retention) {
            let windows = self.all.entry(operation.clone());
            windows.or_insert_with(|| Windows::new(retention)).add(times, batch);
            return 0;
        }
        let others = Unit::of(operation.as_str()).overflow();
        let windows = self.all.entry(others).or_insert_with(|| Windows::new(retention));
        // The group of all others counts over its own limits:
        // those of the operation are judged under its name alone.
        windows.add(times, &batch.under(windows.limits()));
        batch.exact().count
    }

    /// Whether an operation that is kept in this way has a place, or would get one.
    pub fn has_room_for(&self, operation: &Operation, retention: &Retention) -> bool {
        // A flood of names must not keep an operation with a budget from being judged (A150).
        retention.is_judged() || self.all.len() < OPERATIONS_MAX || self.all.contains_key(operation)
    }

    /// Whether idle operations are to be evicted to make room.
    pub fn are_crowded(&self) -> bool {
        is_crowded(self.all.len(), OPERATIONS_MAX)
    }

    /// While room is scarce, the operation that is idle for longest, when any node was last
    /// seen, and is not judged; `None` if none is to be evicted.
    pub fn idle(&self, as_of: Wall, is_judged: impl Fn(&Operation) -> bool) -> Option<Operation> {
        let evictable = self.iter().filter(|(name, _)| is_evictable(name) && !is_judged(name));
        let longest = self.are_crowded().then(|| longest_idle(as_of, evictable))?;
        longest.cloned()
    }

    /// Of these operations, the one without samples for longest that is not judged.
    pub fn longest_without_samples<'o>(
        &self,
        of: impl Iterator<Item = &'o Operation>,
        is_judged: impl Fn(&Operation) -> bool,
    ) -> Option<Operation> {
        let evictable = of.filter(|name| is_evictable(name) && !is_judged(name));
        let known = evictable.filter_map(|name| Some((name, self.all.get(name)?)));
        known.min_by_key(|(_, windows)| windows.touched()).map(|(name, _)| name.clone())
    }

    /// Removes an operation; its samples are among those of [`OVERFLOW`] from now on.
    pub fn evict(&mut self, operation: &Operation) {
        let Some(windows) = self.all.remove(operation) else { return };
        let others = Unit::of(operation.as_str()).overflow();
        match self.all.get_mut(&others) {
            Some(others) => others.absorb(&windows),
            None => drop(self.all.insert(others, windows)),
        }
    }

    /// Adds samples to the exact figures alone, of an operation that is known.
    pub fn add_figures(&mut self, operation: &Operation, times: Times, batch: &Batch) {
        if let Some(windows) = self.all.get_mut(operation) {
            windows.add_figures(times, batch);
        }
    }

    /// Adds samples that a budget selects; where there is no room, to the exact figures alone.
    pub fn select(
        &mut self,
        budget: &RuleName,
        retention: &Retention,
        times: Times,
        batch: &Batch,
        has_room: bool,
    ) {
        if !self.selected.contains_key(budget) {
            self.selected.insert(budget.clone(), Windows::new(retention));
        }
        match self.selected.get_mut(budget) {
            Some(windows) if has_room => windows.add(times, batch),
            Some(windows) => windows.add_figures(times, batch),
            None => {}
        }
    }

    pub fn get(&self, operation: &Operation) -> Option<&Windows> {
        self.all.get(operation)
    }

    /// Whether an operation is a step: others are its phases (N85).
    pub fn has_phases(&self, step: &Operation) -> bool {
        let is_phase =
            |name: &str| name.strip_prefix(step.as_str()).is_some_and(|of| of.starts_with('.'));
        self.all.keys().any(|name| is_phase(name.as_str()))
    }

    pub fn judged(&self, budget: &Budget) -> Option<&Windows> {
        match budget.selector.is_everything() {
            true => self.all.get(&budget.operation),
            false => self.get_selected(&budget.name),
        }
    }

    /// The windows that a budget judges, begun if there are none.
    pub fn judged_mut(&mut self, budget: &Budget, retention: &Retention) -> &mut Windows {
        let windows = || Windows::new(retention);
        match budget.selector.is_everything() {
            true => self.all.entry(budget.operation.clone()).or_insert_with(windows),
            false => self.selected.entry(budget.name.clone()).or_insert_with(windows),
        }
    }

    pub fn get_selected(&self, budget: &RuleName) -> Option<&Windows> {
        self.selected.get(budget)
    }

    /// Samples of all operations, those of jobs apart from the system's own.
    ///
    /// DESIGN A61.
    pub fn sample_totals(&self) -> SampleTotals {
        let mut totals = SampleTotals::default();
        for (operation, windows) in self.iter() {
            let sum = if is_own(operation) { &mut totals.own } else { &mut totals.jobs };
            *sum = sum.saturating_add(windows.total_exact().count);
        }
        totals
    }

    /// Takes an operation's windows as they were stored.
    pub fn restore(&mut self, operation: Operation, windows: Windows) {
        self.all.insert(operation, windows);
    }

    /// Takes what is kept apart for a budget as it was stored.
    pub fn restore_selected(&mut self, budget: RuleName, windows: Windows) {
        self.selected.insert(budget, windows);
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Operation, &Windows)> {
        self.all.iter()
    }

    /// What is kept apart, in order of the budgets' names.
    pub fn selected(&self) -> impl Iterator<Item = (&RuleName, &Windows)> {
        self.selected.iter()
    }

    /// Drops what is kept apart for other budgets.
    pub fn retain_selected(&mut self, keep: impl Fn(&RuleName) -> bool) {
        self.selected.retain(|budget, _| keep(budget));
    }

    fn windows(&self) -> impl Iterator<Item = &Windows> {
        self.all.values().chain(self.selected.values())
    }

    fn windows_mut(&mut self) -> impl Iterator<Item = &mut Windows> {
        let all = self.all.iter_mut().map(|(_, windows)| windows);
        all.chain(self.selected.iter_mut().map(|(_, windows)| windows))
    }

    /// Rolls slots that are older than their window over to longer ones.
    pub fn expire(&mut self, now: Wall, phase: Phase) {
        self.windows_mut().for_each(|windows| windows.expire(now, phase));
    }

    pub fn turn_back(&mut self, now: Wall) {
        self.windows_mut().for_each(|windows| windows.turn_back(now));
    }

    /// Whether there are slots that every window has passed.
    pub fn are_stale(&self, now: Wall) -> bool {
        self.windows().any(|windows| windows.is_stale(now))
    }

    /// Whether each operation, and what is kept apart for each budget, is kept as it should be.
    pub fn are_kept(
        &self,
        operation: impl Fn(&Operation) -> Retention,
        budget: impl Fn(&RuleName) -> Option<Retention>,
    ) -> bool {
        let is_kept = |name, windows: &Windows| budget(name).is_some_and(|of| windows.is_kept(&of));
        self.all.iter().all(|(name, windows)| windows.is_kept(&operation(name)))
            && self.selected.iter().all(|(name, windows)| is_kept(name, windows))
    }

    /// So much time has passed that the clock alone has seen.
    pub fn pass_over(&mut self, span: Duration) {
        self.windows_mut().for_each(|windows| windows.pass_over(span));
    }

    /// Keeps each in another way from now on, and no longer what a budget does not select.
    pub fn keep(
        &mut self,
        operation: impl Fn(&Operation) -> Retention,
        budget: impl Fn(&RuleName) -> Option<Retention>,
    ) {
        self.all.iter_mut().for_each(|(name, windows)| windows.keep(&operation(name)));
        self.selected.retain(|name, _| budget(name).is_some());
        for (name, windows) in self.selected.iter_mut() {
            budget(name).iter().for_each(|retention| windows.keep(retention));
        }
    }

    pub fn heap_bytes(&self) -> usize {
        self.windows().map(Windows::heap_bytes).sum()
    }
}

/// The system's own have their places for good.
fn is_evictable(operation: &Operation) -> bool {
    !is_own(operation) && !is_overflow(operation.as_str())
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::budget::Window;
    use plimsoll_schemas::histogram::{Histogram, Packed};
    use plimsoll_schemas::rule::file::effective;

    use super::*;
    use crate::core::fleet::window::Limits;

    #[test]
    fn past_the_bound_operations_fold_into_other_but_never_a_judged_one() {
        let mut operations = Operations::default();
        let mut one = Histogram::default();
        one.record(5);
        let packed = Packed::from(&one);
        let times = Times { shown: Wall(9), now: Wall(9), taken: Wall(9) };
        let plain = Retention { up_to: Window::FiveMinutes, limits: Limits::default() };
        let judged = Retention { limits: Limits::of(&effective(&[]).unwrap()), ..plain };
        let mut add = |name: &str, retention: &Retention| {
            let batch = Batch::new(&packed, &retention.limits);
            operations.add(&Operation::new(name).unwrap(), retention, times, &batch)
        };
        let folded: u64 = (0..OPERATIONS_MAX + 7).map(|n| add(&format!("o{n}"), &plain)).sum();
        assert_eq!((folded, add("epoch_hook", &judged)), (7, 0));
        let count = |name: &str| {
            let windows = operations.get(&Operation::new(name).unwrap());
            windows.map(|windows| (windows.total().count(), windows.total_exact().count))
        };
        assert_eq!((count(OVERFLOW), count("epoch_hook")), (Some((7, 7)), Some((1, 1))));
    }
}
