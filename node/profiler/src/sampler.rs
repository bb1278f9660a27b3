//! Takes samples on a schedule and counts stacks.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_clock::Clock;
use plimsoll_profile::{
    Frame, Profile, SampleLabels, Stack, ThreadState, ValueType, WAITING_FOR_GIL,
};
use plimsoll_schemas::time::nanos;

use crate::memory::ReadError;
use crate::order::{Order, Threads};
use crate::output::{Capture, Counts, End};
use crate::reader::{Readings, ThreadReading};
use crate::schedule::Schedule;
use crate::target::Target;
use crate::target::activity::Observed;
use crate::target::presence::Presence;

/// How profiles of this program are taken.
pub(crate) const RUNG: &str = "profiler";
/// Leaf frame of a thread that collects garbage.
pub const COLLECTING: &str = "<GC>";

/// Ends a capture from another thread. Clones end the same one.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<(Mutex<bool>, Condvar)>);

/// One capture in progress.
#[derive(Debug)]
pub struct Sampler<'a> {
    target: Target,
    order: &'a Order,
    profile: Profile,
    counts: Counts,
}

impl Cancel {
    pub fn cancel(&self) {
        let (is_cancelled, changed) = &*self.0;
        *is_cancelled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Waits for a time; whether it was cancelled meanwhile or before.
    pub(crate) fn wait(&self, span: Duration) -> bool {
        let (is_cancelled, changed) = &*self.0;
        let guard = is_cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(guard, span, |is_cancelled| !*is_cancelled);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl<'a> Sampler<'a> {
    pub fn new(target: Target, order: &'a Order) -> Self {
        let profile = Profile::new(ValueType::wall(), nanos(order.period()));
        Self { target, order, profile, counts: Counts::default() }
    }

    /// Samples until the time is over, the process ends or `cancel` is used.
    pub fn run(mut self, cancel: &Cancel) -> Capture {
        let clock = Clock::start();
        let started = clock.now();
        let mut schedule = Schedule::new(self.order.period(), self.order.length);

        let ended = loop {
            let now = clock.now().mono.since(started.mono);
            let due = schedule.next(nanos(now)).map_or(self.order.length, Duration::from_nanos);
            if cancel.wait(due.saturating_sub(now)) {
                break End::Cancelled;
            }
            if due == self.order.length {
                break End::Complete;
            }
            match self.tick() {
                None => self.counts.ticks += 1,
                Some(ended) => break ended,
            }
        };

        self.counts.missed = schedule.missed();
        self.profile.started_at = started.wall;
        self.profile.duration_ns = nanos(clock.now().mono.since(started.mono));
        self.finish(ended)
    }

    /// Takes one sample; returns how the process ended if it did.
    fn tick(&mut self) -> Option<End> {
        let read = self.target.reader.sample();
        let readings = read.as_ref().map_or(&[][..], |readings| &readings.threads);
        let threads = &mut self.target.threads;
        let observed: Vec<Option<Observed>> =
            readings.iter().map(|read| threads.observe(read.native_id, read.gil)).collect();

        // Only now is it sure that all of this was of the process that is meant.
        match self.target.pin.presence() {
            Presence::Exited => return Some(End::Exited),
            Presence::Replaced => return Some(End::Replaced),
            Presence::Same => {}
        }
        match read {
            Ok(readings) => self.book(readings, observed),
            Err(ReadError::Unmapped) => self.counts.torn += 1,
            Err(ReadError::Ended) => return Some(End::Exited),
            Err(ReadError::Denied | ReadError::NoCall) => return Some(End::Denied),
        }
        None
    }

    fn book(&mut self, readings: Readings, observed: Vec<Option<Observed>>) {
        self.counts.torn += u64::from(readings.is_list_torn);
        for (reading, observed) in readings.threads.into_iter().zip(observed) {
            let ThreadReading { stack, holds_gil, is_collecting, .. } = reading;
            if self.order.threads == Threads::GilHolder && !holds_gil {
                continue;
            }
            match (stack, observed) {
                (Some(frames), _) if frames.is_empty() => self.counts.empty += 1,
                (Some(mut frames), Some(mut observed)) => {
                    if is_collecting {
                        frames.push(Frame::marker(COLLECTING));
                    }
                    // It lost the lock after that was read.
                    if self.order.threads == Threads::GilHolder
                        && observed.state == ThreadState::Gil
                    {
                        observed.state = ThreadState::Running;
                    }
                    self.book_stack(frames, observed);
                }
                // A thread that is no longer there may have ended before its stack was read.
                _ => self.counts.torn += 1,
            }
        }
    }

    fn book_stack(&mut self, mut root_first: Vec<Arc<Frame>>, observed: Observed) {
        let Observed { label: thread, state } = observed;
        // Under the function that waits, so that a flame graph shows which ones do.
        if state == ThreadState::Gil {
            root_first.push(Frame::marker(WAITING_FOR_GIL));
        }
        let labels = SampleLabels { thread, state: Some(state), ..SampleLabels::default() };
        self.profile.add(Stack::new(root_first), labels, 1);
        self.counts.whole += 1;
    }

    fn finish(mut self, ended: End) -> Capture {
        let Self { counts, target: Target { version: python, .. }, .. } = self;
        for fact in [
            format!("plimsoll.rung={RUNG}"),
            format!("plimsoll.python={python}"),
            format!("plimsoll.torn={}", counts.torn),
            format!("plimsoll.lost={}", counts.missed),
        ] {
            self.profile.add_comment(fact.into());
        }
        Capture { profile: self.profile, python, ended, counts }
    }
}
