//! Scrapes the pages of applications, each target in a task of its own, so that a target that
//! hangs, never ends or sends garbage delays no other. Parses no page: it passes on the bytes or
//! the failure.
//!
//! Requests no compression: on one machine bytes are cheaper than compressing them.
//!
//! DESIGN N33.

mod exchange;

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::scrape::{PAGES_BYTES_MAX, PAGES_QUEUE_MAX};
use foldhash::fast::FixedState;
use plimsoll_clock::Stopwatch;
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::nanos;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::config::Endpoint;
use crate::core::intake::promtext::{Scrape, ScrapeFailure};

/// The result of one scrape, and its share of the memory for pages while it is queued.
pub struct Scraped {
    pub scrape: Scrape,
    _memory: Option<OwnedSemaphorePermit>,
}

/// The scrape tasks, each restarted when it panics; dropping it ends them.
pub struct Scraper {
    scraped: mpsc::Receiver<Scraped>,
    _tasks: JoinSet<()>,
}

impl Scraper {
    /// Starts one task per target. The name of the node decides the phase of each target, so that
    /// the nodes of a fleet do not scrape all at once.
    pub fn start(node: &NodeName, endpoints: Vec<Endpoint>, supervisor: &Supervisor) -> Self {
        let (results, scraped) = mpsc::channel(PAGES_QUEUE_MAX);
        let memory = Arc::new(Semaphore::new(PAGES_BYTES_MAX));
        let mut tasks = JoinSet::new();
        for (target, endpoint) in endpoints.into_iter().enumerate() {
            let phase = phase(node, target, endpoint.every);
            let (memory, results) = (memory.clone(), results.clone());
            tasks.spawn(supervisor.task("scrape").run(move || {
                watch(target, endpoint.clone(), phase, memory.clone(), results.clone())
            }));
        }
        Self { scraped, _tasks: tasks }
    }

    /// The next result; `None` when there is no target.
    pub async fn next(&mut self) -> Option<Scraped> {
        self.scraped.recv().await
    }
}

fn phase(node: &NodeName, target: usize, every: Duration) -> Duration {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(node.as_str().as_bytes());
    hasher.write_usize(target);
    Duration::from_nanos(hasher.finish() % nanos(every))
}

async fn watch(
    target: usize,
    endpoint: Endpoint,
    phase: Duration,
    memory: Arc<Semaphore>,
    results: mpsc::Sender<Scraped>,
) {
    sleep(phase).await;
    let mut turns = interval(endpoint.every);
    // A target that is slower than its interval must not be asked again and again at once.
    turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut failures: u64 = 0;

    loop {
        turns.tick().await;
        let begun = Stopwatch::start();

        let (page, memory) = match endpoint.get(&memory).await {
            Ok((page, memory)) => (Ok(page), memory),
            Err(failure) => (Err(failure), None),
        };

        match &page {
            Ok(_) if failures > 0 => {
                tracing::info!(
                    target_url = endpoint.url,
                    failures,
                    "scrape target reachable again"
                );
                failures = 0;
            }
            Ok(_) => {}
            Err(failure) => {
                failures += 1;
                log_failure(&endpoint.url, failure, failures);
            }
        }

        let scrape = Scrape { target, took: begun.elapsed(), page };
        if results.send(Scraped { scrape, _memory: memory }).await.is_err() {
            return;
        }
    }
}

/// The 1st, 2nd, 4th, 8th ... failure in a row is logged.
fn log_failure(url: &str, failure: &ScrapeFailure, failures: u64) {
    if failures.is_power_of_two() {
        let reason = failure.kind.as_str();
        tracing::warn!(target_url = url, reason, failures, "scrape failed: {failure}");
    }
}

#[cfg(test)]
mod tests;
