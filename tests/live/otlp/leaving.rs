//! A node exits while producers export: everything it accepted reaches the aggregator.

use std::net::SocketAddr;
use std::time::Duration;

use nix::sys::signal::Signal;
use plimsoll_mesh::child::until;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::single_node::NODE;
use serde_json::json;

use super::producer::{count, mesh};

const WAIT: Duration = Duration::from_secs(20);
const PRODUCERS: u64 = 8;
/// Samples of one export.
const SAMPLES: u64 = 7;

/// One delta of one producer, which follows its previous one.
fn delta(producer: u64, number: u64) -> String {
    let second = 1_000_000_000;
    let start = 1_700_000_000 * second + number * second;
    let point = json!({
        "startTimeUnixNano": start.to_string(),
        "timeUnixNano": (start + second).to_string(),
        "count": SAMPLES.to_string(),
        "sum": 0.007,
        "explicitBounds": [0.001, 0.002],
        "bucketCounts": [SAMPLES.to_string(), "0", "0"],
        "attributes": [{ "key": "producer", "value": { "intValue": producer.to_string() } }],
    });
    let histogram = json!({ "aggregationTemporality": 1, "dataPoints": [point] });
    let metric = json!({ "name": "left_op", "unit": "s", "histogram": histogram });
    json!({ "resourceMetrics": [{ "scopeMetrics": [{ "metrics": [metric] }] }] }).to_string()
}

/// Exports until the node accepts no more. Returns the number of exports that were accepted.
async fn produce(address: SocketAddr, producer: u64) -> u64 {
    let client = reqwest::Client::new();
    let mut accepted = 0;
    loop {
        let request = client
            .post(format!("http://{address}/v1/metrics"))
            .header("content-type", "application/json")
            .body(delta(producer, accepted));
        match request.send().await {
            Ok(answer) if answer.status() == 200 => {
                assert_eq!(answer.text().await.unwrap(), "{}");
                accepted += 1;
            }
            Ok(answer) => {
                assert_eq!(answer.status(), 503);
                assert_eq!(answer.headers()["retry-after"], "1");
                return accepted;
            }
            Err(_) => return accepted,
        }
    }
}

#[tokio::test]
async fn whatever_a_leaving_node_answered_well_is_at_the_aggregator() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = mesh(dir.path()).await;
    let address = mesh.node.otlp("http").unwrap();
    let producers: Vec<_> = (0..PRODUCERS).map(|n| tokio::spawn(produce(address, n))).collect();
    until("all producers export", WAIT, async || {
        let page = MetricsPage::of(&mesh.node.api).await.ok()?;
        (page.sum("plimsoll_agent_otlp_requests_total") >= 100.0).then_some(())
    })
    .await
    .unwrap();
    mesh.node.signal(Signal::SIGTERM);
    let mut accepted = 0;
    for producer in producers {
        accepted += producer.await.unwrap();
    }
    let summary = mesh.await_departure().await.unwrap();
    assert!(accepted >= 100, "{accepted}");
    assert_eq!(count(&summary, NODE, "left_op"), accepted * SAMPLES);
    mesh.stack.end().await.unwrap();
}
