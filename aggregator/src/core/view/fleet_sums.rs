//! What a page of the fleet has of all nodes, shown or not. It is counted in one pass: of thousands
//! of nodes each pass waits for memory.
//!
//! DESIGN A72.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_schemas::ids::{NodeName, Operation, RuleName};
use plimsoll_schemas::summary::{Ledger, Presence};

use super::read_view::ReadView;
use super::worst::WorstNodes;
use crate::core::fleet::{Completeness, Node, ReportingNode, Trouble};

/// Counts and sums over all nodes.
#[derive(Default)]
pub(super) struct FleetSums<'v> {
    /// How many there are in each state.
    pub(super) presence: BTreeMap<Presence, u64>,
    /// Their ledger entries, those of expired and evicted nodes among them.
    pub(super) ledger: Ledger,
    /// How many there are by their worst trouble.
    pub(super) troubles: BTreeMap<Trouble, u64>,
    /// How many the windows of each operation hold.
    pub(super) operations: BTreeMap<&'v Operation, Completeness>,
    /// How many the windows hold that are kept apart for a budget.
    pub(super) budgets: BTreeMap<&'v RuleName, Completeness>,
    /// How bad each is.
    pub(super) worst: WorstNodes<'v>,
}

impl<'v> FleetSums<'v> {
    pub(super) fn of(view: &'v ReadView) -> Self {
        let mut sums = Self {
            presence: Presence::ALL.map(|presence| (presence, 0)).into(),
            ledger: view.own.merged.gone.clone(),
            troubles: Trouble::ALL.map(|trouble| (trouble, 0)).into(),
            worst: WorstNodes::new(view),
            ..Self::default()
        };
        for (name, node) in &view.nodes {
            sums.ledger.add(&node.account.ledger());
            if !node.hidden {
                sums.add_shown(view, name, node);
            }
        }
        sums
    }

    fn add_shown(&mut self, view: &'v ReadView, name: &'v NodeName, node: &'v Arc<Node>) {
        let presence = node.presence(view.at);
        *self.presence.entry(presence).or_default() += 1;
        let trouble = node.troubles(view.at, view.gap_samples(name)).max();
        if let Some(trouble) = trouble {
            *self.troubles.entry(trouble).or_default() += 1;
        }
        let reporting = ReportingNode::new(view.at, node);
        for (operation, windows) in node.operations.iter() {
            self.operations.entry(operation).or_default().add(view.at, &reporting, windows);
        }
        for (budget, windows) in node.operations.selected() {
            self.budgets.entry(budget).or_default().add(view.at, &reporting, windows);
        }
        self.worst.add((name, node), trouble, presence);
    }
}
