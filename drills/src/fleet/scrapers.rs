//! Scrapers that request the page of all nodes ten times a second, with one request at a time each.
//!
//! They only ask: their thread is apart from the one that measures, so that reading a page of
//! megabytes delays no measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Result;
use plimsoll_runtime::block_on;
use plimsoll_runtime::client::Api;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::limits::SCRAPE_EVERY;
use super::pages::Requests;

/// The name of their thread.
pub const THREAD: &str = "scrapers";

/// The thread of all scrapers.
pub struct Scrapers {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Requests>>,
}

impl Scrapers {
    /// Starts this many scrapers of `address`; none request nothing.
    ///
    /// # Errors
    /// When the thread cannot be spawned.
    pub fn start(address: String, count: u32) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let run = move || block_on(scrape(&address, count, &stopped));
        let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(run)?;
        Ok(Self { stop, thread })
    }

    /// Stops them and returns their requests.
    ///
    /// # Errors
    /// When they could not start, or panicked.
    pub fn end(self) -> Result<Requests> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| anyhow::bail!("the thread of the scrapers panicked"))
    }
}

async fn scrape(address: &str, count: u32, stop: &Arc<AtomicBool>) -> Result<Requests> {
    let mut scrapers = JoinSet::new();
    for _ in 0..count {
        scrapers.spawn(one(Api::at(address)?, stop.clone()));
    }
    let mut all = Requests::default();
    while let Some(ended) = scrapers.join_next().await {
        all.add(&ended?);
    }
    Ok(all)
}

/// One scraper. While a response takes longer than the time between two requests, the next request
/// waits for it.
async fn one(api: Api, stop: Arc<AtomicBool>) -> Requests {
    let (mut requests, mut ticks) = (Requests::default(), interval(SCRAPE_EVERY));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        requests.take(&api, "/metrics/nodes").await;
    }
    requests
}
