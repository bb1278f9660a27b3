//! Takes samples on a schedule and counts stacks.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_clock::Clock;

use crate::limits::{STACKS_MAX, THREAD_TABLE_MAX};
use crate::memory::ReadError;
use crate::order::Order;
use crate::output::{
    Capture, CountedStack, End, Facts, Frame, FrameTable, ReadingCounts, StackSample, Thread,
    ThreadId, Ticks,
};
use crate::reader::{Readings, StackReading, ThreadReading};
use crate::schedule::Schedule;
use crate::target::Target;
use crate::target::activity::Observed;
use crate::target::presence::Presence;

/// Ends a capture from another thread. Clones end the same one.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    is_cancelled: Mutex<bool>,
    changed: Condvar,
}

/// One capture in progress.
#[derive(Debug)]
pub struct Sampler<'a> {
    target: Target,
    order: &'a Order,
    frames: FrameTable,
    stacks: HashMap<StackSample, u64>,
    threads: BTreeMap<ThreadId, String>,
    ticks: Ticks,
    counts: ReadingCounts,
}

impl Cancel {
    pub fn cancel(&self) {
        *self.0.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }

    /// Waits for a time; whether it was cancelled meanwhile or before.
    pub(crate) fn wait(&self, span: Duration) -> bool {
        let guard = self.0.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.changed.wait_timeout_while(guard, span, |is_cancelled| !*is_cancelled);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl<'a> Sampler<'a> {
    pub fn new(target: Target, order: &'a Order) -> Self {
        Self {
            target,
            order,
            frames: FrameTable::default(),
            stacks: HashMap::new(),
            threads: BTreeMap::new(),
            ticks: Ticks::default(),
            counts: ReadingCounts::default(),
        }
    }

    /// Samples until the time is over, the process ends or `cancel` is used.
    pub fn run(mut self, cancel: &Cancel) -> Capture {
        let clock = Clock::start();
        let started = clock.now();
        let mut schedule = Schedule::new(self.order.rate.period(), self.order.length);

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
                None => self.ticks.taken += 1,
                Some(ended) => break ended,
            }
        };

        let seconds = clock.now().mono.since(started.mono).as_secs_f64();
        self.ticks.missed = schedule.missed();
        let started = Duration::from_nanos(started.wall.0).as_secs_f64();
        self.finish(&Timing { started_unix_seconds: started, seconds, ended })
    }

    /// Takes one sample; returns how the process ended if it did.
    fn tick(&mut self) -> Option<End> {
        let read = self.target.reader.sample(&mut self.frames);
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
            Ok(readings) => self.book(readings, &observed),
            Err(ReadError::Unmapped) => self.ticks.torn_lists += 1,
            Err(ReadError::Ended) => return Some(End::Exited),
            Err(ReadError::Denied | ReadError::NoCall) => return Some(End::Denied),
        }
        None
    }

    fn book(&mut self, readings: Readings, observed: &[Option<Observed>]) {
        self.ticks.torn_lists += u64::from(readings.is_list_torn);
        for (reading, observed) in readings.threads.into_iter().zip(observed) {
            self.book_thread(reading, *observed);
        }
    }

    fn book_thread(&mut self, reading: ThreadReading, observed: Option<Observed>) {
        let (frames, is_truncated) = match reading.stack {
            StackReading::Empty => return self.counts.empty += 1,
            StackReading::Torn => return self.counts.torn += 1,
            StackReading::Unnamed => return self.counts.overflowed += 1,
            StackReading::Whole { frames, is_truncated } => (frames, is_truncated),
        };
        // A thread that is no longer there may have ended before its stack was read.
        let Some(Observed { id, activity }) = observed else { return self.counts.torn += 1 };

        let stack = StackSample { thread: id, activity, frames, is_truncated };
        let is_known = self.stacks.contains_key(&stack);
        if !self.has_named(id) || (!is_known && self.stacks.len() == STACKS_MAX) {
            return self.counts.overflowed += 1;
        }
        *self.stacks.entry(stack).or_default() += 1;
        self.counts.whole += 1;
        self.counts.truncated += u64::from(is_truncated);
    }

    /// Whether the thread has a row, if need be a new one.
    fn has_named(&mut self, id: ThreadId) -> bool {
        if self.threads.contains_key(&id) {
            return true;
        }
        if self.threads.len() == THREAD_TABLE_MAX {
            return false;
        }
        let name = self.target.threads.name(id).unwrap_or_default();
        self.threads.insert(id, name);
        true
    }

    fn finish(mut self, timing: &Timing) -> Capture {
        // Threads are named after they start.
        for (id, name) in &mut self.threads {
            if let Some(now) = self.target.threads.name(*id) {
                *name = now;
            }
        }

        let mut stacks: Vec<CountedStack> =
            self.stacks.into_iter().map(|(stack, count)| CountedStack { stack, count }).collect();
        stacks.sort_by(|a, b| (b.count, &a.stack).cmp(&(a.count, &b.stack)));
        let facts = Facts {
            pid: self.target.pid.0,
            python: self.target.version.to_string(),
            started_unix_seconds: timing.started_unix_seconds,
            seconds: timing.seconds,
            rate_hz: self.order.rate.hz(),
            reached_hz: per_second(self.ticks.taken, timing.seconds),
            ended: timing.ended,
            ticks: self.ticks,
            readings: self.counts,
        };
        let threads = self.threads.into_iter().map(|(id, name)| Thread { id, name }).collect();
        let frames = in_use(&self.frames.into_rows(), &mut stacks);
        Capture { facts, threads, frames, stacks }
    }
}

/// The rows that stacks refer to, which refer to the new places: others are of what was given up.
fn in_use(rows: &[Frame], stacks: &mut [CountedStack]) -> Vec<Frame> {
    let mut used = FrameTable::default();
    for row in stacks.iter_mut().flat_map(|stack| &mut stack.stack.frames) {
        let frame = rows.get(row.0 as usize).cloned();
        *row = frame.and_then(|frame| used.row(frame)).unwrap_or(*row);
    }
    used.into_rows()
}

struct Timing {
    started_unix_seconds: f64,
    seconds: f64,
    ended: End,
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn per_second(count: u64, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a capture has fewer than 2^52 samples")]
    let count = count as f64;
    if seconds > 0.0 { count / seconds } else { 0.0 }
}
