//! The node's history on disk: one thread writes what the driver hands over and answers requests.
//! The driver waits for neither: what finds no room is counted and not kept.
//!
//! DESIGN N66.

mod error;
mod stats;
mod store;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use plimsoll_clock::Clock;
use plimsoll_runtime::priority::give_way;
use plimsoll_schemas::time::Wall;
use tokio::sync::mpsc;

use crate::config::HistorySettings;
use crate::core::Identity;
use crate::core::history::{HistoryBounds, Record};
use crate::limits::{HISTORY_NICENESS, HISTORY_QUEUE_MAX, HISTORY_REQUESTS_MAX};
pub use error::HistoryError;
pub use stats::HistoryStats;
use stats::SharedStats;
pub use store::Answer;
use store::Store;

enum Job {
    Write(Record, Wall),
    /// A request, and how long its answer may be.
    Answer(Bytes, usize),
}

#[derive(Debug)]
pub struct History {
    /// `None` when none is kept, and once it is ending.
    jobs: Option<SyncSender<Job>>,
    /// Requests go by a queue of their own, so that they take no room from records.
    requests: Arc<Mutex<usize>>,
    answers: mpsc::Receiver<Answer>,
    stats: SharedStats,
}

impl History {
    /// The history that is configured, which may be none: then nothing is written or answered.
    pub fn open(
        settings: &HistorySettings,
        identity: &Identity,
        clock: Clock,
    ) -> Result<Self, HistoryError> {
        if let Some(dir) = &settings.path {
            return Self::start(dir, identity, settings.bounds(), clock);
        }
        let (_closed, answers) = mpsc::channel(1);
        let (requests, stats) = (Arc::default(), SharedStats::default());
        Ok(Self { jobs: None, requests, answers, stats })
    }

    pub fn is_kept(&self) -> bool {
        self.jobs.is_some()
    }

    /// Opens the history of a node in `dir`, which is made if need be. A disk that cannot be used
    /// now is tried again later; until then nothing is kept, which is counted.
    pub fn start(
        dir: &Path,
        identity: &Identity,
        bounds: HistoryBounds,
        clock: Clock,
    ) -> Result<Self, HistoryError> {
        let stats = SharedStats::default();
        let mut store = Store::new(dir, identity.clone(), bounds, clock, stats.clone());
        store.open()?;
        let (jobs, to_do) = sync_channel(HISTORY_QUEUE_MAX + HISTORY_REQUESTS_MAX);
        let (out, answers) = mpsc::channel(HISTORY_REQUESTS_MAX);
        let requests = Arc::new(Mutex::new(0));
        let waiting = Arc::clone(&requests);
        std::thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || run(store, &to_do, &waiting, &out))?;
        Ok(Self { jobs: Some(jobs), requests, answers, stats })
    }

    /// Hands over a message to be kept.
    pub fn write(&self, record: Record, now: Wall) {
        let Some(jobs) = &self.jobs else { return };
        // The driver never waits for a disk: what finds no room is counted instead.
        if jobs.try_send(Job::Write(record, now)).is_err() {
            self.stats.drop_one("slow");
        }
    }

    /// Hands over a request, whose answer has `bytes_max` at most.
    pub fn request(&self, payload: Bytes, bytes_max: usize) {
        let Some(jobs) = &self.jobs else { return };
        let mut waiting = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if *waiting >= HISTORY_REQUESTS_MAX
            || jobs.try_send(Job::Answer(payload, bytes_max)).is_err()
        {
            return self.stats.count_request("busy");
        }
        *waiting += 1;
    }

    /// The next answer; never when the thread has ended. Cancel safe.
    pub async fn answer(&mut self) -> Answer {
        match self.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    pub fn stats(&self) -> HistoryStats {
        self.stats.lock().clone()
    }

    /// Writes what waits, within `wait`, and ends the thread.
    pub async fn end(mut self, wait: Duration) {
        self.jobs = None;
        let ended = async { while self.answers.recv().await.is_some() {} };
        if tokio::time::timeout(wait, ended).await.is_err() {
            tracing::warn!("history not written in time; its latest intervals are missing");
        }
    }
}

fn run(
    mut store: Store,
    jobs: &Receiver<Job>,
    waiting: &Mutex<usize>,
    answers: &mpsc::Sender<Answer>,
) {
    give_way(HISTORY_NICENESS);

    while let Ok(job) = jobs.recv() {
        match job {
            Job::Write(record, now) => store.write(&record, now),
            Job::Answer(payload, bytes_max) => {
                *waiting.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
                // The driver reads answers on each of its turns; one that has ended needs none.
                if let Some(answer) = store.answer(&payload, bytes_max)
                    && answers.blocking_send(answer).is_err()
                {
                    return;
                }
            }
        }
    }

    // Closed before the other end notices that this thread is gone.
    drop(store);
}
