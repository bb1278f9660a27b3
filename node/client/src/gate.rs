//! The one lock of the library: who records, what is asked of the flush, and forks.
//!
//! Taken by the flush, by the first record of a thread for an operation, by threads that end,
//! and by whoever makes a handle; never by a warm record. A fork waits for it and holds it until
//! parent and child each have it back, so that no child ever finds it locked by a thread that it
//! does not have. All that a child must put right is behind this lock.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem::take;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::limits::TAKE_ATTEMPTS_MAX;
use plimsoll_clock::Deadline;

use crate::directory::Directory;
use crate::half::{Half, Taken};
use crate::held::Held;
use crate::local::{self, COLD, Local, OFF, Recorder, SIDE};
use crate::sender::{Account, Outcome};
use crate::settings::Settings;
use crate::{flusher, hooks, stats};

static STATE: Mutex<State> = Mutex::new(State::new());
static HOOKED: AtomicBool = AtomicBool::new(false);
/// Wakes the flush.
static WANTED: Condvar = Condvar::new();
/// Wakes those who wait for the flush.
static SERVED: Condvar = Condvar::new();

thread_local! {
    /// The lock, in the thread that forks, while it forks.
    static FORKING: Cell<Option<MutexGuard<'static, State>>> = const { Cell::new(None) };
}

pub(crate) struct State {
    pub(crate) directory: Directory,
    threads: BTreeMap<u64, BTreeMap<u32, Arc<Recorder>>>,
    threads_begun: u64,
    /// The thread that made this process by a fork: of its parent's it alone goes on recording.
    forked: u64,
    /// What ended threads left, and what was recorded after a thread's own variables had gone.
    late: BTreeMap<u32, Taken>,
    settings: Option<Settings>,
    flushing: bool,
    /// The connection to the node, which a child must not keep open.
    pub(crate) descriptor: Option<RawFd>,
    pub(crate) orders: Orders,
    pub(crate) tally: Tally,
    pub(crate) account: Account,
}

/// Flushes that somebody waits for, by number.
#[derive(Clone, Copy, Default)]
pub(crate) struct Orders {
    pub(crate) wanted: u64,
    /// All that was recorded before this order was given has been answered for.
    pub(crate) done: u64,
    /// The node was away when this order was tried.
    pub(crate) away: u64,
    /// How many wait.
    pub(crate) waiting: u32,
}

/// What was taken from the threads so far, in samples.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) taken: u64,
    /// Of those, above one hour.
    pub(crate) clamped: u64,
}

impl State {
    const fn new() -> Self {
        Self {
            directory: Directory::new(),
            threads: BTreeMap::new(),
            threads_begun: 0,
            forked: 0,
            late: BTreeMap::new(),
            settings: None,
            flushing: false,
            descriptor: None,
            orders: Orders { wanted: 0, done: 0, away: 0, waiting: 0 },
            tally: Tally { taken: 0, clamped: 0 },
            account: Account::new(),
        }
    }

    /// Begins anew in a process that has recorded nothing yet: also in a child, which drops what
    /// its parent's threads recorded. That is the parent's to send.
    fn begin(&mut self) -> bool {
        let settings = self.settings.get_or_insert_with(Settings::from_environment);
        if !settings.enabled {
            SIDE.store(OFF, Relaxed);
            return false;
        }
        self.threads.retain(|number, _| *number == self.forked);
        for half in self.halves() {
            half.take();
        }
        self.late.clear();
        self.directory.forget_values();
        (self.orders, self.tally) = (Orders::default(), Tally::default());
        (self.account, self.flushing) = (Account::new(), false);
        stats::forget();
        self.ensure_flusher();
        SIDE.store(0, Release);
        true
    }

    /// Starts the flush where it does not run; a system without a thread to spare is asked again
    /// with the next flush that somebody wants.
    pub(crate) fn ensure_flusher(&mut self) {
        if self.flushing {
            return;
        }
        if let Some(settings) = self.settings.clone() {
            self.flushing = flusher::spawn(settings);
        }
    }

    fn halves(&self) -> impl Iterator<Item = &Half> {
        self.threads.values().flat_map(BTreeMap::values).flat_map(|recorder| recorder.iter())
    }

    /// Samples recorded in this process, whether they were taken yet or not.
    pub(crate) fn recorded(&self) -> u64 {
        let late = self.late.values().map(|late| late.histogram.count());
        self.halves().map(Half::untaken).chain(late).fold(self.tally.taken, u64::saturating_add)
    }

    /// Gives all that was recorded since the last time to `held`, and turns writers to the other
    /// side. False when a thread was stopped in the middle of a record: what it wrote to that
    /// side comes with a later call.
    pub(crate) fn take_into(&mut self, held: &mut Held) -> bool {
        let open = SIDE.load(Relaxed);
        let Some(closed) = 1_usize.checked_sub(open) else { return true };
        // Threads that were stopped on their way to the closed side have written to it late.
        let is_late_whole = self.take_side(closed, held);
        SIDE.store(closed, Release);
        let is_whole = self.take_side(open, held);
        for (index, taken) in take(&mut self.late) {
            self.tally.on_taken(&taken);
            held.add(index, || self.directory.series(index), &taken);
        }
        held.take_numbers(&self.directory);
        is_whole && is_late_whole
    }

    fn take_side(&mut self, side: usize, held: &mut Held) -> bool {
        let mut is_whole = true;
        for (index, recorder) in self.threads.values().flatten() {
            let taken = (0..TAKE_ATTEMPTS_MAX).find_map(|_| recorder[side].take());
            is_whole &= taken.is_some();
            if let Some(taken) = taken.filter(|taken| !taken.histogram.is_empty()) {
                self.tally.on_taken(&taken);
                held.add(*index, || self.directory.series(*index), &taken);
            }
        }
        is_whole
    }

    /// Numbers a flush that somebody waits for, and wakes the thread that does it.
    pub(crate) fn order(&mut self) -> u64 {
        self.ensure_flusher();
        self.orders.wanted += 1;
        WANTED.notify_one();
        self.orders.wanted
    }

    pub(crate) fn is_flushing(&self) -> bool {
        self.flushing
    }
}

impl Tally {
    fn on_taken(&mut self, taken: &Taken) {
        self.taken += taken.histogram.count();
        self.clamped += taken.clamped;
    }
}

/// The lock; whoever panicked while holding it left figures that are right nevertheless.
pub(crate) fn lock() -> MutexGuard<'static, State> {
    hook();
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Before anyone holds the lock, forks must know of it: also one that another thread is about
/// to make. Two threads may both get here first; the hooks bear being there twice.
fn hook() {
    if !HOOKED.load(Acquire) {
        hooks::install();
        HOOKED.store(true, Release);
    }
}

/// The lock, unless it cannot be had until then.
pub(crate) fn try_lock(until: Deadline) -> Option<MutexGuard<'static, State>> {
    hook();
    loop {
        match STATE.try_lock() {
            Ok(state) => return Some(state),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if until.pause(Duration::from_millis(1)) => {}
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

/// Waits for an order after `served`, or until `span` is over.
pub(crate) fn wait_for_order(served: u64, span: Duration) -> MutexGuard<'static, State> {
    let idle = |state: &mut State| state.orders.wanted == served;
    let waited = WANTED.wait_timeout_while(lock(), span, idle);
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Tells what became of the orders up to `wanted`.
pub(crate) fn report(account: Account, wanted: u64, outcome: Outcome) {
    let mut state = lock();
    state.account = account;
    match outcome {
        Outcome::Answered => state.orders.done = wanted,
        Outcome::Away => state.orders.away = wanted,
        Outcome::Waiting => {}
    }
    SERVED.notify_all();
}

/// Waits for the next report, or until then.
pub(crate) fn wait_for_report(
    state: MutexGuard<'static, State>,
    until: Deadline,
) -> MutexGuard<'static, State> {
    let waited = SERVED.wait_timeout(state, until.remaining());
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Begins where nobody has; false when the library is switched off.
#[cold]
pub(crate) fn start() -> bool {
    let mut state = lock();
    match SIDE.load(Relaxed) {
        COLD => state.begin(),
        side => side != OFF,
    }
}

/// Makes a recorder of one operation for the calling thread.
pub(crate) fn enlist(local: &Local, index: u32) {
    let mut state = lock();
    if local.thread.get() == 0 {
        state.threads_begun += 1;
        local.thread.set(state.threads_begun);
    }
    let recorder = Arc::new([Half::new(), Half::new()]);
    let thread = state.threads.entry(local.thread.get()).or_default();
    thread.insert(index, recorder.clone());
    local.keep(index as usize, recorder);
}

/// Takes over what an ending thread recorded, and frees its recorders.
pub(crate) fn end_thread(thread: u64) {
    let mut state = lock();
    let Some(recorders) = state.threads.remove(&thread) else { return };
    for (index, recorder) in recorders {
        let late = state.late.entry(index).or_default();
        recorder.iter().filter_map(Half::take).for_each(|taken| late.merge(&taken));
    }
}

/// Records where a thread has no variables of its own any more.
pub(crate) fn record_late(index: u32, ns: u64) {
    lock().late.entry(index).or_default().record(ns);
}

pub(crate) fn before_fork() {
    // A thread so far gone that it has no variables forks without the lock.
    let _gone = FORKING.try_with(|held| {
        let before = held.take();
        held.set(Some(before.unwrap_or_else(lock)));
    });
}

pub(crate) fn after_fork_in_parent() {
    let _gone = FORKING.try_with(|held| drop(held.take()));
}

/// The child has one thread and no flush. It takes nothing along but the names; its first record
/// begins anew.
pub(crate) fn after_fork_in_child() {
    if SIDE.load(Relaxed) != OFF {
        SIDE.store(COLD, Relaxed);
    }
    let _gone = FORKING.try_with(|held| {
        let Some(mut state) = held.take() else { return };
        state.forked = local::thread();
        if let Some(descriptor) = state.descriptor.take() {
            // Left open, it would keep the node from seeing the parent end.
            let _closed = nix::unistd::close(descriptor);
        }
    });
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
