//! Takes samples on a schedule and counts stacks. `native` takes those of native code in between,
//! `together` those of several captures in one thread.

mod native;
pub(crate) mod together;

use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use native::{NativeStack, off_cpu};
use plimsoll_clock::{Clock, Deadline};
use plimsoll_profile::{
    Frame, Profile, SampleLabels, Stack, ThreadState, ValueType, WAITING_FOR_GIL,
};
use plimsoll_schemas::time::{Mono, Now, nanos};

use crate::memory::ReadError;
use crate::native::{Native, Ready};
use crate::order::{Order, Threads};
use crate::output::{Capture, Counts, End};
use crate::reader::{Readings, ThreadReading, WholeStack};
use crate::schedule::Schedule;
use crate::target::Target;
use crate::target::activity::Observed;
use crate::target::presence::Presence;

/// How profiles of this program are taken.
pub(crate) const RUNG: &str = "profiler";
/// Leaf frame of a thread that collects garbage.
pub const COLLECTING: &str = "<GC>";
/// Of all captures: what they do at the same instants wakes the machine once.
static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::start);
/// Time in which a cancelled capture ends.
const CANCEL_STEP: Duration = Duration::from_millis(100);

/// Ends a capture from another thread. Clones end the same one.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<(Mutex<bool>, Condvar)>);

/// A capture in steps.
pub(crate) trait Steps: Send + 'static {
    /// When the next one is due.
    fn due(&self) -> Mono;
    /// How the capture ended if it did.
    fn step(&mut self, is_cancelled: bool) -> Option<End>;
    fn finish(self, ended: End) -> Capture;
    /// All steps that are left.
    fn run(self, cancel: &Cancel) -> Capture;
}

/// One capture in progress.
pub struct Sampler {
    target: Target,
    order: Order,
    /// Periods that a tick stands for.
    stride: u32,
    profile: Profile,
    counts: Counts,
    /// Since the last look at the process.
    taken: Vec<NativeStack>,
    started: Now,
    schedule: Schedule,
    /// When the next sample is due; `None` after the last.
    due: Option<Mono>,
}

impl Cancel {
    pub fn cancel(&self) {
        let (is_cancelled, changed) = &*self.0;
        *is_cancelled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    fn is_cancelled(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a time; whether it was cancelled meanwhile or before.
    pub(crate) fn wait(&self, span: Duration) -> bool {
        let (is_cancelled, changed) = &*self.0;
        let guard = is_cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(guard, span, |is_cancelled| !*is_cancelled);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Sampler {
    /// Starts a capture, whose first sample is due within a period or now.
    pub fn new(target: Target, order: &Order) -> Self {
        let mut profile = Profile::new(ValueType::wall(), nanos(order.period()));
        let stride = native::stride(&target, order.period());
        let started = CLOCK.now();
        profile.started_at = started.wall;
        let end = started.mono.plus(order.length);
        let mut schedule = Schedule::new(order.period() * stride, started.mono, end);
        let due = schedule.next(started.mono);
        let (order, counts, taken) = (order.clone(), Counts::default(), Vec::new());
        Self { target, order, stride, profile, counts, taken, started, schedule, due }
    }

    /// Waits for the next tick, and takes native samples; whether it was cancelled.
    fn wait(&mut self, span: Duration, cancel: &Cancel) -> bool {
        let deadline = Deadline::within(span);
        // Python's frames are read right after each sample; without, samples keep until the tick.
        let is_at_once = self.target.native.is_some() && self.target.python.is_some();
        while is_at_once && !deadline.has_passed() {
            let step = deadline.remaining().min(CANCEL_STEP);
            self.take(|native| native.wait(step));
            if cancel.wait(Duration::ZERO) {
                return true;
            }
        }

        let is_cancelled = cancel.wait(deadline.remaining());
        self.take(Native::all);
        is_cancelled
    }

    fn take(&mut self, ready: impl FnOnce(&mut Native) -> Vec<Ready>) {
        let ready = self.target.native.as_mut().map(ready).unwrap_or_default();
        native::take(&mut self.target, ready, &mut self.counts, &mut self.taken);
    }

    /// Books native stacks once it is sure that they are of the process that is meant; how it ended
    /// if it did.
    fn settle(&mut self) -> Option<End> {
        match self.target.pin.presence() {
            Presence::Exited => return Some(End::Exited),
            Presence::Replaced => return Some(End::Replaced),
            Presence::Same => {}
        }
        for NativeStack { label, frames } in std::mem::take(&mut self.taken) {
            match frames {
                Some(frames) => {
                    let observed = Observed { label, state: ThreadState::Running };
                    self.add(Stack::new(frames), observed, 1);
                }
                None => self.counts.torn += 1,
            }
        }
        None
    }

    /// Takes one sample; returns how the process ended if it did.
    fn tick(&mut self) -> Option<End> {
        let threads = &mut self.target.threads;
        threads.start_sample();
        let read = match (&mut self.target.python, &self.target.native) {
            (Some(python), _) => python.reader.sample(|native_id| threads.stands(native_id)),
            (None, native) => Ok(off_cpu(native.iter().flat_map(Native::threads))),
        };
        let readings = read.as_ref().map_or(&[][..], |readings| &readings.threads);
        let observed: Vec<Option<Observed>> =
            readings.iter().map(|reading| threads.observe(reading)).collect();

        // Only now is it sure that all of this was of the process that is meant.
        let ended = self.settle();
        if ended.is_some() {
            return ended;
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
        let is_native = self.target.native.is_some();
        self.counts.torn += u64::from(readings.is_list_torn);
        for (reading, observed) in readings.threads.into_iter().zip(observed) {
            let ThreadReading { stack, holds_gil, is_collecting, .. } = reading;
            if self.order.threads == Threads::GilHolder && !holds_gil {
                continue;
            }

            match (stack, observed) {
                // Its stacks are native samples.
                (_, Some(observed)) if is_native && observed.state == ThreadState::Running => {}
                (Some(frames), _) if frames.is_empty() => self.counts.empty += 1,
                (Some(frames), Some(mut observed)) => {
                    // It lost the lock after that was read.
                    if self.order.threads == Threads::GilHolder
                        && observed.state == ThreadState::Gil
                    {
                        observed.state = ThreadState::Running;
                    }

                    // Under the function that waits, so that a flame graph shows which ones do.
                    let marker = match observed.state {
                        ThreadState::Gil => Some(WAITING_FOR_GIL),
                        _ => is_collecting.then_some(COLLECTING),
                    };
                    self.add(marked(frames, marker), observed, self.stride);
                }
                // A thread that is no longer there may have ended before its stack was read.
                _ => self.counts.torn += 1,
            }
        }
    }

    fn add(&mut self, stack: Stack, observed: Observed, periods: u32) {
        let Observed { label: thread, state } = observed;
        let labels = SampleLabels { thread, state: Some(state), ..SampleLabels::default() };
        self.profile.add(stack, labels, periods.into());
        self.counts.whole += u64::from(periods);
    }
}

impl Steps for Sampler {
    fn due(&self) -> Mono {
        self.due.unwrap_or(self.started.mono.plus(self.order.length))
    }

    fn step(&mut self, is_cancelled: bool) -> Option<End> {
        if is_cancelled || self.due.is_none() {
            let ended = if is_cancelled { End::Cancelled } else { End::Complete };
            return Some(self.settle().unwrap_or(ended));
        }
        let ended = self.tick();
        if ended.is_none() {
            self.counts.ticks += u64::from(self.stride);
            self.due = self.schedule.next(CLOCK.now().mono);
        }
        ended
    }

    fn finish(mut self, ended: End) -> Capture {
        self.counts.missed += self.schedule.missed() * u64::from(self.stride);
        self.profile.duration_ns = nanos(CLOCK.now().mono.since(self.started.mono));
        let Self { counts, target: Target { python, native, .. }, .. } = self;
        let python = python.map(|python| python.version);
        let native = native.map(|native| native.facts());
        let facts = [
            Some(format!("plimsoll.rung={RUNG}")),
            python.map(|version| format!("plimsoll.python={version}")),
            native.map(|native| format!("plimsoll.native={native}")),
            Some(format!("plimsoll.torn={}", counts.torn)),
            Some(format!("plimsoll.lost={}", counts.missed)),
        ];
        facts.into_iter().flatten().for_each(|fact| self.profile.add_comment(fact.into()));
        Capture { profile: self.profile, python, native, ended, counts }
    }

    fn run(mut self, cancel: &Cancel) -> Capture {
        loop {
            let span = self.due().since(CLOCK.now().mono);
            let is_cancelled = self.wait(span, cancel);
            if let Some(ended) = self.step(is_cancelled) {
                return self.finish(ended);
            }
        }
    }
}

/// The stack with a further leaf, if there is one.
fn marked(frames: WholeStack, marker: Option<&str>) -> Stack {
    match marker {
        Some(name) => Stack::new(frames.iter().cloned().chain([Frame::marker(name)]).collect()),
        None => frames.into(),
    }
}
