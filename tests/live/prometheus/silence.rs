//! The last values of a silent node are not exported any longer: its series end, and Prometheus
//! marks them as stale with the next scrape.

use std::time::Duration;

use nix::sys::signal::Signal;
use plimsoll_tests::prometheus::Prometheus;
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::StatsdSender;

const END_WAIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn the_gauges_of_a_silent_node_end_with_the_next_scrape_and_its_counters_stay() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let prometheus = Prometheus::start(dir.path(), mesh.stack.api(), &[]).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    sender.send("epoch_hook:4:5:6|ms\ndepth:7|g").unwrap();
    let of = |metric: &str| format!("max({metric}{{node=\"{NODE}\",operation=~\"epoch_hook|\"}})");
    let gauges = [
        of("plimsoll_latency_p99_seconds"),
        of("plimsoll_latency_window_samples"),
        of("plimsoll_budget_value_seconds"),
        of("plimsoll_job_value_depth"),
        of("plimsoll_node_outbox_depth"),
        of("plimsoll_node_load1"),
    ];
    for query in &gauges {
        prometheus.await_value_that(query, |_| true).await.unwrap();
    }
    let samples = of("plimsoll_latency_samples_total");
    prometheus.await_value(&samples, 3.0).await.unwrap();
    mesh.node.signal(Signal::SIGKILL);
    mesh.node.end(END_WAIT).await.unwrap();
    // The scrape that reports the silence no longer has the gauges.
    prometheus.await_value(&of("plimsoll_node_silent"), 1.0).await.unwrap();
    for query in &gauges {
        assert_eq!(prometheus.value(query).await.unwrap(), None, "{query}");
    }
    assert_eq!(prometheus.value(&samples).await.unwrap(), Some(3.0));
    mesh.stack.end().await.unwrap();
}
