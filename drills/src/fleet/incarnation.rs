//! What a simulated node loses when it is killed and begins again: its incarnation, its numbers,
//! its totals and which readings it has sent.
//!
//! DESIGN D33.

use std::collections::BTreeMap;

use plimsoll_node::core::sent_readings::SentReadings;
use plimsoll_schemas::ids::{Incarnation, LossReason};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::Totals;

/// One incarnation of a node, from its start to its end.
#[derive(Debug)]
pub struct NodeIncarnation {
    pub name: Incarnation,
    /// The number of its newest message, which is how many it has made.
    pub seq: u64,
    /// Its messages that the broker has acknowledged.
    pub acknowledged: u64,
    /// Its totals, as its next message reports them.
    pub totals: Totals,
    /// The readings that it has sent.
    pub sent_readings: SentReadings,
}

impl NodeIncarnation {
    /// An incarnation that begins at this time of the node's clock.
    pub fn begin(at: Wall) -> Self {
        Self {
            name: Incarnation(at.0.max(1)),
            seq: 0,
            acknowledged: 0,
            totals: Totals::default(),
            sent_readings: SentReadings::default(),
        }
    }

    /// Counts samples as lost for `reason`.
    pub fn lose(&mut self, reason: &'static str, samples: u64) {
        let reason = LossReason::new(reason).expect("a constant of letters and underscores");
        *self.totals.lost.entry(reason).or_default() += samples;
    }
}

/// Samples that these incarnations have lost, by reason.
pub fn lost<'a>(incarnations: impl Iterator<Item = &'a NodeIncarnation>) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for (reason, samples) in incarnations.flat_map(|incarnation| &incarnation.totals.lost) {
        *sum.entry(reason.to_string()).or_default() += samples;
    }
    sum
}
