//! Samples of threads while they run, from the kernel: each thread has an event and a ring.
//!
//! The event is the task clock: it counts the time that a thread runs, on every machine. Counters
//! of the processor are absent in most virtual machines, and their period is no time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::errno::Errno;
use perf_event::data::{self, Record};
use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use plimsoll_profile::Name;
use plimsoll_schemas::time::{BootMillis, nanos};

use super::registers::{self, Start};
use crate::limits::{EVENTS_AT_ONCE_MAX, NATIVE_THREADS_MAX, RING_BYTES, STACK_DUMP_BYTES};
use crate::order::ProcessId;
use crate::target::activity;

/// The sampled threads of one process.
pub(super) struct Rings {
    pid: ProcessId,
    period_ns: u64,
    wakes: Wakes,
    pub(super) has_kernel: bool,
    poll: Poll,
    events: Events,
    rings: BTreeMap<i32, Ring>,
    /// Threads that could not be sampled.
    pub(super) unobserved: BTreeSet<i32>,
}

/// When the kernel wakes who waits for samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    EachSample,
    /// A wake takes longer than all else of a sample.
    Never,
}

struct Ring {
    sampler: Sampler,
    thread: NativeThread,
    /// Its thread has ended, and the samples before that may not have been taken.
    is_over: bool,
}

/// A thread, as its own pid namespace numbers it and as profiles name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeThread {
    pub native_id: u64,
    pub label: Name,
}

/// Where one thread stood.
pub struct NativeSample {
    pub thread: NativeThread,
    pub taken_at: BootMillis,
    pub(super) start: Start,
    /// From the top of the stack on.
    pub(super) stack: Vec<u8>,
    /// Addresses in the kernel, leaf first.
    pub(super) kernel: Vec<u64>,
}

/// What a ring has next.
pub enum Event {
    Sample(Box<NativeSample>),
    /// As many as found no room in the ring.
    Lost(u64),
    /// It had no registers of 64 bits.
    Unreadable,
    Other,
}

/// A thread whose samples can be read.
#[derive(Clone, Copy, Debug)]
pub struct Ready(i32);

impl Rings {
    /// Samples the threads that the process has now; without the kernel's frames where these may
    /// not be seen.
    ///
    /// # Errors
    /// When no thread can be sampled.
    pub(super) fn open(pid: ProcessId, period: Duration, wakes: Wakes) -> io::Result<Self> {
        let mut rings = Self {
            pid,
            period_ns: nanos(period),
            wakes,
            has_kernel: true,
            poll: Poll::new()?,
            events: Events::with_capacity(NATIVE_THREADS_MAX),
            rings: BTreeMap::new(),
            unobserved: BTreeSet::new(),
        };
        let mut failed = rings.find_threads();
        if rings.rings.is_empty() {
            rings.has_kernel = false;
            failed = rings.find_threads();
        }
        match failed {
            Some(error) if rings.rings.is_empty() => Err(error),
            _ => Ok(rings),
        }
    }

    /// Samples threads that started, and forgets those whose end it has seen before; an error of
    /// one that is not sampled.
    pub(super) fn find_threads(&mut self) -> Option<io::Error> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?;
        let tasks = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        let tasks: BTreeSet<i32> = tasks.collect();
        // All rings are read between two calls: one more time after its thread has ended.
        self.rings.retain(|id, ring| !std::mem::replace(&mut ring.is_over, !tasks.contains(id)));
        self.unobserved.clear();

        let mut failed = None;
        for id in tasks {
            if self.rings.contains_key(&id) {
                continue;
            }
            let opened = match self.rings.len() < NATIVE_THREADS_MAX {
                true => self.observe(id),
                false => Err(Errno::EMFILE.into()),
            };
            // A thread that has ended meanwhile is none.
            match opened {
                Err(error) if error.raw_os_error() != Some(Errno::ESRCH as i32) => {
                    self.unobserved.insert(id);
                    failed = Some(error);
                }
                _ => {}
            }
        }
        failed
    }

    fn observe(&mut self, id: i32) -> io::Result<()> {
        let number = u64::from(id.cast_unsigned());
        let native_id = activity::native_id(self.pid, number).ok_or(Errno::ESRCH)?;
        let label = activity::label(self.pid, number).ok_or(Errno::ESRCH)?;
        let thread = NativeThread { native_id, label };
        let mut builder = Builder::new(Software::TASK_CLOCK);
        builder.observe_pid(id).any_cpu().sample_period(self.period_ns);
        builder.wakeup_events(if self.wakes == Wakes::EachSample { 1 } else { EVENTS_AT_ONCE_MAX });
        builder.clockid(Clock::BOOTTIME).enabled(true);
        builder.sample(SampleFlag::TIME | SampleFlag::REGS_USER | SampleFlag::STACK_USER);
        builder.sample_regs_user(registers::MASK).sample_stack_user(STACK_DUMP_BYTES);
        if self.has_kernel {
            builder.exclude_kernel(false);
            builder.sample(SampleFlag::CALLCHAIN).exclude_callchain_user(true);
        }

        // Once an event is there, a ring lacks memory alone; the kernel states EPERM of both.
        let sampler = builder.build()?.sampled(RING_BYTES).map_err(|_| Errno::ENOMEM)?;
        if self.wakes == Wakes::EachSample {
            let (source, token) = (sampler.as_raw_fd(), Token(id.cast_unsigned() as usize));
            self.poll.registry().register(&mut SourceFd(&source), token, Interest::READABLE)?;
        }
        self.rings.insert(id, Ring { sampler, thread, is_over: false });
        Ok(())
    }

    /// Waits for samples, until a time is over; which threads have some.
    pub(super) fn wait(&mut self, span: Duration) -> Vec<Ready> {
        // Interrupted: nothing is ready yet.
        if self.poll.poll(&mut self.events, Some(span)).is_err() {
            return Vec::new();
        }
        let ids = self.events.iter().map(|event| event.token().0);
        ids.filter_map(|id| Some(Ready(i32::try_from(id).ok()?))).collect()
    }

    pub(super) fn all(&self) -> Vec<Ready> {
        self.rings.keys().map(|id| Ready(*id)).collect()
    }

    /// The next event of a thread.
    pub(super) fn next(&mut self, Ready(id): Ready) -> Option<Event> {
        let Ring { sampler, thread, .. } = self.rings.get_mut(&id)?;
        let record = sampler.next_record()?;
        Some(match record.parse_record() {
            Ok(Record::Sample(sample)) => {
                let sample = NativeSample::of(&sample, thread).map(Box::new);
                sample.map_or(Event::Unreadable, Event::Sample)
            }
            Ok(Record::Lost(lost)) => Event::Lost(lost.lost),
            Ok(_) => Event::Other,
            Err(_) => Event::Unreadable,
        })
    }

    pub(super) fn threads(&self) -> impl Iterator<Item = &NativeThread> {
        self.rings.values().filter(|ring| !ring.is_over).map(|ring| &ring.thread)
    }
}

impl NativeSample {
    fn of(sample: &data::Sample<'_>, thread: &NativeThread) -> Option<Self> {
        /// What this high is no address: it separates parts of a chain.
        const MARKS: u64 = u64::MAX - 4_095;
        let registers = sample.regs_user().filter(|r| r.abi == data::SampleRegsAbi::ABI_64)?;
        let kernel = sample.callchain().unwrap_or_default().iter().copied();
        Some(Self {
            thread: thread.clone(),
            taken_at: BootMillis(sample.time()? / 1_000_000),
            start: registers::start(&registers.regs)?,
            stack: sample.stack_user()?.to_vec(),
            kernel: kernel.filter(|at| *at < MARKS).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use plimsoll_clock::Stopwatch;

    use super::*;

    #[test]
    fn samples_of_a_thread_that_ended_are_taken_once_more() {
        let (started, is_started) = mpsc::channel();
        let (go, is_sampled) = mpsc::channel();
        let computing = thread::spawn(move || {
            started.send(nix::unistd::gettid().as_raw()).unwrap();
            is_sampled.recv().unwrap();
            let watch = Stopwatch::start();
            while watch.elapsed() < Duration::from_millis(200) {}
        });
        let id = is_started.recv().unwrap();
        let pid = ProcessId(i32::try_from(std::process::id()).unwrap());
        let mut rings = Rings::open(pid, Duration::from_millis(1), Wakes::Never).unwrap();
        go.send(()).unwrap();
        computing.join().unwrap();

        assert!(rings.find_threads().is_none());
        assert!(rings.threads().all(|thread| thread.native_id != u64::from(id.cast_unsigned())));
        let samples = std::iter::from_fn(|| rings.next(Ready(id)));
        let samples = samples.filter(|event| matches!(event, Event::Sample(_))).count();
        // Beside other programs it has a processor for a small part of the time.
        assert!(samples > 0);

        assert!(rings.find_threads().is_none());
        assert!(rings.next(Ready(id)).is_none() && !rings.all().iter().any(|ready| ready.0 == id));
    }
}
