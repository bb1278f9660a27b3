//! Quantiles that Prometheus interpolates from native histograms, against the samples themselves.

use plimsoll_aggregator::core::fleet::Native;
use plimsoll_schemas::histogram::{Histogram, rank};
use plimsoll_tests::process::{await_summary, fleet_samples};
use plimsoll_tests::prometheus::Prometheus;
use plimsoll_tests::rng::SeededRng;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::StatsdSender;

const OPERATION: &str = "shard_read";
/// The share by which one of our own buckets may be off.
const OWN_WIDTH: f64 = 0.001;

/// From 2 ms to 32 ms, each doubling as full as the others.
fn values_ns() -> Vec<u64> {
    let mut rng = SeededRng::new(7);
    let mut values: Vec<u64> = (0..5_000)
        .map(|_| {
            let doubling = 2_000_000 << (rng.next_u64() % 4);
            doubling + rng.next_u64() % doubling
        })
        .collect();
    values.sort_unstable();
    values
}

fn milliseconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

#[tokio::test]
async fn prometheus_interpolates_quantiles_within_the_error_of_the_schema() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let flags = ["--enable-feature=native-histograms"];
    let api = mesh.stack.api();
    let prometheus = Prometheus::start_with(dir.path(), api, &[], &flags).await.unwrap();
    let values = values_ns();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    for some in values.chunks(50) {
        let some: Vec<String> = some.iter().map(|ns| milliseconds(*ns)).collect();
        sender.send(format!("{OPERATION}:{}|ms", some.join(":"))).unwrap();
    }
    let all = |summary: &_| fleet_samples(summary, OPERATION) == values.len() as u64;
    await_summary(api, "all samples are merged", all).await.unwrap();
    let mut own = Histogram::default();
    values.iter().for_each(|ns| own.record(*ns));
    let schema = Native::of(own.counts().iter()).schema;
    assert_eq!(schema, 5, "four doublings fit into 160 buckets at the finest schema");
    let error = (1.0 / f64::from(1 << schema)).exp2() - 1.0 + OWN_WIDTH;
    for node in ["", NODE] {
        let series =
            format!("plimsoll_latency_seconds{{operation=\"{OPERATION}\",node=\"{node}\"}}");
        let count = format!("histogram_count({series})");
        prometheus.await_value(&count, values.len() as f64).await.unwrap();
        let sum: u64 = values.iter().sum();
        let query = format!("histogram_sum({series})");
        let found = prometheus.value(&query).await.unwrap().unwrap();
        assert!((found - sum as f64 / 1e9).abs() < 1e-6, "{found} s of {sum} ns");
        for quantile in [0.01, 0.5, 0.9, 0.99, 0.999] {
            let query = format!("histogram_quantile({quantile}, {series})");
            let found = prometheus.value(&query).await.unwrap().unwrap();
            let place = usize::try_from(rank(quantile, values.len() as u64) - 1).unwrap();
            let exact = values[place] as f64 / 1e9;
            assert!((found / exact - 1.0).abs() <= error, "{query}: {found} and not {exact}");
        }
    }
    let scraped = "plimsoll_aggregator_responses_total{page=\"metrics\",format=\"protobuf\"}";
    prometheus.await_value_that(scraped, |n| n >= 1.0).await.unwrap();
    mesh.stack.end().await.unwrap();
}
