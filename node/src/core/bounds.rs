//! What a configuration may move about a node's core, and where it stands when nothing is said.

use std::time::Duration;

use crate::limits;

use super::entrusted::EntrustedBounds;
use super::intake::rules::Rules;
use super::pressure::Marks;

/// The bounds of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Length of an interval.
    pub interval: Duration,
    /// Series in one interval.
    pub series_max: usize,
    /// How input is read.
    pub rules: Rules,
    /// How much is held while the broker is away, and what happens then.
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

/// The bounds of an outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxBounds {
    /// Depths at which new messages are rerouted and dropped.
    pub marks: Marks,
    /// Bytes held.
    pub bytes_max: usize,
    /// Messages held above which drafts are merged.
    pub coalesce_messages: usize,
    /// Bytes held above which drafts are merged.
    pub coalesce_bytes: usize,
    /// Messages a minute in the emergency lane.
    pub emergency_per_minute: u32,
    /// Messages that the emergency lane takes at once.
    pub emergency_burst: u32,
    /// Of those, messages that only critical ones may be.
    pub emergency_reserved: u32,
    /// Failures in a row that open the breaker.
    pub breaker_failures: u32,
    /// How long it stays open.
    pub breaker_open: Duration,
    /// Copies of acknowledged messages kept for an aggregator's confirmation.
    pub entrusted: EntrustedBounds,
    /// Age at which a draft is given up; `None` for never.
    pub ttl: Option<Duration>,
}

impl Default for OutboxBounds {
    fn default() -> Self {
        Self {
            marks: Marks {
                drop: limits::OUTBOX_MESSAGES_MAX,
                reroute: plimsoll_schemas::limits::delivery::REROUTE_MESSAGES,
                leave: limits::LEAVE_MESSAGES,
                conservative_max: limits::CONSERVATIVE_MAX,
            },
            bytes_max: limits::OUTBOX_BYTES_MAX,
            coalesce_messages: limits::COALESCE_MESSAGES,
            coalesce_bytes: limits::COALESCE_BYTES,
            emergency_per_minute: limits::EMERGENCY_PER_MINUTE,
            emergency_burst: limits::EMERGENCY_BURST,
            emergency_reserved: limits::EMERGENCY_RESERVED,
            breaker_failures: limits::BREAKER_FAILURES,
            breaker_open: limits::BREAKER_OPEN,
            entrusted: EntrustedBounds {
                messages: limits::ENTRUSTED_MESSAGES_MAX,
                bytes: limits::ENTRUSTED_BYTES_MAX,
            },
            ttl: None,
        }
    }
}
