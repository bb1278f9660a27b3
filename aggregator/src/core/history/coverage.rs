//! How complete a stretch of the past is: the time of nodes that was received beside the time of
//! nodes that was expected. All are sums, so slots of any length add up.

use std::time::Duration;

use plimsoll_schemas::time::nanos;

use serde::{Deserialize, Serialize};

/// Of one slot or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Lengths of all intervals of nodes that were merged, in nanoseconds.
    pub received_ns: u64,
    /// For how long nodes were present, each node by itself, while an aggregator ran.
    pub expected_ns: u64,
    /// For how long an aggregator ran.
    pub observed_ns: u64,
}

impl Coverage {
    pub fn add(&mut self, other: Self) {
        self.received_ns = self.received_ns.saturating_add(other.received_ns);
        self.expected_ns = self.expected_ns.saturating_add(other.expected_ns);
        self.observed_ns = self.observed_ns.saturating_add(other.observed_ns);
    }

    /// The share of what was expected that was received in so long a stretch, at most 1; `None`
    /// when nothing was expected, or no aggregator ran for more than a tenth of it: what streams
    /// bring of that time later must not pay for what is missing of the rest.
    pub fn ratio(self, length: Duration) -> Option<f64> {
        let is_observed = self.observed_ns / 9 >= nanos(length) / 10;
        let ratio = self.received_ns as f64 / self.expected_ns as f64;
        (is_observed && self.expected_ns > 0).then_some(ratio.min(1.0))
    }
}

/// So much time of this many nodes, in nanoseconds.
pub(super) fn node_time(span: Duration, nodes: usize) -> u64 {
    nanos(span).saturating_mul(u64::try_from(nodes).unwrap_or(u64::MAX))
}
