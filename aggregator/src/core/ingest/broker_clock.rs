//! Whether the broker's clock agrees with the aggregator's: then the time at which a message was
//! stored dates its samples, however late the aggregator reads it, and two aggregators date them
//! alike.
//!
//! DESIGN A10.

use std::time::Duration;

use plimsoll_schemas::time::{Mono, Now, Wall};

use crate::limits::{BROKER_CLOCK_AGREES_WITHIN, BROKER_CLOCK_KNOWN_FOR};

/// How near messages came to being read at the time of their storage.
#[derive(Debug, Default)]
pub(super) struct BrokerClock {
    /// When the present span began.
    since: Mono,
    /// The least difference in the present span and in the one before.
    nearest: [Option<Duration>; 2],
}

impl BrokerClock {
    /// A message that was stored at `at`, by the broker's clock, is read.
    pub(super) fn on_message(&mut self, now: Now, at: Wall) {
        // Two spans in turn, so that one message that was
        // read at once counts for a whole span at least.
        if now.mono.since(self.since) >= BROKER_CLOCK_KNOWN_FOR {
            self.since = now.mono;
            self.nearest = [None, self.nearest[0]];
        }
        let apart = now.wall.since(at).max(at.since(now.wall));
        // The least counts: a message may be read late however well the clocks agree.
        let nearest = self.nearest[0].get_or_insert(apart);
        *nearest = apart.min(*nearest);
    }

    pub(super) fn on_set(&mut self) {
        self.nearest = [None, None];
    }

    /// Whether some message was read at the time of its storage, by both clocks.
    pub(super) fn agrees(&self) -> bool {
        let mut known = self.nearest.iter().flatten();
        known.any(|apart| *apart <= BROKER_CLOCK_AGREES_WITHIN)
    }
}
