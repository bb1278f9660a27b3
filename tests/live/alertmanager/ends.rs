//! The alerts of a job end with it: in Alertmanager, and at what Alertmanager notifies.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_tests::alertmanager::Alertmanager;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::program::run;
use plimsoll_tests::single_node::SingleNodeMesh;
use plimsoll_tests::webhook::WebhookReceiver;
use serde_json::Value;

use super::{BUDGETS, RULE, WAIT, notifications};

/// Samples are absent after a minute at the earliest.
const ABSENT_WAIT: Duration = Duration::from_secs(120);

/// A job with our Python client that is too slow for `seconds`, in a shell that kills it then if
/// it `is_killed`.
fn job(mesh: &SingleNodeMesh, seconds: &str, is_killed: bool) -> Command {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let mut command = Command::new("timeout");
    let (killed_after, lasts) = if is_killed { (seconds, "60") } else { ("60", seconds) };
    command.args(["--signal=KILL", killed_after, "python3"]);
    command.arg(here.join("python/clients/slow_job.py")).arg(lasts);
    command.env("PYTHONPATH", here.join("../node/client-python"));
    command.env("PLIMSOLL_ENABLE", "1").env("PLIMSOLL_SOCKET", mesh.node.socket());
    command
}

/// The changes of the rule's alerts: scope, state, and why it ended.
async fn changes(mesh: &SingleNodeMesh) -> Vec<(String, String, String)> {
    let page = mesh.stack.api().get("/metrics/summary").await.unwrap();
    let page: Value = serde_json::from_str(&page).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let changes = page["changes"].as_array().unwrap().iter();
    let of_rule = changes.filter(|change| change["rule"] == RULE);
    let row =
        |change: &Value| (text(&change["scope"]), text(&change["state"]), text(&change["ended"]));
    of_rule.map(row).collect()
}

#[tokio::test]
async fn a_job_that_ends_ends_its_alerts_at_every_receiver_and_one_that_is_killed_ends_none() {
    let dir = tempfile::tempdir().unwrap();
    let webhook = WebhookReceiver::accepting().await.unwrap();
    let alertmanager = Alertmanager::start(dir.path(), &webhook).await.unwrap();
    let url = alertmanager.api().url().to_owned();
    let settings = format!("{BUDGETS}[[alertmanager]]\nurl = '{url}'\nresend_every = '1s'\n");
    let mut mesh = SingleNodeMesh::start_with(dir.path(), settings).await.unwrap();

    let ended = run(job(&mesh, "4", false), WAIT).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let firing = |alerts: &[Value]| alerts.len() == 2;
    alertmanager.await_alerts(RULE, "both scopes fire", firing).await.unwrap();
    let resolved = until("Alertmanager notifies of both ends", WAIT, async || {
        let count = |scope| notifications(&webhook, "resolved", scope).len();
        (count("fleet") == 1 && count("node") == 1).then_some(())
    });
    resolved.await.unwrap();
    let sent = notifications(&webhook, "resolved", "node");
    let annotations = &sent[0]["alerts"][0]["annotations"];
    assert_eq!(annotations["ended"], "its job ended normally", "{sent:?}");
    assert_eq!(alertmanager.alerts(RULE).await.unwrap(), Vec::<Value>::new());
    let reasons: Vec<String> = changes(&mesh)
        .await
        .into_iter()
        .filter_map(|(_, state, why)| (state == "resolved").then_some(why))
        .collect();
    assert_eq!(reasons, ["job_ended", "job_ended"]);
    let absent = "plimsoll_operation_absent{operation=\"epoch_hook\"}";
    let page = mesh.stack.api().clone();
    assert_eq!(MetricsPage::of(&page).await.unwrap().value(absent), Some(0.0));

    let killed = run(job(&mesh, "4", true), WAIT).await.unwrap();
    assert_eq!(killed.code, None, "{}", killed.stderr);
    alertmanager.await_alerts(RULE, "both scopes fire again", firing).await.unwrap();
    let is_absent = until("the job is absent", ABSENT_WAIT, async || {
        MetricsPage::of(&page).await.ok()?.value(absent).filter(|value| *value == 1.0)
    });
    is_absent.await.unwrap();
    assert_eq!(alertmanager.alerts(RULE).await.unwrap().len(), 2, "it vanished: its alerts stay");
    mesh.drain_node().await.unwrap();
    mesh.stack.end().await.unwrap();
}
