//! Rates across a restart of the aggregator: a counter continues at its value, from stored state or
//! from the stream.

use std::path::Path;

use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::oracle::RawSamples;
use plimsoll_tests::process::{await_summary, fleet_samples};
use plimsoll_tests::prometheus::Prometheus;

const OPERATION: &str = "epoch_hook";
/// What Prometheus must have stored before and after the death.
const SCRAPES: f64 = 5.0;

async fn rates_are_right_across_a_restart(dir: &Path, keep_state: bool) {
    let options = StackOptions { nodes: 1, keep_state, ..with_jobs(dir) };
    let mut stack = Stack::start(options).await.unwrap();
    let prometheus = Prometheus::start(dir, stack.api(), &[]).await.unwrap();
    let counter =
        format!("plimsoll_latency_samples_total{{scope=\"fleet\",operation=\"{OPERATION}\"}}");
    let stored = format!("count_over_time({counter}[5m])");
    let before = prometheus.await_value_that(&stored, |n| n >= SCRAPES).await.unwrap();
    stack.kill_aggregator();
    stack.restart_aggregator().await.unwrap();
    prometheus.await_value_that(&stored, |n| n >= before + SCRAPES).await.unwrap();
    stack.end_jobs().await.unwrap();
    let samples = RawSamples::of_all(stack.stations()).unwrap().count(OPERATION);
    let all = |summary: &_| fleet_samples(summary, OPERATION) == samples;
    await_summary(stack.api(), "all samples are merged", all).await.unwrap();
    prometheus.await_value(&counter, samples as f64).await.unwrap();
    let value = async |query: String| prometheus.value(&query).await.unwrap().unwrap();
    assert_eq!(value(format!("resets({counter}[5m])")).await, 0.0, "state kept: {keep_state}");
    // The first scrape saw some samples already, and Prometheus extrapolates to either side by up
    // to 1.1 of the mean distance of two scrapes.
    let truth = samples as f64 - value(format!("min_over_time({counter}[5m])")).await;
    let scrapes = value(stored).await;
    let increase = value(format!("increase({counter}[5m])")).await;
    let most = truth * (1.0 + 2.2 / (scrapes - 1.0));
    assert!((truth..=most).contains(&increase), "{increase} and not {truth} to {most}");
    stack.end().await.unwrap();
}

#[tokio::test]
async fn a_rate_continues_after_a_restart_with_stored_state() {
    let dir = tempfile::tempdir().unwrap();
    rates_are_right_across_a_restart(dir.path(), true).await;
}

#[tokio::test]
async fn a_rate_goes_on_where_it_was_when_the_stream_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    rates_are_right_across_a_restart(dir.path(), false).await;
}
