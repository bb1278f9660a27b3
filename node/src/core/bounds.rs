//! Bounds of a node's core that a configuration sets, and their defaults.

use std::time::Duration;

use crate::limits;

use super::intake::Rules;
use super::outbox::OutboxBounds;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub interval: Duration,
    pub series_max: usize,
    /// How input is read.
    pub rules: Rules,
    /// How much is held while the broker is unreachable, and what happens beyond that.
    pub outbox: OutboxBounds,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            interval: limits::INTERVAL,
            series_max: limits::SERIES_MAX,
            rules: Rules::default(),
            outbox: OutboxBounds::default(),
        }
    }
}
