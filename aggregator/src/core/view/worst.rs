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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Core;
    use crate::core::tests::{MS, SECOND, Speaker, core, deliver, start};
    use crate::core::view::Wanted;

    fn names(core: &Core, seconds: u32, nodes: Nodes) -> Vec<String> {
        let still = core.still(start().after(seconds * SECOND).wall, "t");
        let view = still.view(Wanted { fleet: true, nodes, native: false });
        view.summary.nodes.into_iter().map(|row| row.node).collect()
    }

    #[test]
    fn the_worst_nodes_are_those_that_someone_on_call_would_look_at_first() {
        let mut core = core();
        let said = |core: &mut Core, second: u32, name, ms, n| {
            let now = start().after(second * SECOND);
            deliver(core, now, &Speaker::new(name).of(u64::from(second) + 1).say(now, ms * MS, n));
        };
        for second in 0..13 {
            said(&mut core, second, "a", 1, 200);
            said(&mut core, second, "z_slow", 40, 200);
            if second == 0 {
                said(&mut core, second, "x_mute", 1, 200);
            }
            if second >= 11 {
                said(&mut core, second, "z_slowing", 40, 200);
                // Too few to be evidence.
                said(&mut core, second, "y_few", 40, 3);
            }
            core.on_deadline(start().after(second * SECOND));
        }
        let worst = ["z_slow", "z_slowing", "y_few", "x_mute", "a"];
        for n in 0..worst.len() {
            assert_eq!(names(&core, 12, Nodes::Worst(n)), worst[..n]);
        }
        assert_eq!(names(&core, 12, Nodes::All), ["a", "x_mute", "y_few", "z_slow", "z_slowing"]);
    }

    #[test]
    fn what_is_said_of_the_fleet_does_not_depend_on_the_nodes_that_are_shown() {
        let mut core = core();
        for name in ["a", "b", "c"] {
            deliver(&mut core, start(), &Speaker::new(name).say(start(), MS, 7));
        }
        let still = core.still(start().wall, "t");
        let of = |nodes| still.view(Wanted { fleet: true, nodes, native: true }).summary;
        let (all, one) = (of(Nodes::All), of(Nodes::Worst(1)));
        assert_eq!((all.nodes.len(), one.nodes.len()), (3, 1));
        assert_eq!(
            (one.ledger.merged, &one.ledger, &one.presence),
            (21, &all.ledger, &all.presence)
        );
        assert_eq!((&one.operations[0], one.operations.len()), (&all.operations[0], 2));
    }
}
