//! How the windows of every operation are kept: which of them, and for which limits. The fleet
//! has all; a node has those up to a configured one, and those that a budget judges.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_schemas::budget::{Budget, Window};
use plimsoll_schemas::ids::Operation;

use super::Core;
use super::window::{Keeping, Limits};

/// The longest window of every node unless a configuration says otherwise.
pub(super) const NODES_UP_TO: Window = Window::FiveMinutes;

/// How every operation is kept.
#[derive(Clone, Debug)]
pub(super) struct Keepings {
    nodes_up_to: Window,
    /// Of operations with budgets; up to the longest window of these.
    judged: BTreeMap<Operation, Keeping>,
}

impl Keepings {
    pub(super) fn new(budgets: &[Budget], nodes_up_to: Window) -> Self {
        let of = |operation: &Operation| {
            let budgets = || budgets.iter().filter(|budget| budget.operation == *operation);
            let up_to = budgets().map(|budget| budget.window).max().unwrap_or(nodes_up_to);
            Keeping { up_to, limits: Limits::of(budgets()) }
        };
        let operations = budgets.iter().map(|budget| &budget.operation);
        let judged = operations.map(|operation| (operation.clone(), of(operation))).collect();
        Self { nodes_up_to, judged }
    }

    /// The same where other budgets judge.
    pub(super) fn rejudged(&self, budgets: &[Budget]) -> Self {
        Self::new(budgets, self.nodes_up_to)
    }

    pub(super) fn of_node(&self, operation: &Operation) -> Keeping {
        let judged = self.judged.get(operation);
        let up_to = judged.map_or(self.nodes_up_to, |judged| judged.up_to.max(self.nodes_up_to));
        Keeping { up_to, limits: judged.map(|judged| judged.limits).unwrap_or_default() }
    }
}

impl Core {
    /// Keeps all windows as the configuration has them, whatever kept them before.
    pub(super) fn keep_windows(&mut self) {
        let of = |operation: &Operation| self.keepings.of_node(operation);
        for node in self.nodes.values_mut().filter(|node| !node.operations.are_kept(of)) {
            Arc::make_mut(node).operations.keep(of);
        }
        Arc::make_mut(&mut self.fleet).keep(|operation| of(operation).of_fleet());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::checkpoint::tests::restarted;
    use crate::core::tests::{MS, SECOND, Speaker, core, deliver, start};

    #[test]
    fn the_windows_that_a_configuration_lets_nodes_keep_outlive_a_restart() {
        let (mut core, mut speaker) = (core().measuring(Window::OneDay, &[]), Speaker::new("a"));
        deliver(&mut core, start(), &speaker.say(start(), MS, 5));
        let now = start().after(SECOND * 7_200);
        // Whatever it says lets its windows move on.
        deliver(&mut core, now, &speaker.say(now, MS, 7));
        let core = restarted(&mut core, now).measuring(Window::OneDay, &[]);
        let node = core.nodes.values().next().unwrap();
        let (_, windows) = node.operations.iter().next().unwrap();
        assert_eq!(windows.exact(now.wall, Window::OneDay).count, 12);
    }
}
