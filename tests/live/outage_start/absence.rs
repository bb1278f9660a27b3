//! Node and aggregator without a broker: alive, not ready, and no sample is lost.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::child::until;
use plimsoll_schemas::summary::{Presence, Summary};
use plimsoll_tests::metrics_page::{MetricsPage, get_any_status};
use plimsoll_tests::process::{MeshProcess, await_summary, node_row, operation_row};
use plimsoll_tests::statsd::StatsdSender;

const WAIT: Duration = Duration::from_secs(20);

/// A broker that is not there yet, but has a port.
async fn absent_broker(dir: &Path) -> Broker {
    let mut broker = Broker::start(dir, true).await.unwrap();
    broker.kill();
    broker
}

/// Waits until a node holds this number of samples that no broker has acknowledged.
async fn holds(node: &MeshProcess, samples: f64) {
    let held = until("the node holds what it was sent", WAIT, async || {
        let page = MetricsPage::of(&node.api).await.ok()?;
        (page.value("plimsoll_agent_held_samples") == Some(samples)).then_some(page)
    });
    assert_eq!(held.await.unwrap().value("plimsoll_agent_broker_connected"), Some(0.0));
}

#[tokio::test]
async fn what_was_sent_before_the_broker_came_is_counted_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = absent_broker(dir.path()).await;
    let mut sidecar = MeshProcess::node("early", dir.path(), &broker.url()).await.unwrap();
    let mut aggregator = MeshProcess::aggregator(dir.path(), &broker.url()).await.unwrap();
    let sender = StatsdSender::unix(sidecar.socket()).unwrap();
    for ms in 1..=100 {
        sender.send(format!("early:{ms}|ms")).unwrap();
    }
    holds(&sidecar, 100.0).await;
    for process in [&sidecar, &aggregator] {
        let (status, _) = get_any_status(&process.api, "/healthz").await.unwrap();
        assert_eq!(status, 200);
        let (status, body) = get_any_status(&process.api, "/readyz").await.unwrap();
        assert!(status == 503 && body.starts_with("broker unreachable: "), "{status}: {body}");
    }
    for process in [&sidecar, &aggregator] {
        let line = "broker unreachable: connection refused";
        let logged = async || process.log().contains(line).then_some(());
        until("a process logs it", WAIT, logged).await.unwrap();
        let (_, body) = get_any_status(&process.api, "/readyz").await.unwrap();
        assert!(body.starts_with(line), "{body}");
    }
    broker.restart().await.unwrap();
    for process in [&sidecar, &aggregator] {
        let ready = async || process.api.is_ready().await.then_some(());
        until("a process is ready", WAIT, ready).await.unwrap();
    }
    assert_eq!(sidecar.terminate(WAIT).await.unwrap().code(), Some(0), "{}", sidecar.log());
    assert!(sidecar.log().contains("node ended; all messages acknowledged"), "{}", sidecar.log());
    let left = |summary: &Summary| summary.nodes.iter().any(|row| row.presence == Presence::Left);
    let summary = await_summary(&aggregator.api, "the node has left", left).await.unwrap();
    let total = &operation_row(&summary, "early", "early").unwrap().total;
    let seen = (total.count, total.min_ns, total.max_ns, total.mean_ns);
    assert_eq!(seen, (100, 1_000_000, 100_000_000, 50_500_000));
    assert!(node_row(&summary, "early").unwrap().ledger.is_settled());
    assert_eq!(aggregator.terminate(WAIT).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn exit_without_a_broker_logs_how_much_is_undeliverable() {
    let dir = tempfile::tempdir().unwrap();
    let broker = absent_broker(dir.path()).await;
    let mut sidecar = MeshProcess::node("early", dir.path(), &broker.url()).await.unwrap();
    let mut aggregator = MeshProcess::aggregator(dir.path(), &broker.url()).await.unwrap();
    let sender = StatsdSender::unix(sidecar.socket()).unwrap();
    sender.send("early:1:2:3|ms").unwrap();
    holds(&sidecar, 3.0).await;
    // What is in the socket when the node receives the signal counts too.
    sidecar.signal(Signal::SIGSTOP);
    sender.send("early:4:5|ms").unwrap();
    sidecar.signal(Signal::SIGTERM);
    sidecar.signal(Signal::SIGCONT);
    assert_eq!(sidecar.end(WAIT).await.unwrap().code(), Some(5), "{}", sidecar.log());
    let log = sidecar.log();
    let last = log.lines().last().unwrap();
    for part in ["node ended with unsent data", "recorded=5", "lost=0", "samples=5"] {
        assert!(last.contains(part), "{part} is not in {last}");
    }
    // The aggregator holds nothing that is not in a stream.
    assert_eq!(aggregator.terminate(WAIT).await.unwrap().code(), Some(0));
}
