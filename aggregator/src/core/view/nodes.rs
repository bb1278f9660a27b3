//! Which nodes a page shows, and what it shows of each beside latencies.

use std::fmt;
use std::sync::Arc;

use plimsoll_schemas::ids::NodeName;

use crate::core::fleet::Node;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nodes {
    /// All of them, by name.
    All,
    /// Of all that the read view has, expired ones among them, this many from this place on, by
    /// name.
    Part(usize, usize),
    /// Of a view with the fleet, at most this many, worst first: those with a `Trouble`, the worst
    /// kind first, then whose alerts fire, then pend, then the silent ones, then the greatest share
    /// of samples over a limit, then by name.
    Worst(usize),
}

/// What Prometheus scrapes about one node beside its latencies.
#[derive(Clone)]
pub struct NodeView {
    pub name: NodeName,
    /// All that is kept about it.
    pub node: Arc<Node>,
    /// True while it reports. Its last measurements are shown only then, since afterwards they are
    /// stale.
    pub is_up: bool,
}

/// Prints what is shown of it and no more: two nodes that print the same are shown the same.
impl fmt::Debug for NodeView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, node, is_up } = self;
        let numbers = (&node.counters, &node.lowered);
        let shown = (numbers, &node.events, &node.bus.value, node.account.holes());
        let gauges: Vec<_> =
            node.gauges.iter().map(|(name, latest)| (name, latest.value)).collect();
        let readings: Vec<_> = node.readings.get().iter().collect();
        let measured = is_up.then_some((gauges, readings, node.check_statuses()));
        f.debug_tuple("NodeView").field(name).field(&shown).field(&measured).finish()
    }
}
