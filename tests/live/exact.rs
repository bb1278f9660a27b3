//! No sample is lost, duplicated or altered on the way from a job to the aggregator's figures.

use std::time::Duration;

use plimsoll_clock::Deadline;
use plimsoll_mesh::stack::Stack;
use plimsoll_schemas::own_operations::MESSAGE_DELIVERY;
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::{MetricsPage, await_value};
use plimsoll_tests::oracle::check_drained;
use plimsoll_tests::process::{await_summary, fleet_samples, node_row, operation_row};
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::{StatsdSender, await_datagrams};

/// Long enough for six snapshots of every node.
const RUN: Duration = Duration::from_secs(6);
/// Enough for the fleet's p99 to be below its maximum; less than half of what three jobs at 20
/// epochs a second send in that time.
const HOOKS_MIN: u64 = 150;

#[tokio::test]
async fn every_figure_equals_the_raw_samples_of_the_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    let end = Deadline::within(RUN);
    let ran = |now: &Summary| end.has_passed() && fleet_samples(now, "epoch_hook") > HOOKS_MIN;
    await_summary(stack.api(), "the jobs have run for their time", ran).await.unwrap();
    let drained = stack.drain().await.unwrap();
    assert_eq!(drained.nodes.len(), 3);
    check_drained(&drained, stack.stations()).unwrap();
    fleet_is_the_merge_of_its_nodes(&drained);
    metrics_are_the_same(&drained, &MetricsPage::of(stack.api()).await.unwrap());
    stack.end().await.unwrap();
}

fn fleet_is_the_merge_of_its_nodes(summary: &Summary) {
    let operations = ["epoch_hook", "kernel_fetch", "publish"];
    for name in operations {
        let fleet = &operation_row(summary, "", name).unwrap().total;
        let parts: Vec<_> = summary
            .nodes
            .iter()
            .map(|row| &operation_row(summary, &row.node, name).unwrap().total)
            .collect();
        assert_eq!(fleet.count, parts.iter().map(|part| part.count).sum::<u64>(), "{name}");
        assert_eq!(Some(fleet.min_ns), parts.iter().map(|part| part.min_ns).min(), "{name}");
        assert_eq!(Some(fleet.max_ns), parts.iter().map(|part| part.max_ns).max(), "{name}");
    }
    assert!(fleet_samples(summary, "epoch_hook") > HOOKS_MIN);
    // Of the fleet alone, the aggregator measures how long messages took.
    let delivery = usize::from(operation_row(summary, "", MESSAGE_DELIVERY).is_some());
    let rows = operations.len() * (1 + summary.nodes.len());
    assert_eq!(summary.operations.len(), rows + delivery);
}

fn metrics_are_the_same(summary: &Summary, page: &MetricsPage) {
    // The aggregator's own measurement goes on between the two requests.
    let is_settled = |name: &str| name != MESSAGE_DELIVERY;
    for row in summary.operations.iter().filter(|row| is_settled(row.operation.as_str())) {
        let (scope, node) = (row.scope.as_str(), row.scope.node());
        let labels = format!("scope=\"{scope}\",node=\"{node}\",operation=\"{}\"", row.operation);
        let samples = page.value(&format!("plimsoll_latency_samples_total{{{labels}}}"));
        assert_eq!(samples, Some(row.total.count as f64), "{labels}");
        let p99 = format!("plimsoll_latency_p99_seconds{{{labels},window=\"total\"}}");
        let ns = row.total.p99_ns.unwrap();
        assert_eq!(page.value(&p99), Some(ns as f64 / 1e9), "{labels}");
    }
    for row in &summary.nodes {
        let series = format!("plimsoll_node_merged_samples_total{{node=\"{}\"}}", row.node);
        assert_eq!(page.value(&series), Some(row.ledger.merged as f64));
    }
}

/// One datagram each; the test below states the expected sums.
const DATAGRAMS: [&str; 6] = [
    "a:1.5|ms\na:2.5|ms\nb:7|h\n",
    "packed:1:2:3:4|d",
    "rated:10|ms|@0.5\nrated:20|ms",
    "hits:3|c\nhits:4|c|@0.5|#zone:x\nhits:-1|c",
    "depth:5|g\ndepth:-9.25|g",
    "read_bytes:512:1024|h\nlookup:480|ps\nrows:2.5|count",
];

#[tokio::test]
async fn a_node_fed_over_udp_counts_every_line_value_and_rate() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let sender = StatsdSender::udp(mesh.node.udp().unwrap()).unwrap();
    for datagram in DATAGRAMS {
        sender.send(datagram).unwrap();
    }
    await_datagrams(&mesh.node.api, DATAGRAMS.len()).await.unwrap();
    // A gauge is exported only until its node leaves.
    for (series, value) in [
        ("plimsoll_job_count_hits_total{node=\"fed\"}", 2.0),
        ("plimsoll_job_count_hits_total{node=\"fed\",zone=\"x\"}", 8.0),
        ("plimsoll_job_value_depth{node=\"fed\"}", -9.25),
    ] {
        await_value(mesh.stack.api(), series, value).await.unwrap();
    }
    let summary = mesh.drain_node().await.unwrap();
    for (name, count, min_ns, max_ns, mean_ns) in [
        ("a", 2, 1_500_000, 2_500_000, 2_000_000),
        ("b", 1, 7_000_000, 7_000_000, 7_000_000),
        ("packed", 4, 1_000_000, 4_000_000, 2_500_000),
        ("rated", 3, 10_000_000, 20_000_000, 13_333_333),
        ("read:bytes", 2, 512, 1_024, 768),
        ("lookup:ps", 1, 480, 480, 480),
        ("rows:count", 1, 2_500, 2_500, 2_500),
    ] {
        for scope in [NODE, ""] {
            let total = &operation_row(&summary, scope, name).unwrap().total;
            let seen = (total.count, total.min_ns, total.max_ns, total.mean_ns);
            assert_eq!(seen, (count, min_ns, max_ns, mean_ns), "{name} of {scope:?}");
        }
    }
    let ledger = &node_row(&summary, NODE).unwrap().ledger;
    assert!(ledger.lost.is_empty(), "{ledger:?}");
    mesh.stack.end().await.unwrap();
}
