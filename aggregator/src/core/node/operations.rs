//! The operations of one scope: a node, the fleet, a roll-up's group. Bounded in number, with
//! room kept for those that a budget judges.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::aggregator::OPERATIONS_MAX;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use crate::core::window::{Batch, Keeping, Times, Windows};

/// The operation that takes what the bound leaves no room for.
pub const OVERFLOW: &str = "other";

/// Operations of one scope, by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Operations(BTreeMap<Operation, Windows>);

impl Operations {
    /// Adds samples of an operation that is kept in this way; where there is no room for one
    /// more operation they go to [`OVERFLOW`]. Tells how many were folded.
    pub fn add(
        &mut self,
        operation: &Operation,
        keeping: &Keeping,
        times: Times,
        batch: &Batch<'_>,
    ) -> u64 {
        if let Some(windows) = self.0.get_mut(operation) {
            windows.add(times, batch);
            return 0;
        }
        if keeping.is_judged() || self.0.len() < OPERATIONS_MAX {
            let windows = self.0.entry(operation.clone());
            windows.or_insert_with(|| Windows::new(keeping)).add(times, batch);
            return 0;
        }
        let other = Operation::new(OVERFLOW).expect("a constant name of plain letters");
        let windows = self.0.entry(other).or_insert_with(|| Windows::new(keeping));
        windows.add(times, &batch.under(windows.limits()));
        batch.exact().count
    }

    /// Adds samples to the exact figures alone, of an operation that is known.
    pub fn add_figures(&mut self, operation: &Operation, times: Times, batch: &Batch<'_>) {
        if let Some(windows) = self.0.get_mut(operation) {
            windows.add_figures(times, batch);
        }
    }

    /// The windows of one operation.
    #[must_use]
    pub fn get(&self, operation: &Operation) -> Option<&Windows> {
        self.0.get(operation)
    }

    /// Takes an operation's windows as they were stored.
    pub fn restore(&mut self, operation: Operation, windows: Windows) {
        self.0.insert(operation, windows);
    }

    /// All operations in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Operation, &Windows)> {
        self.0.iter()
    }

    /// Gives slots that their window has passed on to longer ones.
    pub fn expire(&mut self, now: Wall) {
        self.0.values_mut().for_each(|windows| windows.expire(now));
    }

    /// Hears that the clock was set back.
    pub fn turn_back(&mut self, now: Wall) {
        self.0.values_mut().for_each(|windows| windows.turn_back(now));
    }

    /// Whether there are slots that every window has passed.
    #[must_use]
    pub fn are_stale(&self, now: Wall) -> bool {
        self.0.values().any(|windows| windows.is_stale(now))
    }

    /// Whether each is kept as it should be.
    #[must_use]
    pub fn are_kept(&self, keeping: impl Fn(&Operation) -> Keeping) -> bool {
        self.0.iter().all(|(operation, windows)| windows.is_kept(&keeping(operation)))
    }

    /// Keeps each in another way from now on.
    pub fn keep(&mut self, keeping: impl Fn(&Operation) -> Keeping) {
        self.0.iter_mut().for_each(|(operation, windows)| windows.keep(&keeping(operation)));
    }

    /// Heap bytes in use by their samples.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.0.values().map(Windows::heap_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::budget::{Window, effective};
    use plimsoll_schemas::histogram::{Histogram, Packed};

    use super::*;
    use crate::core::window::Limits;

    #[test]
    fn past_the_bound_operations_fold_into_other_but_never_a_judged_one() {
        let mut operations = Operations::default();
        let mut one = Histogram::default();
        one.record(5);
        let packed = Packed::from(&one);
        let times = Times { shown: Wall(9), now: Wall(9), taken: Wall(9) };
        let plain = Keeping { up_to: Window::FiveMinutes, limits: Limits::default() };
        let judged = Keeping { limits: Limits::of(&effective(&[]).unwrap()), ..plain };
        let mut add = |name: &str, keeping: &Keeping| {
            let batch = Batch::new(&packed, &keeping.limits);
            operations.add(&Operation::new(name).unwrap(), keeping, times, &batch)
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
