//! A node that ends under producers that go on: what it answered well is at the aggregator.

use std::net::SocketAddr;
use std::time::Duration;

use nix::sys::signal::Signal;
use plimsoll_mesh::child::until;
use plimsoll_tests::fed::NODE;
use plimsoll_tests::page::Page;
use serde_json::json;

use crate::producer::{count, mesh};

const WAIT: Duration = Duration::from_secs(20);
const PRODUCERS: u64 = 8;
/// Samples of one export.
const SAMPLES: u64 = 7;

/// One delta of one producer, after all that it said before.
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

/// Exports until the node takes no more; gives how often it was told that all was taken.
async fn produce(address: SocketAddr, producer: u64) -> u64 {
    let client = reqwest::Client::new();
    let mut taken = 0;
    loop {
        let request = client
            .post(format!("http://{address}/v1/metrics"))
            .header("content-type", "application/json")
            .body(delta(producer, taken));
        match request.send().await {
            Ok(answer) if answer.status() == 200 => {
                assert_eq!(answer.text().await.unwrap(), "{}");
                taken += 1;
            }
            Ok(answer) => {
                assert_eq!(answer.status(), 503);
                assert_eq!(answer.headers()["retry-after"], "1");
                return taken;
            }
            Err(_) => return taken,
        }
    }
}

#[tokio::test]
async fn whatever_a_leaving_node_answered_well_is_at_the_aggregator() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = mesh(dir.path()).await;
    let address = mesh.node.otlp("http").unwrap();
    let producers: Vec<_> = (0..PRODUCERS).map(|n| tokio::spawn(produce(address, n))).collect();
    until("all are at it", WAIT, async || {
        let page = Page::of(&mesh.node.api).await.ok()?;
        (page.sum("plimsoll_agent_otlp_requests_total") >= 100.0).then_some(())
    })
    .await
    .unwrap();
    mesh.node.signal(Signal::SIGTERM);
    let mut taken = 0;
    for producer in producers {
        taken += producer.await.unwrap();
    }
    let summary = mesh.left().await.unwrap();
    assert!(taken >= 100, "{taken}");
    assert_eq!(count(&summary, NODE, "left_op"), taken * SAMPLES);
    mesh.stack.end().await.unwrap();
}
