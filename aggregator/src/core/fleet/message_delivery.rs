//! Message delivery: how long messages take from their node's sending until they are merged.
//!
//! The way from node to broker is what the message took longer than the fastest one of some
//! minutes, or half of the round trip that the node reports, whichever is more: neither depends on
//! how far the node's clock is off. From there on the broker's clock is compared with the
//! aggregator's; both are on NTP.
//!
//! Ten thousand messages a second are one histogram until the second ends. It is no part of a
//! checkpoint: after a restart the open second is missing.
//!
//! DESIGN A71.

use std::time::Duration;

use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::time::nanos;

use super::node::Node;
use crate::limits::ON_ITS_WAY_MAX;

/// Deliveries since they were last taken.
#[derive(Debug, Default)]
pub(super) struct MessageDelivery {
    since_taken: Histogram,
}

impl MessageDelivery {
    /// A message of `node` was merged, so long after the broker had stored it. The node has seen
    /// what the message shows of its clock.
    pub(super) fn on_merged(&mut self, node: &Node, since_stored: Duration) {
        let took = way(node.delay(), node.round_trip()).saturating_add(since_stored);
        self.since_taken.record(nanos(took));
    }

    /// What was delivered since this was last called, if anything was.
    pub(super) fn take(&mut self) -> Option<Packed> {
        (!self.since_taken.is_empty()).then(|| Packed::from(&self.since_taken.take()))
    }
}

/// A message's way to the broker. A link that becomes slow shows in both figures: their sum would
/// count it twice. A clock that was set back by more than a message may be under way is no delay.
fn way(delay: Duration, round_trip: Option<Duration>) -> Duration {
    // No socket holds a message for longer, so the clock was set.
    let delay = if delay > ON_ITS_WAY_MAX { Duration::ZERO } else { delay };
    delay.max(round_trip.unwrap_or_default() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_the_greater_of_its_delay_and_half_of_the_round_trip() {
        let ms = Duration::from_millis;
        for (delay, round_trip, expected) in [
            (0, None, 0),
            (0, Some(8), 4),
            (300, Some(8), 300),
            (300, Some(640), 320),
            (120_000, None, 120_000),
            (120_001, Some(8), 4),
        ] {
            let found = way(ms(delay), round_trip.map(ms));
            assert_eq!(found, ms(expected), "{delay} {round_trip:?}");
        }
        assert_eq!(way(Duration::MAX, Some(Duration::MAX)), Duration::MAX / 2);
    }
}
