//! A budget may select some series of some nodes.

use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::summary::{Summary, Verdict};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::process::{MeshProcess, await_summary, fleet_samples};
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::StatsdSender;

use super::{budget, line, rules_file};

const RULES: &str = "
[[budget]]
name = 'slow_misses'
operation = 'kernel_fetch'
labels = { outcome = 'miss' }
node_labels = { rack = 'r7' }
quantile = 0.99
limit = '40ms'
window = '5m'
objective = 0.9
fire_after = 1
[[budget]]
name = 'kernel_fetch'
window = '5m'
";

#[tokio::test]
async fn the_budget_of_slow_misses_is_broken_and_that_of_all_fetches_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let aggregator_settings = rules_file(dir.path(), RULES).unwrap();
    let options = StackOptions { nodes: 0, aggregator_settings, ..with_jobs(dir.path()) };
    let mut stack = Stack::start(options).await.unwrap();
    let broker = stack.broker().url();
    let flags = ["--label", "rack=r7"];
    let node = MeshProcess::node_with(NODE, dir.path(), &broker, &flags).await.unwrap();
    let flags = ["--label", "rack=r8"];
    let elsewhere = MeshProcess::node_with("elsewhere", dir.path(), &broker, &flags).await.unwrap();
    for node in [&node, &elsewhere] {
        let sender = StatsdSender::unix(node.socket()).unwrap();
        let misses = line("kernel_fetch", "50", 120);
        sender.send(format!("{misses}|#outcome:miss")).unwrap();
        let hits = line("kernel_fetch", "1", 300);
        sender.send(format!("{hits}|#outcome:hit")).unwrap();
    }
    let state = |summary: &Summary, name| budget(summary, name, "").map(|row| row.alert);
    let notified = |summary: &Summary| {
        fleet_samples(summary, "kernel_fetch") == 840
            && state(summary, "slow_misses") == Some(AlertState::Firing)
    };
    let summary = await_summary(stack.api(), "the breach is notified", notified).await.unwrap();
    for scope in ["", NODE] {
        let row = budget(&summary, "slow_misses", scope).unwrap();
        assert_eq!((row.samples, row.over, row.verdict), (120, 120, Verdict::Breach), "{scope:?}");
    }
    // All selected samples are over the limit, where a tenth may be.
    let remaining = budget(&summary, "slow_misses", "").unwrap().budget_remaining.unwrap();
    assert!((remaining + 9.0).abs() < 1e-6, "{remaining}");
    // Samples outside the selection leave no trace in the budget.
    let unselected = budget(&summary, "slow_misses", "elsewhere");
    assert!(unselected.is_none_or(|row| row.verdict == Verdict::NoData), "{unselected:?}");
    for (scope, samples) in [("", 840), (NODE, 420), ("elsewhere", 420)] {
        let row = budget(&summary, "kernel_fetch", scope).unwrap();
        let seen = (row.samples, row.verdict, row.alert);
        assert_eq!(seen, (samples, Verdict::Within, AlertState::Inactive), "{scope:?}");
    }
    let mut mesh = SingleNodeMesh { stack, node };
    mesh.drain_node().await.unwrap();
    mesh.stack.end().await.unwrap();
}
