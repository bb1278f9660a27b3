//! Starts the sampling threads, restarts those that panic, wakes them to end, and counts how many
//! still run.
//!
//! Threads are counted, not joined: a join on one that hangs in a driver would never return.
//!
//! DESIGN N35, N48.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::limits::SENSOR_RELIST_EVERY;
use plimsoll_clock::Clock;
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::time::{Mono, nanos};

/// What the threads and their owner share.
#[derive(Debug, Default)]
pub(super) struct Lifeline {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    cut: bool,
    threads: usize,
}

impl Lifeline {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a named thread that is counted until it ends, by whatever way. `body` runs until
    /// the lifeline is cut; if it ends or panics before, it is called again after a pause.
    pub(super) fn spawn(
        self: &Arc<Self>,
        supervisor: &Supervisor,
        name: &'static str,
        body: impl FnMut(&Lifeline) + Send + 'static,
    ) {
        // Before it starts, so that no wait for all threads can miss it.
        self.state().threads += 1;
        let counted = Counted(Arc::clone(self));
        let mut task = supervisor.task(name);

        let run = move || {
            // Dropped in reverse order: what `body` holds goes before the thread counts as ended.
            let (counted, mut body) = (counted, body);
            let lifeline = &*counted.0;

            let mut attempt = || {
                body(lifeline);
                lifeline.state().cut
            };

            while let Some(pause) = task.run_once(&mut attempt) {
                if !lifeline.rest(pause) {
                    return;
                }
            }
        };

        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        if let Err(error) = thread {
            tracing::error!(%error, thread = name, "hardware thread did not start");
        }
    }

    pub(super) fn cut(&self) {
        self.state().cut = true;
        self.changed.notify_all();
    }

    /// Rests for `span` or until cut; true when the thread shall go on.
    pub(super) fn rest(&self, span: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), span, |state| !state.cut);
        !waited.unwrap_or_else(PoisonError::into_inner).0.cut
    }

    /// Waits for all threads to end, at most `span`; how many have not.
    pub(super) fn await_threads(&self, span: Duration) -> usize {
        let waited = self.changed.wait_timeout_while(self.state(), span, |state| state.threads > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.threads
    }

    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.state().threads
    }
}

struct Counted(Arc<Lifeline>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.state().threads -= 1;
        self.0.changed.notify_all();
    }
}

/// A steady beat: a turn that took too long loses beats but not the phase.
pub(super) struct Pace {
    clock: Clock,
    every: Duration,
    last: Mono,
}

impl Pace {
    pub(super) fn new(clock: Clock, every: Duration) -> Self {
        Self { clock, every, last: clock.now().mono }
    }

    /// Rests until the next beat; false when the thread shall end.
    pub(super) fn rest(&mut self, lifeline: &Lifeline) -> bool {
        let now = self.clock.now().mono;
        self.last = next_beat(self.last, now, self.every);
        lifeline.rest(self.last.since(now))
    }
}

/// When to list again what comes and goes; at once the first time.
#[derive(Default)]
pub(super) struct Relist(Mono);

impl Relist {
    /// True each [`SENSOR_RELIST_EVERY`], beginning now.
    pub(super) fn is_due(&mut self, now: Mono) -> bool {
        let due = now >= self.0;
        if due {
            self.0 = now.plus(SENSOR_RELIST_EVERY);
        }
        due
    }

    /// Something has gone: the next sample is due.
    pub(super) fn hurry(&mut self) {
        self.0 = Mono(0);
    }
}

fn next_beat(last: Mono, now: Mono, every: Duration) -> Mono {
    let every = nanos(every).max(1);
    let beats = nanos(now.since(last)) / every + 1;
    Mono(last.0.saturating_add(beats.saturating_mul(every)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_turn_skips_beats_and_keeps_the_phase() {
        let every = Duration::from_nanos(10);
        for (last, now, next) in [(0, 0, 10), (0, 9, 10), (0, 10, 20), (0, 37, 40), (50, 40, 60)] {
            assert_eq!(next_beat(Mono(last), Mono(now), every), Mono(next), "{last} {now}");
        }
    }

    #[test]
    fn a_cut_ends_a_resting_thread_at_once() {
        let lifeline = Arc::new(Lifeline::default());
        let hour = Duration::from_secs(3_600);
        lifeline.spawn(
            &Supervisor::default(),
            "resting",
            move |lifeline| {
                while lifeline.rest(hour) {}
            },
        );
        assert_eq!(lifeline.threads(), 1);
        lifeline.cut();
        assert_eq!(lifeline.await_threads(Duration::from_secs(10)), 0);
    }

    #[test]
    fn a_thread_that_does_not_end_is_counted_and_not_waited_for() {
        let lifeline = Arc::new(Lifeline::default());
        let (release, held) = std::sync::mpsc::channel::<()>();
        lifeline.spawn(&Supervisor::default(), "hanging", move |_| assert!(held.recv().is_err()));
        lifeline.cut();
        assert_eq!(lifeline.await_threads(Duration::from_millis(5)), 1);
        drop(release);
        assert_eq!(lifeline.await_threads(Duration::from_secs(10)), 0);
    }
}
