//! Looks at the pages of applications, each target on a task of its own: one that hangs, never
//! ends or sends rubbish delays nobody. Reads no page: it hands over what came, or why nothing did.
//!
//! Asks for nothing compressed: beside the node, bytes are cheaper than their compression.

mod endpoint;
mod exchange;

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::scrape::{PAGES_BYTES_MAX, PAGES_QUEUE_MAX};
use foldhash::fast::FixedState;
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::nanos;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::core::intake::promtext::Scrape;
pub use endpoint::Endpoint;

/// What a look brought, and the room that it takes while it waits.
pub struct Looked {
    /// What it brought.
    pub scrape: Scrape,
    _room: Option<OwnedSemaphorePermit>,
}

/// The tasks that look; they end when it is dropped.
pub struct Scraper {
    looked: mpsc::Receiver<Looked>,
    _tasks: JoinSet<()>,
}

impl Scraper {
    /// Begins to look. `node` decides when each target has its turn, so that the nodes of a fleet
    /// do not all ask at once.
    #[must_use]
    pub fn start(node: &NodeName, endpoints: Vec<Endpoint>) -> Self {
        let (tell, looked) = mpsc::channel(PAGES_QUEUE_MAX);
        let room = Arc::new(Semaphore::new(PAGES_BYTES_MAX));
        let mut tasks = JoinSet::new();
        for (target, endpoint) in endpoints.into_iter().enumerate() {
            let phase = phase(node, target, endpoint.every);
            tasks.spawn(watch(target, endpoint, phase, room.clone(), tell.clone()));
        }
        Self { looked, _tasks: tasks }
    }

    /// The next look that is over; `None` where there is no target.
    pub async fn next(&mut self) -> Option<Looked> {
        self.looked.recv().await
    }
}

/// How long a target waits for its first look.
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
    room: Arc<Semaphore>,
    tell: mpsc::Sender<Looked>,
) {
    sleep(phase).await;
    let mut turns = interval(endpoint.every);
    turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut failures: u64 = 0;
    loop {
        turns.tick().await;
        let begun = Stopwatch::start();
        let (page, room) = match endpoint.look(&room).await {
            Ok((page, room)) => (Ok(page), room),
            Err(failure) => (Err(failure), None),
        };
        match &page {
            Ok(_) if failures > 0 => {
                tracing::info!(target_url = endpoint.url, failures, "target answers again");
                failures = 0;
            }
            Ok(_) => {}
            Err(failure) => {
                failures += 1;
                complain(&endpoint.url, failure.as_str(), failures);
            }
        }
        let scrape = Scrape { target, took: begun.elapsed(), page };
        if tell.send(Looked { scrape, _room: room }).await.is_err() {
            return;
        }
    }
}

/// The 1st, 2nd, 4th, 8th ... failure in a row is logged.
fn complain(url: &str, reason: &str, failures: u64) {
    if failures.is_power_of_two() {
        tracing::warn!(
            target_url = url,
            reason,
            failures,
            "no page of a target; check scrape.url, and that it answers within timeout_seconds"
        );
    }
}

#[cfg(test)]
mod tests;
