//! The part of an operation's time in which its thread did not work, for scopes that request it.
//!
//! The thread's own CPU time does not describe a future: its thread works for others while the
//! future waits. So futures have no idle time, and a timer that measures it stays with its thread.
//!
//! DESIGN N21.

use std::marker::PhantomData;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::time::nanos;

use crate::operation::Operation;
use crate::switches::Profiler;
use crate::{process, recording};

/// Suffix of an operation's name: the operation of its idle times. The Python client uses it too.
const SUFFIX: &str = ".idle";

/// An operation whose scopes also record what of their time their thread did not work; see
/// [`Operation::with_idle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithIdle {
    operation: Operation,
    idle: Operation,
}

impl Operation {
    /// The same operation, whose scopes also record, as the operation `<operation>.idle` with the
    /// same labels, their time less the CPU time of their thread: how long it slept, waited for
    /// a lock, a disk, a socket, another process or thread, or its turn on a processor. So
    /// waiting has percentiles and can have a budget. Reading the thread's CPU time takes two
    /// system calls a scope; scopes without idle times pay nothing.
    ///
    /// There is no such thing for a future. The timer cannot leave its thread, so a future that
    /// holds one across an `await` cannot be handed to a runtime of several threads:
    ///
    /// ```compile_fail,E0277
    /// let fetch = plimsoll_client::Operation::new("fetch").with_idle();
    /// std::thread::scope(|scope| {
    ///     let timer = fetch.start();
    ///     scope.spawn(move || timer.stop());
    /// });
    /// ```
    ///
    /// A name longer than 123 bytes has no room for the suffix: its idle times fold into the
    /// operation `other` and count as [`Stats::folded`](crate::Stats::folded).
    #[must_use]
    pub fn with_idle(self) -> WithIdle {
        let series = process::state().directory.series(self.index());
        let name = format!("{}{SUFFIX}", series.operation);
        WithIdle { operation: self, idle: Self::with_labels(&name, series.labels.iter()) }
    }
}

impl WithIdle {
    /// Times from here until the returned guard goes out of scope, also by `?` or a panic.
    #[inline]
    pub fn start(&self) -> IdleTimer {
        IdleTimer {
            operation: *self,
            begun: recording::is_on(Profiler::Timers).then(Begun::now),
            stays: PhantomData,
        }
    }
}

/// A span being timed, and the CPU time of its thread; see [`WithIdle::start`].
#[derive(Debug)]
#[must_use = "it records when it is dropped, which is now"]
pub struct IdleTimer {
    operation: WithIdle,
    /// Absent once there is nothing to record.
    begun: Option<Begun>,
    /// Keeps it from other threads, whose CPU time is another.
    stays: PhantomData<*const ()>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    cpu: Option<Duration>,
    watch: Stopwatch,
}

impl Begun {
    fn now() -> Self {
        let cpu = cpu_of_thread();
        Self { cpu, watch: Stopwatch::start() }
    }
}

impl IdleTimer {
    /// Ends the span and records it.
    pub fn stop(self) {}

    /// Ends the span without recording it.
    pub fn cancel(mut self) {
        self.begun = None;
    }
}

impl Drop for IdleTimer {
    #[inline]
    fn drop(&mut self) {
        let Some(begun) = self.begun else { return };
        let whole = begun.watch.elapsed();
        self.operation.operation.record(whole);
        // Taken around the span, so it may be more than all of it.
        if let (Some(before), Some(after)) = (begun.cpu, cpu_of_thread()) {
            let idle = whole.saturating_sub(after.saturating_sub(before));
            self.operation.idle.record_ns(nanos(idle));
        }
    }
}

fn cpu_of_thread() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}
