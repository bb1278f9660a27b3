//! Bounds of the outbox and their defaults.

use std::time::Duration;

use crate::limits;

use super::pressure::Thresholds;
use super::unconfirmed::UnconfirmedBounds;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxBounds {
    /// Loads at which messages overtake and are dropped.
    pub thresholds: Thresholds,
    /// Messages held above which drafts are merged.
    pub coalesce_messages: usize,
    /// Bytes held above which drafts are merged.
    pub coalesce_bytes: usize,
    pub emergency_per_minute: u32,
    pub emergency_burst: u32,
    /// Part of the burst that is reserved for critical messages.
    pub emergency_reserved: u32,
    pub breaker_failures: u32,
    pub breaker_open: Duration,
    /// Shortest time between two refusals of a message that count.
    pub refusal_every: Duration,
    /// Copies of acknowledged messages kept until an aggregator confirms them.
    pub unconfirmed: UnconfirmedBounds,
    /// Age at which a draft expires; `None` for never.
    pub ttl: Option<Duration>,
}

impl Default for OutboxBounds {
    fn default() -> Self {
        Self {
            thresholds: Thresholds::of(
                limits::OUTBOX_MESSAGES_MAX as u64,
                limits::OUTBOX_BYTES_MAX,
            ),
            coalesce_messages: limits::COALESCE_MESSAGES,
            coalesce_bytes: limits::COALESCE_BYTES,
            emergency_per_minute: limits::EMERGENCY_PER_MINUTE,
            emergency_burst: limits::EMERGENCY_BURST,
            emergency_reserved: limits::EMERGENCY_RESERVED,
            breaker_failures: limits::BREAKER_FAILURES,
            breaker_open: limits::BREAKER_OPEN,
            refusal_every: limits::REFUSAL_EVERY,
            unconfirmed: UnconfirmedBounds {
                messages: limits::UNCONFIRMED_MESSAGES_MAX,
                bytes: limits::UNCONFIRMED_BYTES_MAX,
                required: *limits::CONFIRMATIONS_REQUIRED.start(),
            },
            ttl: None,
        }
    }
}
