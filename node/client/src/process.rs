//! The library in one process: installs its hooks, starts the flusher, waits for flushes.

use std::ffi::{c_int, c_void};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use crate::limits::EXIT_WAIT;
use plimsoll_clock::Deadline;

use crate::config::{Config, ConfigError};
use crate::flusher;
use crate::hooks::{self, Hooks};
use crate::registry::{self, State};
use crate::settings::Settings;
use crate::side::{COLD, OFF, SIDE};

static HOOKED: AtomicBool = AtomicBool::new(false);
/// Forks that led to this process, since the hooks are installed.
static FORKS: AtomicU32 = AtomicU32::new(0);

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

/// A number that changes in a forked child. The id of the process would take a system call.
pub(crate) fn forks() -> u32 {
    FORKS.load(Relaxed)
}

/// Starts the library with the first sample of a process; false when it is disabled.
#[cold]
pub(crate) fn start() -> bool {
    let mut state = state();
    match SIDE.load(Relaxed) {
        COLD if state.reset() => {
            state.ensure_flusher(flusher::spawn);
            // Last: from here on other threads record without the lock.
            SIDE.store(0, Release);
            true
        }
        COLD => false,
        side => side != OFF,
    }
}

/// Sets this process up, before its first value; later calls replace earlier ones until then.
///
/// # Errors
/// When nothing was changed, and why.
pub fn configure(config: Config) -> Result<(), ConfigError> {
    config.check()?;
    let mut state = state();
    // A half is open: its samples would be lost, or sent under other labels than they were recorded
    // with (N54).
    if SIDE.load(Relaxed) < 2 {
        return Err(ConfigError::Started);
    }
    state.set_settings(Settings::from_environment_and(config));
    // A process that was off tries again with its next value.
    let _was_off = SIDE.compare_exchange(OFF, COLD, Relaxed, Relaxed);
    Ok(())
}

/// Sends what this thread recorded so far, and everything else that is unsent, and waits until the
/// node has acknowledged it, at most for `within`. What is not acknowledged stays held.
///
/// A thread need not call it before it ends, nor a process before it exits.
#[must_use = "samples may still be held"]
pub fn flush(within: Duration) -> FlushOutcome {
    wait_for_flush(Deadline::within(within), |_| false)
}

/// What a [`flush`] achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushOutcome {
    /// The library is switched off, so nothing was recorded.
    Disabled,
    /// The node has acknowledged everything recorded before, or there was nothing.
    Delivered,
    /// The node cannot be reached; this many samples are held.
    Unreachable {
        /// Samples held.
        held: u64,
    },
    /// The node is connected and has not answered in time; this many samples are held.
    TimedOut {
        /// Samples held.
        held: u64,
    },
}

impl FlushOutcome {
    /// Whether the node has everything.
    #[must_use]
    pub const fn is_delivered(self) -> bool {
        matches!(self, Self::Delivered)
    }
}

/// As [`flush`], but without waiting for a node that this process has never reached: a job on a
/// machine without a node must not end later. A process that exits with 0 has ended normally,
/// and its last frame reports it.
fn flush_at_exit(status: i32) {
    let until = Deadline::within(EXIT_WAIT);
    if SIDE.load(Relaxed) < 2
        && status == 0
        && let Some(mut state) = registry::try_lock(until)
    {
        state.requests.is_ending = true;
    }
    // A node that was reached before may be restarting, and is worth the wait.
    let never_reached = |state: &State| state.delivery.connections == 0;
    let _outcome = wait_for_flush(until, never_reached);
}

fn wait_for_flush(until: Deadline, is_hopeless: impl Fn(&State) -> bool) -> FlushOutcome {
    match SIDE.load(Relaxed) {
        OFF => return FlushOutcome::Disabled,
        COLD => return of_idle_process(),
        _ => {}
    }

    let Some(mut state) = registry::try_lock(until) else {
        return FlushOutcome::TimedOut { held: 0 };
    };

    // A system that had no thread to spare before may have one now.
    state.ensure_flusher(flusher::spawn);
    let request = state.request_flush();
    state.requests.waiting += 1;

    // Without a flusher no report ever comes.
    while state.requests.done < request && !until.has_passed() && state.is_flusher_running() {
        if state.requests.unreachable >= request && is_hopeless(&state) {
            break;
        }
        state = registry::wait_for_report(state, until);
    }

    state.requests.waiting -= 1;
    let held = state.held();

    match state.requests {
        requests if requests.done >= request => FlushOutcome::Delivered,
        requests if requests.unreachable >= request => FlushOutcome::Unreachable { held },
        _ => FlushOutcome::TimedOut { held },
    }
}

/// Nothing was recorded yet.
fn of_idle_process() -> FlushOutcome {
    match state().is_enabled() {
        true => FlushOutcome::Delivered,
        false => FlushOutcome::Disabled,
    }
}

extern "C" fn before_fork() {
    registry::before_fork();
}

extern "C" fn in_parent() {
    registry::after_fork_in_parent();
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
    registry::after_fork_in_child();
}

extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    flush_at_exit(status);
}
