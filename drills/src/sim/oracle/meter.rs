//! Compares a node's emergency lane with its rate limit, from the messages that it sends alone.

use crate::sim::plan::Depths;
use crate::sim::schedule::Time;

/// Units of a token: this many come in every nanosecond as there are tokens a minute.
const TOKEN: u64 = 60_000_000_000;

/// A bucket that must never run dry.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    per_minute: u64,
    capacity: u64,
    reserved: u64,
    level: u64,
    filled_at: Time,
}

impl Meter {
    pub(super) fn new(depths: Depths) -> Self {
        let (per_minute, burst, reserved) = depths.tokens;
        let capacity = u64::from(burst) * TOKEN;
        Self {
            per_minute: u64::from(per_minute),
            capacity,
            reserved: u64::from(reserved) * TOKEN,
            level: capacity,
            filled_at: 0,
        }
    }

    /// A message is sent at this time on the node's own clock.
    ///
    /// # Errors
    /// When it is one too many.
    pub(super) fn on_sent(&mut self, mono: Time, is_critical: bool) -> Result<(), &'static str> {
        let grown = mono.saturating_sub(self.filled_at).saturating_mul(self.per_minute);
        self.level = self.level.saturating_add(grown).min(self.capacity);
        self.filled_at = self.filled_at.max(mono);
        if self.level < TOKEN {
            return Err("more messages in the emergency lane than its rate allows");
        }
        self.level -= TOKEN;
        if !is_critical && self.level < self.reserved {
            return Err("an everyday message took a token kept for critical ones");
        }
        Ok(())
    }
}
