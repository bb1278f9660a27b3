//! Which nodes to show where not all can be: those that someone on call would look at first.
//!
//! DESIGN A36.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::summary::Presence;

use super::nodes::Nodes;
use super::read_view::ReadView;
use crate::core::fleet::{Node, Trouble};

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

/// The nodes that are wanted, worst first unless all are.
pub(super) fn nodes(view: &ReadView, wanted: Nodes) -> Vec<(&NodeName, &Arc<Node>)> {
    let Nodes::Worst(nodes_max) = wanted else { return view.shown().collect() };
    let alerts = alert_ranks(view);
    let badness = |(name, node): &(&NodeName, &Arc<Node>)| -> Badness {
        let alert = alerts.get(name.as_str()).copied().unwrap_or_default();
        let trouble = node.troubles(view.at, view.gap_samples(name)).max();
        let silent = node.presence(view.at) == Presence::Silent;
        let share = view.shares.get(*name).copied().unwrap_or_default();
        (trouble, alert, silent, share)
    };
    let mut nodes: Vec<_> = view.shown().map(|node| (Reverse(badness(&node)), node)).collect();
    // Stable: those equally bad stay in order of their names.
    nodes.sort_by_key(|(badness, _)| *badness);
    nodes.truncate(nodes_max);
    nodes.into_iter().map(|(_, node)| node).collect()
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

/// How many nodes there are by their worst trouble, shown or not.
pub(super) fn troubles(view: &ReadView) -> BTreeMap<Trouble, u64> {
    let mut counts = BTreeMap::from(Trouble::ALL.map(|trouble| (trouble, 0)));
    for (name, node) in view.shown() {
        if let Some(trouble) = node.troubles(view.at, view.gap_samples(name)).max() {
            *counts.entry(trouble).or_default() += 1;
        }
    }
    counts
}
