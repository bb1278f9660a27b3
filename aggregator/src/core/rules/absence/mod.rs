//! Absence: operations with a budget of which samples stopped although nothing has ended.
//!
//! An operation is absent once it has been silent for three times the longest pause that it ever
//! made, and at least a minute, while a node reports that brought it and whose jobs have not ended.
//! One of which a single batch came has no pause to compare with and is never absent.
//!
//! DESIGN A60.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{ABSENT_AFTER, ABSENT_AFTER_PAUSES, ABSENT_WITHIN, PAUSE_CHECKED, PAUSES_KEPT};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use crate::core::fleet::{Fleet, Node, Windows};

/// The pauses of each operation with a budget. One that is judged anew begins with those of the
/// last half hour.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::core) struct AbsentOperations {
    pauses: BTreeMap<Operation, Pauses>,
}

/// When samples of an operation came, and how long they did not.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Pauses {
    newest: Wall,
    /// When the present period of [`PAUSES_KEPT`] began.
    began: Wall,
    /// The longest pauses that ended in this period and in the one before.
    longest: [Duration; 2],
    /// Whether all that brought it has left or ended since the newest: the time until more comes is
    /// no pause.
    is_over: bool,
}

impl AbsentOperations {
    /// Takes when samples came, once for each evaluation.
    pub(super) fn observe(&mut self, at: Wall, fleet: &Fleet, budgets: &[Budget]) {
        // The system's own stop where there is nothing to publish or to notify of.
        let budgets = budgets.iter().filter(|budget| !is_own(&budget.operation));
        let is_judged = |of: &Operation| budgets.clone().any(|budget| budget.operation == *of);
        self.pauses.retain(|operation, _| is_judged(operation));

        for budget in budgets.clone() {
            let Some(windows) = fleet.operations().get(&budget.operation) else { continue };
            match self.pauses.get_mut(&budget.operation) {
                Some(pauses) if windows.newest() == pauses.newest => {
                    // Only of what is silent: it takes a walk over the nodes.
                    if at.since(pauses.newest) >= PAUSE_CHECKED {
                        pauses.is_over = !pauses.may_end(at, &budget.operation, fleet);
                    }
                }
                Some(pauses) => pauses.see(at, budget, windows),
                None => {
                    let pauses = Pauses::of_known(at, budget, windows);
                    self.pauses.insert(budget.operation.clone(), pauses);
                }
            }
        }
    }

    pub(super) fn absent(&self, at: Wall, fleet: &Fleet) -> Vec<Operation> {
        let is_absent = |(operation, pauses): &(&Operation, &Pauses)| {
            // What came after the last evaluation begins the operation again.
            let newest = fleet.operations().get(operation).map(Windows::newest);
            newest.is_none_or(|newest| newest <= pauses.newest)
                && pauses.are_too_long(at)
                && pauses.may_end(at, operation, fleet)
        };
        self.pauses.iter().filter(is_absent).map(|(operation, _)| operation.clone()).collect()
    }

    /// A node is a source of an operation if its newest samples are within so long of the newest of
    /// all: three of its longest pauses; an hour as long as none is known.
    pub(in crate::core) fn sources_within(&self, operation: &Operation) -> Duration {
        self.pauses.get(operation).map_or(ABSENT_WITHIN, Pauses::sources_within)
    }
}

impl Pauses {
    /// What is known of an operation that was not observed before.
    fn of_known(at: Wall, budget: &Budget, windows: &Windows) -> Self {
        let begins = windows.recent(at, budget.window, budget.limit_ns);
        let begins: Vec<Wall> = begins.iter().map(|slot| slot.begin).collect();
        let longest = [longest_between(&begins), Duration::ZERO];
        Self { newest: windows.newest(), began: windows.newest(), longest, is_over: false }
    }

    fn see(&mut self, at: Wall, budget: &Budget, windows: &Windows) {
        let newest = windows.newest();
        // A clock that was set back is no pause.
        if newest <= self.newest {
            self.newest = newest;
            return;
        }

        // Two periods in turn: a pause counts for a day at least and is dropped after two.
        if newest.since(self.began) >= PAUSES_KEPT {
            (self.began, self.longest) = (newest, [Duration::ZERO, self.longest[0]]);
        }
        let mut pause = newest.since(self.newest);

        if pause >= PAUSE_CHECKED {
            // A backlog that was read at once is no pause.
            let slots = windows.recent(at, budget.window, budget.limit_ns);
            let begins = slots.iter().map(|slot| slot.begin).filter(|begin| *begin > self.newest);
            let begins: Vec<Wall> = begins.chain([self.newest]).collect();
            pause = longest_between(&begins);
        }

        if !std::mem::take(&mut self.is_over) {
            self.longest[0] = self.longest[0].max(pause);
        }
        self.newest = newest;
    }

    fn longest(&self) -> Duration {
        self.longest[0].max(self.longest[1])
    }

    fn sources_within(&self) -> Duration {
        match self.longest() {
            Duration::ZERO => ABSENT_WITHIN,
            longest => (longest * ABSENT_AFTER_PAUSES).max(PAUSE_CHECKED),
        }
    }

    fn are_too_long(&self, at: Wall) -> bool {
        let longest = self.longest();
        let borne = (longest * ABSENT_AFTER_PAUSES).max(ABSENT_AFTER);
        let pause = at.since(self.newest);
        // After one batch no pause is known to compare with. After an
        // hour of absence the job is over for all that is known (A60).
        !longest.is_zero() && pause > borne && pause <= borne + ABSENT_WITHIN
    }

    /// Whether a node reports that is a source of an operation and whose jobs have not ended: the
    /// silence may end, and is a pause.
    fn may_end(&self, at: Wall, operation: &Operation, fleet: &Fleet) -> bool {
        let within = self.sources_within();
        let newest = fleet.operations().get(operation).map(Windows::newest).unwrap_or_default();
        let may_bring = |node: &Node| {
            let own = node.operations.get(operation).map(Windows::newest);
            own.is_some_and(|own| newest.since(own) <= within) && !node.has_ended(operation)
        };
        fleet.shown().any(|(_, node)| node.presence(at) == Presence::Up && may_bring(node))
    }
}

/// The longest time between two of these times, newest first, that follow each other.
fn longest_between(times: &[Wall]) -> Duration {
    times.windows(2).map(|pair| pair[0].since(pair[1])).max().unwrap_or_default()
}
