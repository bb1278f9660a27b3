//! The aggregator's pages while the fleet runs: how long they take, the lag that they report, and
//! how soon a sample is to be seen in them.
//!
//! Two threads: a page of megabytes delays neither the fleet's schedule nor the look for a probe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use plimsoll_clock::Stopwatch;
use plimsoll_runtime::block_on;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::time::nanos;

use super::body::PROBE;
use super::load::Load;

/// The name of both threads that poll pages.
pub const THREAD: &str = "pages";
/// From a probe's due time to the first poll for it. An aggregator serves one rendered page to all
/// requests that arrive while it renders and for as long again. A request at the due time receives
/// a page without the sample.
const FIRST_LOOK_AFTER: Duration = Duration::from_millis(30);
/// Time between two polls for a probe that is not visible yet.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time between two polls after every probe has been seen.
const GLANCE_EVERY: Duration = Duration::from_secs(1);
/// Time between two requests for the page of all nodes.
const NODES_EVERY: Duration = Duration::from_secs(15);
/// The first of those, so that a short run has one too.
const NODES_FIRST: Duration = Duration::from_secs(4);
/// Longest sleep, so that the thread stops soon after a stop request.
const STEP: Duration = Duration::from_millis(10);

/// The content of `/metrics` at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Glance {
    /// When, from the beginning of the fleet.
    pub at: Duration,
    /// Messages that its cursors have still to read.
    pub pending: f64,
    /// Samples of the probe that it shows.
    pub probes: u64,
    /// What limits of the aggregator have rejected.
    pub limited: f64,
}

/// Requests for one page.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// How long each response took.
    pub took: Histogram,
    /// Bytes of the latest one.
    pub bytes: u64,
    /// Requests without a response.
    pub failed: u64,
}

impl Requests {
    /// Requests a page and returns its text.
    pub async fn get(&mut self, api: &Api, path: &str) -> Option<String> {
        let watch = Stopwatch::start();
        match api.get(path).await {
            Ok(text) => {
                self.took.record(nanos(watch.elapsed()));
                self.bytes = text.len() as u64;
                Some(text)
            }
            Err(_) => {
                self.failed += 1;
                None
            }
        }
    }

    /// Requests a page and drops it: to read megabytes of text would take time from others.
    pub async fn take(&mut self, api: &Api, path: &str) {
        let watch = Stopwatch::start();
        match api.length(path).await {
            Ok(bytes) => {
                self.took.record(nanos(watch.elapsed()));
                self.bytes = bytes;
            }
            Err(_) => self.failed += 1,
        }
    }

    /// Adds the requests of another client.
    pub fn add(&mut self, other: &Self) {
        self.took.merge(&other.took);
        self.bytes = self.bytes.max(other.bytes);
        self.failed += other.failed;
    }
}

/// All that was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// `/metrics`.
    pub metrics: Requests,
    /// `/metrics/nodes`.
    pub nodes: Requests,
    /// Time from each probe's due time to the page that shows it, in the order of rounds.
    pub freshness: Vec<Duration>,
    /// The contents of `/metrics`, oldest first.
    pub glances: Vec<Glance>,
}

impl Seen {
    /// How long probes took that became visible in the second before `at`: the longest, or how
    /// long the oldest one that is not visible yet has been due, whichever is longer.
    pub fn shown(&self, load: Load, at: Duration) -> Duration {
        let due = |round: u64| Duration::from_nanos(load.probe_ns(round));
        let second = at.saturating_sub(Duration::from_secs(1))..at;
        let (mut longest, mut next) = (Duration::ZERO, 0);

        for (round, took) in (0..).zip(&self.freshness) {
            let visible_at = due(round) + *took;
            if visible_at >= at {
                break;
            }
            next = round + 1;
            if second.contains(&visible_at) {
                longest = longest.max(*took);
            }
        }

        let waits = next < load.rounds;
        longest.max(if waits { at.saturating_sub(due(next)) } else { Duration::ZERO })
    }
}

/// The threads that poll the pages.
pub struct Pages {
    stop: Arc<AtomicBool>,
    metrics: JoinHandle<Seen>,
    nodes: JoinHandle<Requests>,
}

impl Pages {
    /// Starts to poll the pages of `address`.
    ///
    /// # Errors
    /// When a thread cannot be spawned.
    pub fn watch(address: &str, load: Load, watch: Stopwatch) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let run = || -> Result<Run> {
            Ok(Run { api: Api::at(address)?, load, watch, stop: stop.clone() })
        };
        let thread = || std::thread::Builder::new().name(THREAD.to_owned());
        let (metrics, nodes) = (run()?, run()?);
        let metrics = thread().spawn(move || block_on(metrics.look_for_probes()))?;
        let nodes = thread().spawn(move || block_on(nodes.get_nodes()))?;
        Ok(Self { stop, metrics, nodes })
    }

    /// Stops polling.
    ///
    /// # Errors
    /// When a thread panicked.
    pub fn end(self) -> Result<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(Seen { nodes: joined(self.nodes)?, ..joined(self.metrics)? })
    }
}

fn joined<T>(thread: JoinHandle<T>) -> Result<T> {
    thread.join().map_err(|_| anyhow::anyhow!("a thread of the pages panicked"))
}

struct Run {
    api: Api,
    load: Load,
    watch: Stopwatch,
    stop: Arc<AtomicBool>,
}

impl Run {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn due(&self, round: u64) -> Duration {
        Duration::from_nanos(self.load.probe_ns(round))
    }

    /// Waits until a time of the fleet's clock; returns early when the run is over.
    async fn wait_until(&self, at: Duration) {
        while !self.is_over() {
            let left = at.saturating_sub(self.watch.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(STEP)).await;
        }
    }

    async fn look_for_probes(&self) -> Seen {
        let mut seen = Seen::default();
        while !self.is_over() {
            let sent = self.watch.elapsed();

            if let Some(text) = seen.metrics.get(&self.api, "/metrics").await {
                let glance = Glance { at: self.watch.elapsed(), ..read(&text) };
                let rounds = seen.freshness.len() as u64..glance.probes.min(self.load.rounds);
                let took = rounds.map(|round| glance.at.saturating_sub(self.due(round)));
                seen.freshness.extend(took);
                seen.glances.push(glance);
            }

            let now = self.watch.elapsed();
            let took = now.saturating_sub(sent);
            let round = seen.freshness.len() as u64;

            let pause = match (self.due(round) + FIRST_LOOK_AFTER).checked_sub(now) {
                _ if round >= self.load.rounds => GLANCE_EVERY,
                Some(left) => left,
                None => LOOK_EVERY,
            };

            // Never more than half of the time: a slow page must not be made slower.
            self.wait_until(now + pause.max(took).max(STEP)).await;
        }

        seen
    }

    async fn get_nodes(&self) -> Requests {
        let mut requests = Requests::default();
        let mut next = NODES_FIRST;
        loop {
            self.wait_until(next).await;
            if self.is_over() {
                return requests;
            }
            requests.take(&self.api, "/metrics/nodes").await;
            next += NODES_EVERY;
        }
    }
}

/// Reads what matters here from Prometheus text.
fn read(text: &str) -> Glance {
    let mut glance = Glance::default();
    let probe = format!("operation=\"{PROBE}\"");

    for line in text.lines() {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let family = series.split('{').next().unwrap_or_default();
        let value = || value.parse::<f64>().unwrap_or_default();

        match family {
            "plimsoll_aggregator_pending_messages" => glance.pending += value(),
            "plimsoll_aggregator_limited_total" => glance.limited += value(),
            "plimsoll_latency_samples_total"
                if series.contains("scope=\"fleet\"") && series.contains(&probe) =>
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a count of seconds; a cast saturates"
                )]
                let probes = value() as u64;
                glance.probes = probes;
            }
            _ => {}
        }
    }

    glance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_for_lag_and_probes() {
        let page = "# TYPE plimsoll_latency_samples_total counter\n\
            plimsoll_latency_samples_total{scope=\"fleet\",node=\"\",operation=\"probe\"} 7\n\
            plimsoll_latency_samples_total{scope=\"node\",node=\"a\",operation=\"probe\"} 9\n\
            plimsoll_latency_samples_total{scope=\"fleet\",node=\"\",operation=\"publish\"} 5\n\
            plimsoll_aggregator_pending_messages{lane=\"normal\"} 12\n\
            plimsoll_aggregator_pending_messages{lane=\"emergency\"} 1\n\
            plimsoll_aggregator_limited_total{what=\"nodes\"} 3\n";
        let expected = Glance { pending: 13.0, probes: 7, limited: 3.0, ..Glance::default() };
        assert_eq!(read(page), expected);
        assert_eq!(read("garbage\nmore garbage 1\n"), Glance::default());
    }

    #[test]
    fn a_probe_that_stays_away_grows_second_by_second_and_one_that_is_shown_counts_once() {
        let load = Load { seed: 1, interval_ns: 1_000_000_000, rounds: 3, ..Load::default() };
        let ms = Duration::from_millis;
        let second_due = Duration::from_nanos(load.probe_ns(1));
        let seen = Seen { freshness: vec![ms(40), ms(2_500)], ..Seen::default() };
        let shown = |at| seen.shown(load, at);
        assert_eq!(shown(ms(900)), ms(40));
        assert_eq!(shown(second_due + ms(1_500)), ms(1_500), "it is not visible yet");
        assert_eq!(shown(second_due + ms(2_600)), ms(2_500));
        assert_eq!(
            Seen { freshness: vec![ms(40); 3], ..Seen::default() }.shown(load, ms(60_000)),
            Duration::ZERO,
            "all are shown"
        );
    }
}
