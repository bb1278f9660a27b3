//! The library in one process: installs its hooks, starts the flusher, waits for flushes.

use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use crate::limits::EXIT_WAIT;
use plimsoll_clock::Deadline;

use crate::flusher;
use crate::hooks::{self, Hooks};
use crate::registry::{self, State};
use crate::side::{COLD, OFF, SIDE};

static HOOKED: AtomicBool = AtomicBool::new(false);

/// The shared state. The hooks are installed before any thread holds its lock, so that a fork by
/// another thread waits for it. Two threads may both install them, which does no harm.
pub(crate) fn state() -> MutexGuard<'static, State> {
    ensure_hooks();
    registry::lock()
}

fn ensure_hooks() {
    if !HOOKED.load(Acquire) {
        hooks::install(&Hooks { before_fork, in_parent, in_child, at_exit });
        HOOKED.store(true, Release);
    }
}

/// Starts the library with the first sample of a process; false when it is disabled.
#[cold]
pub(crate) fn start() -> bool {
    let mut state = state();
    match SIDE.load(Relaxed) {
        COLD if state.reset() => {
            state.ensure_flusher(flusher::spawn);
            SIDE.store(0, Release);
            true
        }
        COLD => false,
        side => side != OFF,
    }
}

/// Sends what this thread recorded so far, and everything else that is unsent, and waits until the
/// node has acknowledged it, at most for `within`. True when the node has, or when there is nothing
/// to send; the rest stays held.
///
/// A thread need not call it before it ends, nor a process before it exits.
#[must_use = "false means that samples are still held"]
pub fn flush(within: Duration) -> bool {
    wait_for_flush(Deadline::within(within), |_| false)
}

/// As [`flush`], but without waiting for a node that this process has never reached: a job on a
/// machine without a node must not end later.
fn flush_at_exit() {
    let never_reached = |state: &State| state.delivery.connections == 0;
    wait_for_flush(Deadline::within(EXIT_WAIT), never_reached);
}

fn wait_for_flush(until: Deadline, is_hopeless: impl Fn(&State) -> bool) -> bool {
    if SIDE.load(Relaxed) > 1 {
        return true;
    }
    let Some(mut state) = registry::try_lock(until) else { return false };
    state.ensure_flusher(flusher::spawn);
    let request = state.request_flush();
    state.requests.waiting += 1;
    while state.requests.done < request && !until.has_passed() && state.is_flusher_running() {
        if state.requests.unreachable >= request && is_hopeless(&state) {
            break;
        }
        state = registry::wait_for_report(state, until);
    }
    state.requests.waiting -= 1;
    state.requests.done >= request
}

extern "C" fn before_fork() {
    registry::before_fork();
}

extern "C" fn in_parent() {
    registry::after_fork_in_parent();
}

extern "C" fn in_child() {
    registry::after_fork_in_child();
}

extern "C" fn at_exit() {
    flush_at_exit();
}
