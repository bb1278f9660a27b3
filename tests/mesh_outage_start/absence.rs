//! Node and aggregator without a broker: alive, not ready, and nothing is forgotten.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use plimsoll_cli::broker::Broker;
use plimsoll_cli::child::until;
use plimsoll_schemas::summary::{Presence, Summary};
use plimsoll_tests::feed::Feed;
use plimsoll_tests::lone::{Lone, node, operation, summary_when};
use plimsoll_tests::page::{Page, answer};

const WAIT: Duration = Duration::from_secs(20);

/// A broker that is not there yet, but has a port.
async fn absent_broker(dir: &Path) -> Broker {
    let mut broker = Broker::start(dir, true).await.unwrap();
    broker.kill();
    broker
}

/// Waits until a node holds so many samples that no broker has taken.
async fn holds(node: &Lone, samples: f64) {
    let held = until("the node holds what it was sent", WAIT, async || {
        let page = Page::of(&node.api).await.ok()?;
        (page.value("plimsoll_agent_held_samples") == Some(samples)).then_some(page)
    });
    assert_eq!(held.await.unwrap().value("plimsoll_agent_connected"), Some(0.0));
}

#[tokio::test]
async fn what_was_sent_before_the_broker_came_is_counted_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = absent_broker(dir.path()).await;
    let mut sidecar = Lone::node("early", dir.path(), &broker.url()).await.unwrap();
    let mut aggregator = Lone::aggregator(dir.path(), &broker.url()).await.unwrap();
    let feed = Feed::unix(sidecar.socket()).unwrap();
    for ms in 1..=100 {
        feed.send(format!("early:{ms}|ms")).unwrap();
    }
    holds(&sidecar, 100.0).await;
    for (process, reason) in
        [(&sidecar, "messages wait"), (&aggregator, "no connection to the broker")]
    {
        let (status, _) = answer(&process.api, "/healthz").await.unwrap();
        assert_eq!(status, 200);
        let (status, told) = answer(&process.api, "/readyz").await.unwrap();
        assert!(status == 503 && told.contains(reason), "{status}: {told}");
    }
    for process in [&sidecar, &aggregator] {
        let told = async || process.log().contains("broker unreachable").then_some(());
        until("a process says so", WAIT, told).await.unwrap();
    }
    broker.restart().await.unwrap();
    for process in [&sidecar, &aggregator] {
        let ready = async || process.api.is_ready().await.then_some(());
        until("a process is ready", WAIT, ready).await.unwrap();
    }
    assert_eq!(sidecar.terminate(WAIT).await.unwrap().code(), Some(0), "{}", sidecar.log());
    assert!(sidecar.log().contains("node ended; all messages acknowledged"), "{}", sidecar.log());
    let left = |summary: &Summary| summary.nodes.iter().any(|row| row.presence == Presence::Left);
    let summary = summary_when(&aggregator.api, "the node has left", left).await.unwrap();
    let total = &operation(&summary, "early", "early").unwrap().total;
    let seen = (total.count, total.min_ns, total.max_ns, total.mean_ns);
    assert_eq!(seen, (100, 1_000_000, 100_000_000, 50_500_000));
    assert!(node(&summary, "early").unwrap().ledger.is_settled());
    assert_eq!(aggregator.terminate(WAIT).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn ending_without_a_broker_says_how_much_is_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let broker = absent_broker(dir.path()).await;
    let mut sidecar = Lone::node("early", dir.path(), &broker.url()).await.unwrap();
    let mut aggregator = Lone::aggregator(dir.path(), &broker.url()).await.unwrap();
    let feed = Feed::unix(sidecar.socket()).unwrap();
    feed.send("early:1:2:3|ms").unwrap();
    holds(&sidecar, 3.0).await;
    // What is still in the socket when the node is asked to end counts too.
    sidecar.signal(Signal::SIGSTOP);
    feed.send("early:4:5|ms").unwrap();
    sidecar.signal(Signal::SIGTERM);
    sidecar.signal(Signal::SIGCONT);
    assert_eq!(sidecar.end(WAIT).await.unwrap().code(), Some(5), "{}", sidecar.log());
    let log = sidecar.log();
    let last = log.lines().last().unwrap();
    for part in ["node ended with unsent data", "recorded=5", "lost=0", "samples=5"] {
        assert!(last.contains(part), "{part} is not in {last}");
    }
    // The aggregator holds nothing that a stream would not tell again.
    assert_eq!(aggregator.terminate(WAIT).await.unwrap().code(), Some(0));
}
