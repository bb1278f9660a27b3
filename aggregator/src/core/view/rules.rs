//! What a view says of rules beside the rows of budgets.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_schemas::alert::{AlertKey, AlertState, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::NodeName;

use super::Wanted;
use crate::core::burns::ErrorBudget;
use crate::core::node::Node;
use crate::core::still::Still;

impl Still {
    /// Alerts that no budget's row shows, about the fleet and the nodes that are shown.
    pub(super) fn other_alerts(
        &self,
        wanted: &Wanted,
        nodes: &[(&NodeName, &Arc<Node>)],
    ) -> Vec<(AlertKey, AlertState)> {
        let names: BTreeSet<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
        let is_shown = |scope: &Scope| match scope {
            Scope::Fleet => wanted.fleet,
            Scope::Node(name) => names.contains(name.as_str()),
        };
        let budgets: BTreeSet<_> = self.rules.budgets.iter().map(|budget| &budget.name).collect();
        let others = self.alerts.iter().filter(|(key, _)| !budgets.contains(&key.rule));
        let shown = others.filter(|(key, _)| is_shown(&key.scope));
        shown.map(|(key, state)| (key.clone(), *state)).collect()
    }

    /// What is left of error budgets.
    pub(super) fn error_budgets(&self) -> Vec<ErrorBudget> {
        let of = |budget: &Budget| {
            let windows = self.fleet.get(&budget.operation)?;
            ErrorBudget::of(self.at, budget, self.rules.time_scale, windows)
        };
        self.rules.budgets.iter().filter_map(of).collect()
    }
}
