//! Which nodes to show where not all can be: those that someone on call would look at first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::Presence;

use super::Nodes;
use crate::core::node::Node;
use crate::core::still::Still;

/// Greater is worse: alerts, share of samples over a limit in a million, silence.
type Badness = (AlertRank, u64, bool);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum AlertRank {
    #[default]
    Quiet,
    Pending,
    Firing,
}

impl Still {
    /// The nodes that are wanted, worst first unless all are.
    pub(super) fn wanted(&self, wanted: Nodes) -> Vec<(&NodeName, &Arc<Node>)> {
        let Nodes::Worst(nodes_max) = wanted else { return self.shown().collect() };
        let alerts = self.alert_ranks();
        let badness = |(name, node): &(&NodeName, &Arc<Node>)| -> Badness {
            let alert = alerts.get(name.as_str()).copied().unwrap_or_default();
            (alert, self.share_over(node), node.presence(self.at) == Presence::Silent)
        };
        let mut nodes: Vec<_> = self.shown().map(|node| (Reverse(badness(&node)), node)).collect();
        // Stable: those equally bad stay in order of their names.
        nodes.sort_by_key(|(badness, _)| *badness);
        nodes.truncate(nodes_max);
        nodes.into_iter().map(|(_, node)| node).collect()
    }

    fn alert_ranks(&self) -> BTreeMap<&str, AlertRank> {
        let mut ranks = BTreeMap::new();
        for (key, state) in &self.alerts {
            let rank = match state {
                AlertState::Firing => AlertRank::Firing,
                AlertState::Pending => AlertRank::Pending,
                AlertState::Inactive | AlertState::Resolved => AlertRank::Quiet,
            };
            let worst = ranks.entry(key.scope.node()).or_insert(rank);
            *worst = rank.max(*worst);
        }
        ranks
    }

    /// The greatest share of samples over a budget's limit within its window, in a million.
    fn share_over(&self, node: &Node) -> u64 {
        let shares = self.budgets.iter().filter_map(|budget| {
            let windows = node.operations.get(&budget.operation)?;
            let sums = windows.sums(self.at, budget.window, budget.limit_ns);
            let share = u128::from(sums.over) * 1_000_000 / u128::from(sums.samples.max(1));
            u64::try_from(share).ok()
        });
        shares.max().unwrap_or(0)
    }
}
