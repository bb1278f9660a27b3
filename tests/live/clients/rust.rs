//! Our Rust crate, in a job of its own.

use std::time::Duration;

use plimsoll_schemas::summary::Summary;
use plimsoll_tests::metrics_page::await_value;
use plimsoll_tests::oracle::RawSamples;
use plimsoll_tests::process::{MeshProcess, await_summary, fleet_samples, node_row};
use plimsoll_tests::program::{RunningProgram, program, run_with_input};
use plimsoll_tests::rng::SeededRng;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use serde_json::json;

const WAIT: Duration = Duration::from_secs(60);
const OPERATION: &str = "rust_op";
const VALUES: usize = 30_000;

fn values_ns(seed: u64) -> Vec<u64> {
    let mut rng = SeededRng::new(seed);
    (0..VALUES).map(|_| 1_000 + rng.next_u64() % 250_000_000).collect()
}

#[tokio::test]
async fn our_rust_crate_loses_nothing_over_threads_and_exit() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let values = values_ns(4);
    let mut job = program("rust-client-job").unwrap();
    job.env("PLIMSOLL_ENABLE", "1");
    job.env("PLIMSOLL_STREAM", mesh.node.stream());
    let task = json!({ "operation": OPERATION, "values_ns": values });
    let outcome = run_with_input(job, &task.to_string(), WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    for (series, value) in [
        ("plimsoll_job_count_rust_count_total{node=\"fed\",zone=\"x\"}", 7.0),
        ("plimsoll_job_value_rust_gauge{node=\"fed\"}", 1.25),
    ] {
        await_value(mesh.stack.api(), series, value).await.unwrap();
    }
    let summary = mesh.drain_node().await.unwrap();
    for scope in [NODE, ""] {
        RawSamples::sent(OPERATION, &values).check(&summary, scope).unwrap();
    }
    assert!(node_row(&summary, NODE).unwrap().ledger.lost.is_empty());
    mesh.stack.end().await.unwrap();
}

#[tokio::test]
async fn a_node_that_is_replaced_while_a_job_records_costs_no_sample_and_doubles_none() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let values = values_ns(5);
    let mut job = program("rust-client-job").unwrap();
    job.env("PLIMSOLL_ENABLE", "1");
    job.env("PLIMSOLL_STREAM", mesh.node.stream());
    // The second third begins after the node has ended, the last one when the next node runs.
    let [ended, replaced] = ["ended", "replaced"].map(|name| dir.path().join(name));
    let task = json!({
        "operation": OPERATION, "values_ns": values, "spread_ms": 4_000,
        "go_on": [ended, replaced],
    });
    let job = RunningProgram::start_with_input(job, &task.to_string()).unwrap();
    let begun = |summary: &Summary| fleet_samples(summary, OPERATION) > VALUES as u64 / 8;
    await_summary(mesh.stack.api(), "the job has begun", begun).await.unwrap();
    let first = mesh.drain_node().await.unwrap();
    let before = fleet_samples(&first, OPERATION);
    assert!(before <= VALUES as u64 / 3, "the job has not waited for the end of its node");

    std::fs::write(ended, "").unwrap();
    let broker = mesh.stack.broker().url();
    mesh.node = MeshProcess::node(NODE, dir.path(), &broker).await.unwrap();
    std::fs::write(replaced, "").unwrap();
    let outcome = job.end(WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let all = |summary: &Summary| fleet_samples(summary, OPERATION) >= VALUES as u64;
    await_summary(mesh.stack.api(), "all has arrived", all).await.unwrap();
    let summary = mesh.drain_node().await.unwrap();
    RawSamples::sent(OPERATION, &values).check(&summary, "").unwrap();
    mesh.stack.end().await.unwrap();
}
