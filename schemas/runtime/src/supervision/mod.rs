//! Supervision: a task or thread that panics is started again after a growing pause, and counted.
//!
//! A [`Supervisor`] belongs to a process and counts restarts by task; its clones share the counts.
//! A [`SupervisedTask`] runs one task. Refuses to decide what a task must recreate: each start is
//! the caller's function, and what must outlive a panic stays with the caller.
//!
//! DESIGN N48, A52.

mod backoff;

use std::any::Any;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use plimsoll_clock::Stopwatch;

pub use backoff::RestartBackoff;

/// Counts the restarts of all tasks of a process.
#[derive(Clone, Debug, Default)]
pub struct Supervisor(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Supervisor {
    /// A task under this name, which is the label of its counter. Several tasks may share one.
    pub fn task(&self, name: &'static str) -> SupervisedTask {
        self.counts().entry(name).or_default();
        // The standard library keys every hasher differently, which is all the randomness that
        // jitter needs.
        let backoff = RestartBackoff::new(RandomState::new().build_hasher().finish());
        SupervisedTask { supervisor: self.clone(), name, backoff }
    }

    /// Restarts so far, by task.
    pub fn restarts(&self) -> BTreeMap<&'static str, u64> {
        self.counts().clone()
    }

    /// Restarts of all tasks so far.
    pub fn total(&self) -> u64 {
        self.counts().values().sum()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One task, which is started again whenever it panics.
#[derive(Debug)]
pub struct SupervisedTask {
    supervisor: Supervisor,
    name: &'static str,
    backoff: RestartBackoff,
}

impl SupervisedTask {
    /// Runs a task until it returns, which it does only when its owner is gone. Each start calls
    /// `start` anew.
    pub async fn run<F: Future<Output = ()>>(mut self, mut start: impl FnMut() -> F) {
        loop {
            let began = Stopwatch::start();
            // A task shares with others only channels and locks, which a panic leaves usable.
            let task = AssertUnwindSafe(async { start().await });
            let Err(panic) = task.catch_unwind().await else { return };
            let pause = self.on_ended(began.elapsed(), text_of(&*panic));
            tokio::time::sleep(pause).await;
        }
    }

    /// Runs the body of a thread once. Returns the pause before its next start, or `None` if it is
    /// not to be started again. `body` returns whether it shall end for good.
    pub fn run_once(&mut self, body: impl FnOnce() -> bool) -> Option<Duration> {
        let began = Stopwatch::start();
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(true) => None,
            Ok(false) => Some(self.on_ended(began.elapsed(), "ended")),
            Err(panic) => Some(self.on_ended(began.elapsed(), text_of(&*panic))),
        }
    }

    /// Counts the end of a task that ran for so long, and returns the pause before its next start.
    pub fn on_ended(&mut self, ran_for: Duration, why: &str) -> Duration {
        let pause = self.backoff.on_ended(ran_for);
        let mut counts = self.supervisor.counts();
        let restarts = counts.entry(self.name).or_default();
        *restarts += 1;
        let (task, restarts, pause_s) = (self.name, *restarts, pause.as_secs_f64());
        tracing::error!(task, why, restarts, pause_s, "task ended; restarting it");
        pause
    }
}

/// The text of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_started_again_and_counted_while_others_go_on() {
        let (supervisor, starts) = (Supervisor::default(), AtomicU64::new(0));
        let failing = supervisor.task("failing").run(|| async {
            assert!(starts.fetch_add(1, Ordering::Relaxed) >= 3, "not yet");
        });
        let other = supervisor.task("other").run(|| async {});
        tokio::join!(failing, other);
        assert_eq!(starts.into_inner(), 4);
        assert_eq!(supervisor.restarts(), BTreeMap::from([("failing", 3), ("other", 0)]));
        assert_eq!(supervisor.total(), 3);
    }

    #[test]
    fn a_thread_is_started_again_after_a_panic_and_after_an_end_that_nobody_wanted() {
        let supervisor = Supervisor::default();
        let mut task = supervisor.task("thread");
        assert!(task.run_once(|| panic!("in the middle")).is_some());
        assert!(task.run_once(|| false).is_some());
        assert_eq!(task.run_once(|| true), None);
        assert_eq!(supervisor.total(), 2);
    }
}
