//! More names than a node and an aggregator tell apart.

use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_schemas::own_operations::MESSAGE_DELIVERY;
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::process::{await_summary, fleet_samples, node_row, operation_row};
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::StatsdSender;

const WAIT: Duration = Duration::from_secs(20);
/// Resident memory of a node under any input, in a build without optimisation.
const RESIDENT_BYTES_MAX: f64 = 64.0 * 1024.0 * 1024.0;
/// Anonymous memory of the aggregator, whose allocator keeps freed pages for a while. Pages of its
/// program, which in a build without optimisation are many, are not among it.
const AGGREGATOR_BYTES_MAX: u64 = 96 * 1024 * 1024;
const NAMES: usize = 100_000;
const GOOD: &str = "good:2|ms\n";

fn resident_bytes(page: &MetricsPage) -> f64 {
    page.value("process_resident_memory_bytes").unwrap()
}

/// Anonymous resident bytes of a process.
fn anonymous_bytes(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn a_hundred_thousand_names_fold_into_one_and_memory_stays_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    sender.send(GOOD).unwrap();
    // An operation that is new after the flood finds no room, unless a budget judges it.
    let known = |summary: &Summary| fleet_samples(summary, "good") == 1;
    await_summary(mesh.stack.api(), "the good operation is merged", known).await.unwrap();
    let mut good = 1;
    for first in (0..NAMES).step_by(50) {
        let names = (first..first + 50).map(|n| format!("name_{n}:1|ms\n"));
        sender.send(GOOD.to_owned() + &names.collect::<String>()).unwrap();
        good += 1;
    }
    let page = until("the node has read everything", WAIT, async || {
        let page = MetricsPage::of(&mesh.node.api).await.ok()?;
        let values = page.value("plimsoll_agent_values_total")?;
        (values >= (NAMES + good) as f64).then_some(page)
    });
    let page = page.await.unwrap();
    assert_eq!(page.value("plimsoll_agent_values_total"), Some((NAMES + good) as f64));
    assert!(page.value("plimsoll_agent_overflow_values_total").unwrap() > 0.0);
    assert!(resident_bytes(&page) < RESIDENT_BYTES_MAX, "{} bytes", resident_bytes(&page));
    let summary = mesh.drain_node().await.unwrap();
    let ledger = &node_row(&summary, NODE).unwrap().ledger;
    assert!(ledger.lost.is_empty(), "{ledger:?}");
    assert_eq!(fleet_samples(&summary, "good"), good as u64);
    let publish = operation_row(&summary, NODE, "publish").unwrap().total.count;
    let all = (NAMES + good) as u64 + publish;
    assert_eq!(ledger.merged, all);
    for scope in [NODE, ""] {
        // What the aggregator measures itself is no sample of a node.
        let rows = summary.operations.iter().filter(|row| row.scope.node() == scope);
        let rows = rows.filter(|row| row.operation != MESSAGE_DELIVERY);
        assert_eq!(rows.map(|row| row.total.count).sum::<u64>(), all, "{scope:?}");
        assert!(operation_row(&summary, scope, "other").is_some_and(|row| row.total.count > 0));
    }
    let aggregator = anonymous_bytes(mesh.stack.aggregator().id());
    assert!(aggregator < AGGREGATOR_BYTES_MAX, "{aggregator} bytes");
}
