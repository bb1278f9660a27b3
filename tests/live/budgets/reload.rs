//! A limit is changed in its file while everything runs.

use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::process::{await_summary, fleet_samples};
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};
use plimsoll_tests::statsd::StatsdSender;

use super::{await_limit, budget, line, rules_file};

const WAIT: Duration = Duration::from_secs(40);

fn rules(limit: &str) -> String {
    format!(
        "[[budget]]\nname = 'epoch_hook'\nlimit = {limit}\nwindow = '10s'\nfire_after = 1\n\
         clear_after = 1\n"
    )
}

fn state(summary: &Summary) -> Option<AlertState> {
    budget(summary, "epoch_hook", "").map(|row| row.alert)
}

#[tokio::test]
async fn a_changed_limit_in_the_file_is_counted_exactly_and_its_alert_continues() {
    let dir = tempfile::tempdir().unwrap();
    let settings = rules_file(dir.path(), &rules("'18ms'")).unwrap();
    let mesh = SingleNodeMesh::start_with(dir.path(), settings).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    sender.send(line("epoch_hook", "20", 300)).unwrap();
    let fires = |summary: &Summary| {
        fleet_samples(summary, "epoch_hook") == 300 && state(summary) == Some(AlertState::Firing)
    };
    await_summary(mesh.stack.api(), "20 ms are over 18", fires).await.unwrap();

    // A file with an error is reported, and changes nothing.
    rules_file(dir.path(), &rules("18")).unwrap();
    let reported = |summary: &Summary| summary.rules.rules_error.is_some();
    let summary = await_summary(mesh.stack.api(), "the error is reported", reported).await.unwrap();
    let error = summary.rules.rules_error.clone().unwrap_or_default();
    assert!(error.contains("line 3") && error.contains("18ms"), "{error}");
    assert_eq!(budget(&summary, "epoch_hook", "").unwrap().limit_ns, 18_000_000);

    rules_file(dir.path(), &rules("'25ms'")).unwrap();
    await_limit(&mesh.node.api, "epoch_hook", "0.025").await.unwrap();
    let parts = [("25", 150), ("25.000001", 50), ("30", 3), ("1", 7)];
    let datagram = parts.map(|(ms, samples)| line("epoch_hook", ms, samples)).join("\n");
    sender.send(datagram).unwrap();
    let merged = |summary: &Summary| fleet_samples(summary, "epoch_hook") == 510;
    let summary = await_summary(mesh.stack.api(), "all is merged", merged).await.unwrap();
    assert_eq!(summary.rules.rules_error, None);
    for scope in ["", NODE] {
        let row = budget(&summary, "epoch_hook", scope).unwrap();
        assert_eq!((row.limit_ns, row.uncertain), (25_000_000, 0), "{scope:?}");
        assert_eq!(row.since_limit, Some((210, 53)), "{scope:?}");
    }

    let over = until("the alert is over", WAIT, async || {
        sender.send(line("epoch_hook", "2", 300)).ok()?;
        let summary = mesh.stack.api().summary().await.ok()?;
        (state(&summary) != Some(AlertState::Firing)).then_some(summary)
    });
    let summary = over.await.unwrap();
    let changes = summary.changes.iter();
    let of_fleet = changes.filter(|notification| {
        notification.key.rule.as_str() == "epoch_hook" && notification.key.scope.node().is_empty()
    });
    let sent: Vec<_> =
        of_fleet.map(|notification| (notification.state, notification.ended)).collect();
    assert_eq!(sent, [(AlertState::Firing, None), (AlertState::Resolved, None)]);
    mesh.stack.end().await.unwrap();
}
