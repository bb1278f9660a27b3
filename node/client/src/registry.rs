//! The state that all threads share, behind one lock: recorders, series, flush requests.
//!
//! The lock is taken by the flush, by the first record of a thread for an operation, by threads
//! that end, and by the constructors of handles; never by a warm record. A fork acquires it first
//! and releases it in parent and child, so that no child inherits it locked by a thread that the
//! child does not have. All state that a child must reset is behind this lock.
//!
//! DESIGN N41.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem::take;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::limits::TAKE_ATTEMPTS_MAX;
use plimsoll_clock::Deadline;

use crate::delivery::{DeliveryCounts, SendOutcome};
use crate::directory::Directory;
use crate::half::{Half, Samples};
use crate::incidents;
use crate::settings::Settings;
use crate::shard_log::ShardLog;
use crate::side::{COLD, OFF, SIDE};
use crate::switches;
use crate::unsent::Unsent;

static STATE: Mutex<State> = Mutex::new(State::new());
/// Wakes the flush.
static REQUESTED: Condvar = Condvar::new();
/// Wakes the threads that wait for the flush.
static REPORTED: Condvar = Condvar::new();

thread_local! {
    /// The lock, in the thread that forks, during the fork.
    static FORKING: Cell<Option<MutexGuard<'static, State>>> = const { Cell::new(None) };
    /// Number of the calling thread; zero before it recorded.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// One operation as recorded by one thread.
pub(crate) type Recorder = [Half; 2];

pub(crate) struct State {
    pub(crate) directory: Directory,
    threads: BTreeMap<u64, BTreeMap<u32, Arc<Recorder>>>,
    threads_started: u64,
    /// The thread that created this process by a fork: the only thread of the parent that goes on
    /// recording here.
    forked: u64,
    /// Samples of ended threads, and samples recorded after a thread's own variables were dropped.
    of_ended: BTreeMap<u32, Samples>,
    settings: Option<Settings>,
    is_flusher_running: bool,
    /// The connection to the node, which a child must close.
    pub(crate) descriptor: Option<RawFd>,
    pub(crate) requests: FlushRequests,
    pub(crate) counts: SampleCounts,
    pub(crate) delivery: DeliveryCounts,
    pub(crate) shards: ShardLog,
}

/// Numbers of the flushes that were requested and done.
#[derive(Clone, Copy, Default)]
pub(crate) struct FlushRequests {
    pub(crate) wanted: u64,
    /// The node has acknowledged everything recorded before this request.
    pub(crate) done: u64,
    /// The node was unreachable when this request was tried.
    pub(crate) unreachable: u64,
    /// Threads that wait.
    pub(crate) waiting: u32,
    /// The process exits normally.
    pub(crate) is_ending: bool,
}

/// Samples that the flush took from the threads so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct SampleCounts {
    pub(crate) taken: u64,
    /// Of those, above one hour.
    pub(crate) clamped: u64,
}

impl State {
    const fn new() -> Self {
        Self {
            directory: Directory::new(),
            threads: BTreeMap::new(),
            threads_started: 0,
            forked: 0,
            of_ended: BTreeMap::new(),
            settings: None,
            is_flusher_running: false,
            descriptor: None,
            requests: FlushRequests {
                wanted: 0,
                done: 0,
                unreachable: 0,
                waiting: 0,
                is_ending: false,
            },
            counts: SampleCounts { taken: 0, clamped: 0 },
            delivery: DeliveryCounts::new(),
            shards: ShardLog::new(),
        }
    }

    /// Replaces the settings of a process that has recorded nothing yet.
    pub(crate) fn set_settings(&mut self, settings: Settings) {
        self.settings = Some(settings);
    }

    /// Whether the settings switch the library on; the first call reads them and warns of those
    /// without effect.
    pub(crate) fn is_enabled(&mut self) -> bool {
        let settings = self.settings.get_or_insert_with(Settings::from_environment);
        switches::set(settings.profilers);
        switches::warn_of_settings(&settings.problems);
        settings.enabled
    }

    /// Prepares a process that has recorded nothing yet; false when the library is disabled. A
    /// forked child drops the samples of its parent's threads: the parent sends those.
    pub(crate) fn reset(&mut self) -> bool {
        if !self.is_enabled() {
            if self.settings.as_ref().is_some_and(|settings| settings.is_unset) {
                switches::warn_of_no_switch();
            }
            SIDE.store(OFF, Relaxed);
            return false;
        }

        // The thread that forked goes on writing to its recorders, which its own variables hold, so
        // the flush has to go on finding them.
        self.threads.retain(|number, _| *number == self.forked);
        for half in self.halves() {
            half.take();
        }
        self.of_ended.clear();
        self.directory.clear_values();
        (self.requests, self.counts) = (FlushRequests::default(), SampleCounts::default());
        (self.delivery, self.is_flusher_running) = (DeliveryCounts::new(), false);
        self.shards = ShardLog::new();
        incidents::reset();
        true
    }

    /// Starts the flusher with `spawn` if it does not run. A system without a thread to spare is
    /// tried again with the next flush request.
    pub(crate) fn ensure_flusher(&mut self, spawn: impl FnOnce(Settings) -> bool) {
        if self.is_flusher_running {
            return;
        }
        if let Some(settings) = self.settings.clone() {
            self.is_flusher_running = spawn(settings);
        }
    }

    fn halves(&self) -> impl Iterator<Item = &Half> {
        self.threads.values().flat_map(BTreeMap::values).flat_map(|recorder| recorder.iter())
    }

    /// Samples recorded in this process, taken by the flush or not.
    pub(crate) fn recorded(&self) -> u64 {
        let ended = self.of_ended.values().map(|ended| ended.histogram.count());
        self.halves().map(Half::untaken).chain(ended).fold(self.counts.taken, u64::saturating_add)
    }

    /// Samples that the node has not acknowledged.
    pub(crate) fn held(&self) -> u64 {
        let DeliveryCounts { acknowledged, refused, .. } = self.delivery;
        self.recorded().saturating_sub(acknowledged).saturating_sub(refused)
    }

    /// Moves all samples recorded since the last call to `unsent`, and switches writers to the
    /// other side. False when a thread was stopped in the middle of a record: its sample comes with
    /// a later call.
    pub(crate) fn take_into(&mut self, unsent: &mut Unsent) -> bool {
        let open = SIDE.load(Relaxed);
        // Neither half is open while nothing was recorded, or while the library is off.
        let Some(closed) = 1_usize.checked_sub(open) else { return true };

        // Threads that were stopped before they wrote to the closed side have written to it since.
        let is_closed_whole = self.take_side(closed, unsent);

        // Before the open half is read: a writer without a pause would make every reading of its
        // own half fail (N20).
        SIDE.store(closed, Release);
        let is_whole = self.take_side(open, unsent);

        for (index, samples) in take(&mut self.of_ended) {
            self.counts.on_taken(&samples);
            unsent.add(index, || self.directory.series(index), &samples);
        }
        unsent.take_numbers(&self.directory);
        is_whole && is_closed_whole
    }

    fn take_side(&mut self, side: usize, unsent: &mut Unsent) -> bool {
        let mut is_whole = true;
        for (index, recorder) in self.threads.values().flatten() {
            let samples = (0..TAKE_ATTEMPTS_MAX).find_map(|_| recorder[side].take());
            is_whole &= samples.is_some();
            if let Some(samples) = samples.filter(|samples| !samples.histogram.is_empty()) {
                self.counts.on_taken(&samples);
                unsent.add(*index, || self.directory.series(*index), &samples);
            }
        }
        is_whole
    }

    /// Numbers a flush that a thread waits for, and wakes the flusher.
    pub(crate) fn request_flush(&mut self) -> u64 {
        self.requests.wanted += 1;
        REQUESTED.notify_one();
        self.requests.wanted
    }

    pub(crate) fn is_flusher_running(&self) -> bool {
        self.is_flusher_running
    }
}

impl SampleCounts {
    fn on_taken(&mut self, samples: &Samples) {
        self.taken += samples.histogram.count();
        self.clamped += samples.clamped;
    }
}

/// The lock. A thread that panicked while it held the lock left consistent counts.
pub(crate) fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock, unless another thread holds it until `until`.
pub(crate) fn try_lock(until: Deadline) -> Option<MutexGuard<'static, State>> {
    loop {
        // A mutex of the standard library has no timed lock. One that is never released must not
        // keep a process from its exit.
        match STATE.try_lock() {
            Ok(state) => return Some(state),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if until.pause(Duration::from_millis(1)) => {}
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

/// Waits for a request after `served`, or for `span`.
pub(crate) fn wait_for_request(served: u64, span: Duration) -> MutexGuard<'static, State> {
    let is_idle = |state: &mut State| state.requests.wanted == served;
    let waited = REQUESTED.wait_timeout_while(lock(), span, is_idle);
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Publishes the outcome of the requests up to `wanted`.
pub(crate) fn report(delivery: DeliveryCounts, wanted: u64, outcome: SendOutcome) {
    let mut state = lock();
    state.delivery = delivery;
    match outcome {
        SendOutcome::Complete => state.requests.done = wanted,
        SendOutcome::Unreachable => state.requests.unreachable = wanted,
        SendOutcome::Waiting => {}
    }
    REPORTED.notify_all();
}

/// Waits for the next report, or until `until`.
pub(crate) fn wait_for_report(
    state: MutexGuard<'static, State>,
    until: Deadline,
) -> MutexGuard<'static, State> {
    let waited = REPORTED.wait_timeout(state, until.remaining());
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Makes a recorder of one operation for the calling thread.
pub(crate) fn enlist(index: u32) -> Arc<Recorder> {
    let mut state = lock();
    // A plain number, since a variable with a destructor may be gone while its thread still forks:
    // the child finds its only thread by it.
    if THREAD.get() == 0 {
        state.threads_started += 1;
        THREAD.set(state.threads_started);
    }

    let recorder = Arc::new([Half::new(), Half::new()]);
    let thread = state.threads.entry(THREAD.get()).or_default();
    thread.insert(index, recorder.clone());
    recorder
}

/// Takes the samples of the calling thread, which ends, and drops its recorders.
pub(crate) fn end_thread() {
    let thread = THREAD.replace(0);
    if thread == 0 {
        return;
    }
    let mut state = lock();
    let Some(recorders) = state.threads.remove(&thread) else { return };
    for (index, recorder) in recorders {
        let ended = state.of_ended.entry(index).or_default();
        // Both halves can be read: their only writer is this thread.
        recorder.iter().filter_map(Half::take).for_each(|samples| ended.merge(&samples));
    }
}

/// Records a sample of a thread whose own variables were dropped.
pub(crate) fn record_of_ended(index: u32, ns: u64) {
    lock().of_ended.entry(index).or_default().record(ns);
}

/// Acquires the lock before a fork.
pub(crate) fn before_fork() {
    // A thread that has already dropped its variables forks without the lock.
    let _dropped = FORKING.try_with(|guard| {
        let before = guard.take();
        guard.set(Some(before.unwrap_or_else(lock)));
    });
}

pub(crate) fn after_fork_in_parent() {
    let _dropped = FORKING.try_with(|guard| drop(guard.take()));
}

/// The child has one thread and no flusher. It keeps the names only; its first record starts over.
pub(crate) fn after_fork_in_child() {
    if SIDE.load(Relaxed) != OFF {
        SIDE.store(COLD, Relaxed);
    }
    let _dropped = FORKING.try_with(|guard| {
        let Some(mut state) = guard.take() else { return };
        state.forked = THREAD.get();
        if let Some(descriptor) = state.descriptor.take() {
            // If it stayed open, the node would not see the parent end.
            let _closed = nix::unistd::close(descriptor);
        }
    });
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::{Operation, Series};
    use plimsoll_schemas::unit::Unit;

    use super::*;

    #[test]
    fn a_flush_also_takes_what_came_late_to_the_side_of_the_flush_before() {
        let mut state = State::new();
        let series = Series::plain(Operation::new("epoch_hook").unwrap());
        let index = state.directory.operation(Some(series), Unit::Nanoseconds);
        let recorder = Arc::new([Half::new(), Half::new()]);
        state.threads.entry(1).or_default().insert(index, recorder.clone());
        SIDE.store(0, Relaxed);
        let mut unsent = Unsent::default();
        recorder[0].record(5);
        assert!(state.take_into(&mut unsent));
        assert_eq!(state.counts.taken, 1);
        // Chosen before that flush turned writers away, written after it.
        recorder[0].record(6);
        recorder[1].record(7);
        assert!(state.take_into(&mut unsent));
        assert_eq!((state.counts.taken, state.recorded()), (3, 3));
        SIDE.store(COLD, Relaxed);
    }
}
