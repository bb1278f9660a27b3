//! Processes are killed under load. Counts neither shrink nor grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_clock::Clock;
use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, NodeName, Operation, Seq, Series};
use plimsoll_schemas::own_operations::MESSAGE_DELIVERY;
use plimsoll_schemas::summary::{OperationRow, Summary};
use plimsoll_schemas::wire::{Body, Header, Latency, Snapshot, Totals, encode};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::{MetricsPage, get_any_status};
use plimsoll_tests::oracle::{RawSamples, check_drained};
use plimsoll_tests::process::{await_summary, fleet_samples, node_row, operation_row};
use plimsoll_tests::publisher::Publisher;
use tokio::task::JoinHandle;

/// More often than the aggregator builds a new read view.
const SCRAPE_EVERY: Duration = Duration::from_millis(20);
/// Pages that the watch of a whole death has at least.
const PAGES_MIN: usize = 50;
const WAIT: Duration = Duration::from_secs(60);
/// Samples of one snapshot that fills a stream, each in a bucket of its own.
const SAMPLES: u64 = 500;
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

/// Publishes this number of snapshots of one more node to the stream, so that reading it takes a
/// while and its end is far from its beginning.
async fn fill_stream(stack: &mut Stack, snapshots: u64) {
    let mut publisher = Publisher::connect(stack.broker().url()).await.unwrap();
    let clock = Clock::start();
    let mut samples = Histogram::default();
    (1..=SAMPLES).for_each(|n| samples.record(n * 20_000));
    let series = Series::plain(Operation::new("publish").unwrap());
    let latency = Latency { histograms: vec![(series, samples)], ..Latency::default() };
    for seq in 1..=snapshots {
        let header = Header {
            node: NodeName::new("filler").unwrap(),
            incarnation: Incarnation(1),
            seq: Seq(seq),
            start: clock.now().wall,
            length_ns: 1_000_000,
            totals: Totals { recorded: seq * SAMPLES, ..Totals::default() },
            last: false,
            successor: None,
            labels: Labels::default(),
        };
        let snapshot = Snapshot { header, body: Body::Latency(latency.clone()) };
        let payload = encode(&snapshot);
        publisher.publish("plimsoll.v1.local.normal.filler.latency", payload).await.unwrap();
    }
    let all = |summary: &Summary| {
        node_row(summary, "filler").is_ok_and(|row| row.ledger.merged == snapshots * SAMPLES)
    };
    await_summary(stack.api(), "the filling is merged", all).await.unwrap();
}

/// Scrapes an aggregator all the time.
struct Watch {
    stop: Arc<AtomicBool>,
    pages: Arc<AtomicUsize>,
    seen: JoinHandle<Seen>,
}

/// What came of it.
#[derive(Debug, Default)]
struct Seen {
    /// Pages of an aggregator that has read a part of the stream.
    partial: usize,
    wrong: Vec<String>,
}

impl Watch {
    fn begin(api: &Api) -> Self {
        let (stop, pages) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let seen = tokio::spawn(poll_pages(api.clone(), Arc::clone(&stop), Arc::clone(&pages)));
        Self { stop, pages, seen }
    }

    /// Waits until it has at least this many pages.
    async fn await_pages(&self, least: usize) {
        let enough = async || (self.pages.load(Ordering::Relaxed) >= least).then_some(());
        until("enough pages are scraped", WAIT, enough).await.unwrap();
    }

    async fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.seen.await.unwrap()
    }
}

async fn poll_pages(api: Api, stop: Arc<AtomicBool>, pages: Arc<AtomicUsize>) -> Seen {
    let mut seen = Seen::default();
    let mut highest = std::collections::BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(SCRAPE_EVERY).await;
        let Ok(page) = MetricsPage::of(&api).await else { continue };
        pages.fetch_add(1, Ordering::Relaxed);
        let unready = page.value("plimsoll_aggregator_ready") != Some(1.0);
        let merging = page.sum("plimsoll_aggregator_merged_snapshots_total") > 0.0;
        seen.partial += usize::from(unready && merging);
        for (series, value) in KEPT.iter().flat_map(|family| page.family(family)) {
            let before = highest.entry(series.to_owned()).or_insert(value);
            if unready || value < *before {
                seen.wrong.push(format!("{series}: {value} after {before}, unready: {unready}"));
            }
            *before = before.max(value);
        }
    }
    seen
}

#[tokio::test]
async fn an_aggregator_killed_between_two_scrapes_doubles_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(&dir).await;
    let watch = Watch::begin(stack.api());
    fill_stream(&mut stack, 2_000).await;
    let before = hooks_after(&stack, 0, 60).await;
    stack.kill_aggregator();
    // While the broker is stopped, the new aggregator has no stream to read.
    stack.broker().pause();
    stack.launch_aggregator().unwrap();
    let api = stack.api().clone();
    let unready = until("the new aggregator answers", WAIT, async || {
        let page = MetricsPage::of(&api).await.ok()?;
        (page.value("plimsoll_aggregator_ready") == Some(0.0)).then_some(page)
    });
    let unready = unready.await.unwrap();
    assert_eq!(KEPT.map(|family| unready.family(family).count()), [0; 4]);
    let (status, reason) = get_any_status(&api, "/readyz").await.unwrap();
    assert_eq!((status, reason.starts_with("broker unreachable: ")), (503, true), "{reason}");
    stack.broker().resume();
    stack.await_readiness().await.unwrap();
    let after = api.summary().await.unwrap();
    // Message delivery is measured once and in no stream: a restart forgets the open second.
    let in_streams = |row: &&OperationRow| row.operation != MESSAGE_DELIVERY;
    for row in before.operations.iter().filter(in_streams) {
        let now = operation_row(&after, row.scope.node(), &row.operation).unwrap().total.count;
        assert!(now >= row.total.count, "{now} after {row:?}");
    }
    hooks_after(&stack, fleet_samples(&after, "epoch_hook"), 60).await;
    watch.await_pages(PAGES_MIN).await;
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
    let seen = watch.end().await;
    assert_eq!(seen.wrong, Vec::<String>::new());
    // An optimised aggregator may read the whole stream between two scrapes.
    assert!(seen.partial > 0 || !cfg!(debug_assertions), "{seen:?}");
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
    assert_eq!(watch.end().await.wrong, Vec::<String>::new());
}

#[tokio::test]
async fn a_broker_that_lost_its_streams_costs_no_merged_sample_and_stops_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = started(&dir).await;
    // Far more than the new stream will hold.
    fill_stream(&mut stack, 500).await;
    let before = hooks_after(&stack, 0, 60).await;
    kill_broker(&mut stack).await;
    std::fs::remove_dir_all(dir.path().join("streams")).unwrap();
    stack.broker().restart().await.unwrap();
    hooks_after(&stack, fleet_samples(&before, "epoch_hook"), 120).await;
    stack.check_alive().unwrap();
    let drained = stack.drain().await.unwrap();
    every_sample_is_merged_or_missed(&stack, &drained);
    let merged: u64 = drained.nodes.iter().map(|row| row.ledger.merged).sum();
    let kept: u64 = before.nodes.iter().map(|row| row.ledger.merged).sum();
    assert!(merged > kept, "{merged} after {kept}");
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
