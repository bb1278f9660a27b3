//! What a page of the fleet has of all nodes, shown or not, and which of them to show where not all
//! can be: those that someone on call would look at first. It is counted in one pass: of thousands
//! of nodes each pass waits for memory.
//!
//! DESIGN A36, A72.

use std::cmp::Reverse;
use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;
use std::sync::Arc;

use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::ids::{NodeName, Operation, RuleName};
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::summary::{Ledger, Presence};

use super::read_view::ReadView;
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
            // Hidden nodes too: their samples were merged, and a
            // sum without them would fall when they are hidden.
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
        self.worst.add(name, node, trouble, presence);
    }
}

/// Greater is worse: what rules match on each node, alerts about jobs, silence, and how far the
/// share of samples over a limit is from what the budget allows, in thousandths. Silence comes
/// before the share, which hardly any node is free of.
type Badness = (Option<Trouble>, AlertRank, bool, u64);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum AlertRank {
    #[default]
    Quiet,
    Pending,
    Firing,
}

type Named<'v> = (&'v NodeName, &'v Arc<Node>);

/// How bad each node is, in the order of their names.
#[derive(Default)]
pub(super) struct WorstNodes<'v> {
    alerts: BTreeMap<&'v str, AlertRank>,
    /// Of nodes that are still to be added.
    shares: Option<Peekable<btree_map::Iter<'v, NodeName, u64>>>,
    nodes: Vec<(Reverse<Badness>, Named<'v>)>,
}

impl<'v> WorstNodes<'v> {
    /// No node of this view yet.
    pub(super) fn new(view: &'v ReadView) -> Self {
        Self {
            alerts: alert_ranks(view),
            shares: Some(view.shares.iter().peekable()),
            nodes: Vec::with_capacity(view.nodes.len()),
        }
    }

    pub(super) fn add(
        &mut self,
        name: &'v NodeName,
        node: &'v Arc<Node>,
        trouble: Option<Trouble>,
        presence: Presence,
    ) {
        let alert = self.alerts.get(name.as_str()).copied().unwrap_or_default();
        let share = self.share(name);
        // What the Prometheus rules test comes first, so that
        // each of their alerts has its node on the page (A36).
        let badness = (trouble, alert, presence == Presence::Silent, share);
        self.nodes.push((Reverse(badness), (name, node)));
    }

    /// Both are in the order of names: side by side they are passed through once, where each of
    /// thousands of nodes would be searched for.
    fn share(&mut self, name: &NodeName) -> u64 {
        let Some(shares) = &mut self.shares else { return 0 };
        // Both are in the order of names, so one pass over the shares goes along with the one over
        // nodes; a search for each would wait for memory (A72).
        while shares.next_if(|(other, _)| *other < name).is_some() {}
        shares.next_if(|(other, _)| *other == name).map_or(0, |(_, share)| *share)
    }

    /// At most this many, the worst first.
    pub(super) fn take(mut self, nodes_max: usize) -> Vec<Named<'v>> {
        // Stable: those equally bad stay in order of their names.
        self.nodes.sort_by_key(|(badness, _)| *badness);
        self.nodes.truncate(nodes_max);
        self.nodes.into_iter().map(|(_, node)| node).collect()
    }
}

fn alert_ranks(view: &ReadView) -> BTreeMap<&str, AlertRank> {
    let mut ranks = BTreeMap::new();
    let of_jobs = view.alerts.iter().filter(|(key, _)| !is_own(&key.operation));
    for (key, state) in of_jobs {
        let rank = match state {
            AlertState::Firing => AlertRank::Firing,
            AlertState::Pending => AlertRank::Pending,
            _ => AlertRank::Quiet,
        };
        let worst = ranks.entry(key.scope.node()).or_insert(rank);
        *worst = rank.max(*worst);
    }
    ranks
}
