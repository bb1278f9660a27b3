//! Processes are killed under load. Counts neither shrink nor grow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::oracle::{RawSamples, check_drained};
use plimsoll_tests::process::{await_summary, fleet_samples, node_row, operation_row};
use tokio::task::JoinHandle;

/// More often than the aggregator builds a new read view.
const SCRAPE_EVERY: Duration = Duration::from_millis(20);
const WAIT: Duration = Duration::from_secs(60);
/// Counters that a restart must not set back, since they are read from the stream again.
const KEPT: [&str; 4] = [
    "plimsoll_latency_samples_total",
    "plimsoll_latency_sum_seconds_total",
    "plimsoll_node_merged_samples_total",
    "plimsoll_node_recorded_samples_total",
];

async fn started(dir: &tempfile::TempDir) -> Stack {
    Stack::start(with_jobs(dir.path())).await.unwrap()
}

/// Waits until the fleet has `more` hooks than it had.
async fn hooks_after(stack: &Stack, had: u64, more: u64) -> Summary {
    let what = format!("{more} more hooks than {had} are merged");
    let grown = |summary: &Summary| fleet_samples(summary, "epoch_hook") >= had + more;
    await_summary(stack.api(), &what, grown).await.unwrap()
}

/// Kills the broker and waits until the aggregator has detected it.
async fn kill_broker(stack: &mut Stack) {
    stack.broker().kill();
    let alone = |summary: &Summary| summary.broker == "disconnected";
    await_summary(stack.api(), "the aggregator reports that the broker is disconnected", alone)
        .await
        .unwrap();
}

/// Scrapes an aggregator all the time.
struct Watch {
    stop: Arc<AtomicBool>,
    wrong: JoinHandle<Vec<String>>,
}

impl Watch {
    fn begin(api: &Api) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let wrong = tokio::spawn(poll_pages(api.clone(), Arc::clone(&stop)));
        Self { stop, wrong }
    }

    /// The counters that went back.
    async fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.wrong.await.unwrap()
    }
}

async fn poll_pages(api: Api, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut highest = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(SCRAPE_EVERY).await;
        let Ok(page) = MetricsPage::of(&api).await else { continue };
        let unready = page.value("plimsoll_aggregator_ready") != Some(1.0);
        for (series, value) in KEPT.iter().flat_map(|family| page.family(family)) {
            let before = highest.entry(series.to_owned()).or_insert(value);
            if unready || value < *before {
                wrong.push(format!("{series}: {value} after {before}, unready: {unready}"));
            }
            *before = before.max(value);
        }
    }
    wrong
}

#[tokio::test]
async fn a_broker_killed_and_started_again_doubles_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(&dir).await;
    let watch = Watch::begin(stack.api());
    let before = hooks_after(&stack, 0, 60).await;
    kill_broker(&mut stack).await;
    stack.broker().restart().await.unwrap();
    hooks_after(&stack, fleet_samples(&before, "epoch_hook"), 120).await;
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
    assert_eq!(watch.end().await, [""; 0]);
}

#[tokio::test]
async fn samples_lost_with_the_streams_before_they_were_read_are_in_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let options = StackOptions { keep_state: false, ..with_jobs(dir.path()) };
    let mut stack = Stack::start(options).await.unwrap();
    let merged = hooks_after(&stack, 0, 60).await;
    // What no aggregator has confirmed, nodes would send again.
    for station in stack.stations() {
        let merged = node_row(&merged, &station.name).unwrap().ledger.merged;
        let confirmed = async || {
            let unconfirmed = station.api.metric("plimsoll_agent_unconfirmed_samples").await;
            unconfirmed.ok().flatten().filter(|samples| *samples < merged as f64)
        };
        until("a confirmation", WAIT, confirmed).await.unwrap();
    }
    // Samples merged by this process are lost with it, and so is the stream that holds them.
    stack.kill_aggregator();
    stack.broker().kill();
    std::fs::remove_dir_all(dir.path().join("streams")).unwrap();
    stack.broker().restart().await.unwrap();
    stack.restart_aggregator().await.unwrap();
    hooks_after(&stack, 0, 60).await;
    let drained = stack.drain().await.unwrap();
    every_sample_is_merged_or_missed(&stack, &drained);
    let unread: u64 = drained.nodes.iter().map(|row| row.ledger.unread).sum();
    assert!(unread > 0, "no sample is gone with the streams");
    assert!(drained.nodes.iter().all(|row| !row.ledger.is_settled()), "{:?}", drained.nodes);
}

/// Per node: what the job sent and what the node measured itself is merged or unaccounted, to
/// the sample; no operation has more than was sent.
fn every_sample_is_merged_or_missed(stack: &Stack, summary: &Summary) {
    for station in stack.stations() {
        let raw = RawSamples::of(station).unwrap();
        let ledger = &node_row(summary, &station.name).unwrap().ledger;
        let merged =
            |name| operation_row(summary, &station.name, name).map_or(0, |r| r.total.count);
        let mut jobs_merged = 0;
        for name in ["epoch_hook", "kernel_fetch"] {
            assert!(merged(name) <= raw.count(name), "{name} of {}", station.name);
            jobs_merged += merged(name);
        }
        assert_eq!(ledger.merged, jobs_merged + merged("publish"), "{}", station.name);
        assert_eq!((ledger.held, ledger.lost.len()), (0, 0), "{ledger:?}");
        let (missing, unmerged) = (raw.len() - jobs_merged, ledger.unaccounted + ledger.unread);
        assert_eq!(ledger.recorded, ledger.merged + unmerged, "{ledger:?}");
        assert!(unmerged >= missing, "{missing} samples of jobs are missing, but {ledger:?}");
        assert_eq!(ledger.is_settled(), unmerged == 0, "{ledger:?}");
    }
}
