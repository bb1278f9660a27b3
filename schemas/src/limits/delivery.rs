//! Figures of delivery on which nodes and aggregators rely together.

use std::time::Duration;

/// Messages held from which on new ones go by the emergency lane.
pub const REROUTE_MESSAGES: usize = 4_000;
/// Wait for one acknowledgement before the same bytes are sent again.
pub const ACK_WAIT: Duration = Duration::from_secs(5);
/// Silence of all aggregators after which the newest message is sent again; it doubles.
pub const CONFIRMATION_PROBE_AFTER: Duration = Duration::from_secs(60);
/// Reasons of loss told apart for one node; further ones count as `other`.
pub const LOSS_REASONS_MAX: usize = 64;
