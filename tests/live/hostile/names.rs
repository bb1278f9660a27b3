//! Names that a local user sends a node, 200 000 of them. After how long a new operation has its
//! row again is tested in virtual time, since it takes minutes: `core/tests/flood.rs`.

use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_schemas::alert::AlertState;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::process::fleet_samples;
use plimsoll_tests::single_node::SingleNodeMesh;
use plimsoll_tests::statsd::StatsdSender;
use plimsoll_tests::webhook::WebhookReceiver;

const WAIT: Duration = Duration::from_secs(60);
const NAMES: u32 = 200_000;
/// Lines of one datagram.
const LINES: u32 = 100;

/// Sends all names, each with one sample.
fn flood(sender: &StatsdSender) {
    for first in (0..NAMES).step_by(LINES as usize) {
        let lines: String = (first..first + LINES).map(|n| format!("name{n:06}:1|ms\n")).collect();
        sender.send(lines).unwrap();
    }
}

/// Floods a node of a mesh, whose receiver is notified of the table that fills.
async fn flooded() -> (tempfile::TempDir, SingleNodeMesh, StatsdSender) {
    let dir = tempfile::tempdir().unwrap();
    let webhook = WebhookReceiver::accepting().await.unwrap();
    let settings = format!("[[webhook]]\nname = 'chat'\nurl = '{}'\n", webhook.url());
    let mesh = SingleNodeMesh::start_with(dir.path(), settings).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    flood(&sender);
    let named = until("the alert names the table", WAIT, async || {
        let bodies = webhook.bodies();
        let of = |body: &serde_json::Value| {
            let notification = &body["notification"];
            notification["rule"] == "table_filling"
                && notification["state"] == serde_json::json!(AlertState::Firing)
                && notification["evidence"]["labels"]["table"]
                    .as_str()
                    .is_some_and(|table| table.ends_with("operations"))
        };
        bodies.iter().any(of).then_some(())
    });
    named.await.unwrap();
    (dir, mesh, sender)
}

/// In an interval with more names than a node may have, its later ones are merged into `other`; in
/// the ones after that a job's samples have their names again.
#[tokio::test]
async fn a_flood_of_names_is_named_by_an_alert_and_operations_of_budgets_keep_their_rows() {
    let (_dir, mesh, sender) = flooded().await;
    let api = mesh.stack.api();
    let shown = until("the operation of a budget has its row", WAIT, async || {
        sender.send("epoch_hook:5|ms").unwrap();
        let summary = api.summary().await.ok()?;
        (fleet_samples(&summary, "epoch_hook") >= 10).then_some(())
    });
    shown.await.unwrap();
    let page = MetricsPage::of(api).await.unwrap();
    let used = page.by_label("plimsoll_aggregator_table_used_ratio", "table");
    assert!(used["operations"] > 0.8, "{used:?}");
    mesh.stack.end().await.unwrap();
}
