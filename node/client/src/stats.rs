//! Counts of this process: samples recorded, acknowledged, lost and held.

use std::sync::atomic::Ordering::Relaxed;

use crate::incidents::{CANCELLED, CORRECTIONS_CUT, NOT_FINITE, PHASES_CUT};
use crate::process;
use crate::side::SIDE;

/// Counts of this process. `recorded = acknowledged + refused + held` always holds, in latency
/// samples. A forked child starts at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// False while the master switch is off, and before the first sample.
    pub enabled: bool,
    /// Samples recorded, those for expected intervals included.
    pub recorded: u64,
    /// Samples that the node has acknowledged.
    pub acknowledged: u64,
    /// Samples lost: in frames that the node rejected repeatedly, or beyond the capacity of one
    /// histogram.
    pub refused: u64,
    /// Samples not acknowledged yet.
    pub held: u64,
    /// Samples above one hour, recorded as one hour.
    pub clamped: u64,
    /// Frames that the node has acknowledged.
    pub frames: u64,
    /// Frames lost, with the counters and gauges in them.
    pub frames_refused: u64,
    /// Connections made to the node.
    pub connections: u64,
    /// Handles with an invalid name or beyond the series limit; they record into `other`.
    pub folded: u64,
    /// Futures dropped before they were done; no latency was recorded for them.
    pub cancelled: u64,
    /// Samples for expected intervals beyond the limit of one sample, not recorded.
    pub corrections_cut: u64,
    /// Values of gauges that were not finite and therefore ignored.
    pub not_finite: u64,
    /// Times that a step had no room for another phase; its time counted in what was around it.
    pub phases_cut: u64,
}

/// The current counts.
#[must_use]
pub fn stats() -> Stats {
    let state = process::state();
    let (recorded, delivery) = (state.recorded(), state.delivery);

    Stats {
        enabled: SIDE.load(Relaxed) < 2,
        recorded,
        acknowledged: delivery.acknowledged,
        refused: delivery.refused,
        held: state.held(),
        clamped: state.counts.clamped,
        frames: delivery.frames,
        frames_refused: delivery.frames_refused,
        connections: delivery.connections,
        folded: state.directory.folded,
        cancelled: CANCELLED.load(Relaxed),
        corrections_cut: CORRECTIONS_CUT.load(Relaxed),
        not_finite: NOT_FINITE.load(Relaxed),
        phases_cut: PHASES_CUT.load(Relaxed),
    }
}
