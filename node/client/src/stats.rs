//! What became of what was recorded, and waiting for it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::limits::EXIT_WAIT;
use plimsoll_clock::Deadline;

use crate::gate::{self, State};
use crate::local::SIDE;

/// Corrections for expected intervals that were not made, since one sample asked for too many.
pub(crate) static CORRECTIONS_CUT: AtomicU64 = AtomicU64::new(0);
/// Futures dropped before they were done.
pub(crate) static CANCELLED: AtomicU64 = AtomicU64::new(0);
/// Values of gauges that are no number.
pub(crate) static NOT_FINITE: AtomicU64 = AtomicU64::new(0);

/// An account of this process. `recorded = acknowledged + refused + held`, in samples of
/// latency, at every moment; a forked child begins with an account of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// False while `PLIMSOLL_ENABLE` says no, and before the first sample.
    pub enabled: bool,
    /// Samples recorded, those for expected intervals included.
    pub recorded: u64,
    /// Samples that the node has answered for.
    pub acknowledged: u64,
    /// Samples given up: in frames that the node refused again and again, or beyond what one
    /// histogram may hold.
    pub refused: u64,
    /// Samples not yet answered for.
    pub held: u64,
    /// Samples above one hour, which count as one hour.
    pub clamped: u64,
    /// Frames that the node has answered for.
    pub frames: u64,
    /// Frames that were given up, with the counters and gauges in them.
    pub frames_refused: u64,
    /// Connections made to the node.
    pub connections: u64,
    /// Handles whose name was invalid or one too many; they record into `other`.
    pub folded: u64,
    /// Futures dropped before they were done; no latency was recorded for them.
    pub cancelled: u64,
    /// Samples that an expected interval asked for beyond what one sample may stand for.
    pub corrections_cut: u64,
    /// Values of gauges that were not finite and thus not set.
    pub not_finite: u64,
}

/// The account as of now.
#[must_use]
pub fn stats() -> Stats {
    let state = gate::lock();
    let (recorded, account) = (state.recorded(), state.account);
    Stats {
        enabled: SIDE.load(Relaxed) < 2,
        recorded,
        acknowledged: account.acknowledged,
        refused: account.refused,
        held: recorded.saturating_sub(account.acknowledged).saturating_sub(account.refused),
        clamped: state.tally.clamped,
        frames: account.frames,
        frames_refused: account.frames_refused,
        connections: account.connections,
        folded: state.directory.folded,
        cancelled: CANCELLED.load(Relaxed),
        corrections_cut: CORRECTIONS_CUT.load(Relaxed),
        not_finite: NOT_FINITE.load(Relaxed),
    }
}

/// Sends what this thread recorded so far, and whatever else is there, and waits until the node
/// has answered for it, at most for `within`. True when it has, or when there is nothing to
/// answer for; what was not answered for stays held.
///
/// A thread has no need to call it before it ends, nor a process before it exits.
#[must_use = "false means that samples are still held"]
pub fn flush(within: Duration) -> bool {
    wait_for_flush(Deadline::within(within), |_| false)
}

/// As [`flush`], but without waiting for a node that this process has never reached: whoever
/// runs a job where there is no node shall not notice.
pub(crate) fn flush_at_exit() {
    let never_reached = |state: &State| state.account.connections == 0;
    wait_for_flush(Deadline::within(EXIT_WAIT), never_reached);
}

fn wait_for_flush(until: Deadline, is_hopeless: impl Fn(&State) -> bool) -> bool {
    if SIDE.load(Relaxed) > 1 {
        return true;
    }
    let Some(mut state) = gate::try_lock(until) else { return false };
    let order = state.order();
    state.orders.waiting += 1;
    while state.orders.done < order && !until.has_passed() && state.is_flushing() {
        if state.orders.away >= order && is_hopeless(&state) {
            break;
        }
        state = gate::wait_for_report(state, until);
    }
    state.orders.waiting -= 1;
    state.orders.done >= order
}

/// Begins the account anew, in a child.
pub(crate) fn forget() {
    for figure in [&CORRECTIONS_CUT, &CANCELLED, &NOT_FINITE] {
        figure.store(0, Relaxed);
    }
}
