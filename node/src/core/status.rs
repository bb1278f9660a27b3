//! A snapshot of a node's statistics, for its own metrics, pages and logs.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::LossReason;
use plimsoll_schemas::wire::confirmation::LatencyLimit;
use plimsoll_schemas::wire::{Bus, Totals};

use super::captures::CaptureStats;
use super::continuous::ContinuousStats;
use super::intake::IntakeStats;
use super::intake::otlp::OtlpStats;
use super::outbox::{BreakerState, DeadLetterStats};
use super::spool::SpoolStats;

/// Confirmations received from aggregators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfirmationStats {
    pub accepted: u64,
    /// Confirmations that could not be read or cannot be true, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
}

impl ConfirmationStats {
    /// Those that were rejected, as a bus message has them.
    pub(super) fn by_reason(&self) -> BTreeMap<LossReason, u64> {
        let reason = |reason| LossReason::new(reason).expect("a constant of letters");
        self.rejected.iter().map(|(of, n)| (reason(of), *n)).collect()
    }
}

#[derive(Clone, Debug)]
pub struct Status {
    pub intake: IntakeStats,
    pub otlp: OtlpStats,
    /// Samples recorded, and of those lost.
    pub totals: Totals,
    /// Samples that were lost before a message could carry them, whatever the reason.
    pub never_sent_samples: u64,
    /// Samples of the open interval that the node took of itself, which no note states.
    pub own_open_samples: u64,
    /// Samples in messages that the broker has not acknowledged.
    pub held_samples: u64,
    /// Samples in messages that no aggregator has confirmed yet.
    pub unconfirmed_samples: u64,
    /// Bytes of those messages.
    pub unconfirmed_bytes: usize,
    /// Events and service checks dropped before they were sent, by reason.
    pub events_lost: BTreeMap<&'static str, u64>,
    pub confirmations: ConfirmationStats,
    /// Operations that the broker did not permit.
    pub denials: u64,
    pub dead_letters: DeadLetterStats,
    /// The spool; all zero without one.
    pub spool: SpoolStats,
    /// Ordered captures.
    pub captures: CaptureStats,
    /// Continuous profiling; `None` when it is off.
    pub continuous: Option<ContinuousStats>,
    /// Messages sent and not yet acknowledged.
    pub in_flight: usize,
    /// Series in the open interval.
    pub series: usize,
    /// Limits over which samples are counted exactly.
    pub limits: Vec<LatencyLimit>,
    /// Whether messages can be sent.
    pub connected: bool,
    pub breaker: BreakerState,
    /// Critical messages that overtook others by the emergency lane.
    pub critical_rerouted: u64,
    /// Messages sent by the emergency lane because the rules declare what is in them critical.
    pub sent_at_once: u64,
    /// Message counters as the node reports them to the aggregator.
    pub bus: Bus,
}
