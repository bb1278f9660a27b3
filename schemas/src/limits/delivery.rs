//! Limits of delivery that nodes and aggregators must agree on.

use std::time::Duration;

/// Messages in the outbox, as they were produced, from which on the newest go to the emergency
/// lane.
pub const REROUTE_MESSAGES: usize = 4_000;
/// Pressure of an outbox from which on they do, in millionths, see `wire::Bus::outbox_pressure`.
pub const REROUTE_PRESSURE: u64 = 500_000;
/// Wait for one acknowledgement before the same bytes are sent again.
pub const ACK_WAIT: Duration = Duration::from_secs(5);
/// Time without a confirmation after which the newest message is sent again; it doubles.
pub const CONFIRMATION_PROBE_AFTER: Duration = Duration::from_secs(60);
/// Distinct loss reasons of one node; further ones count as `other`.
pub const LOSS_REASONS_MAX: usize = 64;
