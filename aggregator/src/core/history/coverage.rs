//! How complete a stretch of the past is: the time of nodes that was received beside the time of
//! nodes that was expected. Both are sums, so slots of any length add up.

use serde::{Deserialize, Serialize};

/// Of one slot or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Lengths of all intervals of nodes that were merged, in nanoseconds.
    pub received_ns: u64,
    /// For how long nodes were present, each node by itself, while an aggregator ran.
    pub expected_ns: u64,
}

impl Coverage {
    /// Adds another stretch.
    pub fn add(&mut self, other: Self) {
        self.received_ns = self.received_ns.saturating_add(other.received_ns);
        self.expected_ns = self.expected_ns.saturating_add(other.expected_ns);
    }

    /// The share of what was expected that was received, at most 1; `None` when nothing was
    /// expected, as while no aggregator ran.
    #[must_use]
    pub fn ratio(self) -> Option<f64> {
        let ratio = self.received_ns as f64 / self.expected_ns as f64;
        (self.expected_ns > 0).then_some(ratio.min(1.0))
    }
}
