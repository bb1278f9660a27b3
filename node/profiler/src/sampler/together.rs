//! Captures that one thread takes together: what is due at the same instants wakes an idle machine
//! once, and finds its caches warm.
//!
//! A process may make its memory slow to read, or hang who reads it. So a capture whose step was
//! slow gets a thread of its own, and while a step hangs, another thread takes the other captures.
//!
//! DESIGN N102.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::time::Mono;

use super::{CANCEL_STEP, CLOCK, Cancel, Sampler, Steps};
use crate::limits::{STEP_HANGS_AFTER, STEP_SLOW_AFTER, TOGETHER_HZ_MAX};
use crate::order::Order;
use crate::output::Capture;

/// The captures, of which each has its connection's thread waiting for it.
pub(crate) struct Together<S = Sampler>(Arc<(Mutex<State<S>>, Condvar)>);

struct State<S> {
    /// But for the one of which a step is being done.
    seats: Vec<Seat<S>>,
    /// Number of the thread that does the steps; one that was replaced ends.
    thread: u64,
    /// When it started the step that it does.
    step_at: Option<Mono>,
}

/// A capture among others.
struct Seat<S> {
    sampler: S,
    cancel: Cancel,
    done: SyncSender<Capture>,
}

/// Whether a capture takes samples so seldom that others have room between them.
pub(crate) fn is_for_all(order: &Order) -> bool {
    !order.native && order.hz() <= TOGETHER_HZ_MAX
}

impl<S: Steps> Together<S> {
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start() -> io::Result<Self> {
        let state = State { seats: Vec::new(), thread: 0, step_at: None };
        let together = Self(Arc::new((Mutex::new(state), Condvar::new())));
        together.start_thread(0)?;
        Ok(together)
    }

    /// Waits until a capture has ended.
    pub(crate) fn run(&self, sampler: S, cancel: &Cancel) -> Capture {
        let (done, captured) = sync_channel(1);
        self.lock().seats.push(Seat { sampler, cancel: cancel.clone(), done });
        self.0.1.notify_one();
        loop {
            match captured.recv_timeout(STEP_HANGS_AFTER) {
                Ok(capture) => return capture,
                Err(RecvTimeoutError::Timeout) => self.replace_hanging(),
                Err(RecvTimeoutError::Disconnected) => {
                    tracing::error!("the thread of captures has ended: the service ends");
                    std::process::exit(Exit::Failure as i32)
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_thread(&self, number: u64) -> io::Result<()> {
        let together = Self(self.0.clone());
        let named = thread::Builder::new().name("captures".to_owned());
        named.spawn(move || together.take(number)).map(drop)
    }

    /// Starts another thread if the present one hangs; the capture at which it does is for the
    /// watch of its own order.
    fn replace_hanging(&self) {
        let mut state = self.lock();
        let since = state.step_at.map(|at| CLOCK.now().mono.since(at));
        if since.is_none_or(|since| since < STEP_HANGS_AFTER) {
            return;
        }
        match self.start_thread(state.thread + 1) {
            Ok(()) => (state.thread, state.step_at) = (state.thread + 1, None),
            Err(error) => tracing::error!(%error, "captures wait for a process that hangs"),
        }
    }

    /// Does what is due until this thread is replaced.
    fn take(&self, number: u64) {
        let changed = &self.0.1;
        let mut state = self.lock();
        while state.thread == number {
            let now = CLOCK.now().mono;
            let first = (0..state.seats.len()).min_by_key(|at| state.seats[*at].due());
            let Some(first) = first else {
                state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let due = state.seats[first].due();
            if due > now {
                let span = due.since(now).min(CANCEL_STEP);
                let waited = changed.wait_timeout(state, span);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }

            let seat = state.seats.swap_remove(first);
            state.step_at = Some(now);
            drop(state);
            let seat = seat.step();
            let is_slow = CLOCK.now().mono.since(now) > STEP_SLOW_AFTER;

            state = self.lock();
            let is_replaced = state.thread != number;
            if !is_replaced {
                state.step_at = None;
            }
            match seat {
                None => {}
                Some(seat) if is_slow || is_replaced => seat.leave(),
                Some(seat) => state.seats.push(seat),
            }
        }
    }
}

impl<S: Steps> Seat<S> {
    fn due(&self) -> Mono {
        if self.cancel.is_cancelled() { Mono(0) } else { self.sampler.due() }
    }

    /// Does what is due; `None` once it has ended.
    fn step(mut self) -> Option<Self> {
        let ended = self.sampler.step(self.cancel.is_cancelled());
        match ended {
            None => Some(self),
            Some(ended) => {
                // There is room: it is the only one.
                let _sent = self.done.send(self.sampler.finish(ended));
                None
            }
        }
    }

    /// Goes on in a thread of its own.
    fn leave(self) {
        let Self { sampler, cancel, done } = self;
        thread::spawn(move || done.send(sampler.run(&cancel)).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;
    use std::time::Duration;

    use plimsoll_profile::{Name, Profile, ValueType};

    use super::*;
    use crate::output::{Counts, End};

    /// A capture whose first step lasts until something comes, and which ends after some more.
    struct Fake {
        first: Option<(Receiver<()>, Duration)>,
        left: u64,
        counts: Counts,
        /// The names of the threads that took steps.
        threads: Vec<String>,
    }

    impl Steps for Fake {
        fn due(&self) -> Mono {
            Mono(0)
        }

        fn step(&mut self, is_cancelled: bool) -> Option<End> {
            if let Some((until, most)) = self.first.take() {
                let _waited = until.recv_timeout(most);
            }
            let thread = thread::current();
            self.threads.push(thread.name().unwrap_or_default().to_owned());
            self.counts.ticks += 1;
            match self.left.checked_sub(1) {
                _ if is_cancelled => Some(End::Cancelled),
                None => Some(End::Complete),
                Some(left) => {
                    self.left = left;
                    None
                }
            }
        }

        fn finish(self, ended: End) -> Capture {
            let mut profile = Profile::new(ValueType::wall(), 1);
            self.threads.iter().for_each(|name| profile.add_comment(name.as_str().into()));
            Capture { profile, python: None, native: None, ended, counts: self.counts }
        }

        fn run(mut self, cancel: &Cancel) -> Capture {
            loop {
                if let Some(ended) = self.step(cancel.is_cancelled()) {
                    return self.finish(ended);
                }
            }
        }
    }

    fn fake(first: Option<(Receiver<()>, Duration)>) -> Fake {
        Fake { first, left: 3, counts: Counts::default(), threads: Vec::new() }
    }

    /// The names of the threads that took a capture.
    fn threads(of: &Capture) -> Vec<&str> {
        of.profile.comments().map(Name::as_str).collect()
    }

    #[test]
    fn a_slow_capture_leaves_and_a_hanging_one_keeps_its_thread() {
        let together = Together::start().unwrap();
        let run = |fake| together.run(fake, &Cancel::default());
        let (_slow, until) = sync_channel(0);
        let slow = run(fake(Some((until, 2 * STEP_SLOW_AFTER))));
        assert_eq!((slow.ended, slow.counts.ticks), (End::Complete, 4));
        assert_eq!(threads(&slow), ["", "captures"]);

        let (hangs, until) = sync_channel(0);
        thread::scope(|scope| {
            let hanging = scope.spawn(|| run(fake(Some((until, Duration::from_secs(600))))));
            while together.lock().step_at.is_none() {
                thread::yield_now();
            }
            // Beside it, and after it.
            for _ in 0..2 {
                let other = run(fake(None));
                assert_eq!((threads(&other), other.counts.ticks), (vec!["captures"], 4));
            }
            assert_eq!(together.lock().thread, 1);
            drop(hangs);
            assert_eq!(hanging.join().unwrap().counts.ticks, 4);
        });

        let cancel = Cancel::default();
        cancel.cancel();
        let cancelled = together.run(fake(None), &cancel);
        assert_eq!((cancelled.ended, cancelled.counts.ticks), (End::Cancelled, 1));
    }
}
