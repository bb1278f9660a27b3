//! One alert from its beginning to its end, while Alertmanager and aggregator are killed in
//! between: no receiver is notified of the end before the end.

use plimsoll_tests::alertmanager::Alertmanager;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::process::await_checkpoint;
use plimsoll_tests::single_node::SingleNodeMesh;
use plimsoll_tests::statsd::StatsdSender;
use plimsoll_tests::webhook::WebhookReceiver;
use serde_json::Value;

use super::{BUDGETS, RULE, fed_until, hooks, notifications};

fn of_scope<'a>(alerts: &'a [Value], scope: &str) -> &'a Value {
    alerts.iter().find(|alert| alert["labels"]["scope"] == scope).unwrap()
}

#[tokio::test]
async fn an_alert_arrives_outlives_deaths_of_both_sides_and_ends_only_when_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let webhook = WebhookReceiver::accepting().await.unwrap();
    let mut alertmanager = Alertmanager::start(dir.path(), &webhook).await.unwrap();
    let url = alertmanager.api().url().to_owned();
    let settings = format!("{BUDGETS}[[alertmanager]]\nurl = '{url}'\nresend_every = '1s'\n");
    let mut mesh = SingleNodeMesh::start_with(dir.path(), settings).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();

    let alerts = fed_until(&sender, 30, "both scopes fire", async || {
        alertmanager.alerts(RULE).await.ok().filter(|alerts| alerts.len() == 2)
    });
    let alerts = alerts.await.unwrap();
    let labels = &of_scope(&alerts, "node")["labels"];
    let expected = serde_json::json!({
        "alertname": "epoch_hook", "mesh": "local", "scope": "node", "node": "fed",
        "operation": "epoch_hook", "severity": labels["severity"],
    });
    assert_eq!(labels, &expected);
    assert_eq!(of_scope(&alerts, "fleet")["labels"]["node"], Value::Null);
    let annotations = &of_scope(&alerts, "fleet")["annotations"];
    assert_eq!(annotations["limit"], "18 ms");
    for (name, part) in
        [("summary", "end-of-epoch hook"), ("value", " ms"), ("evidence", "p99 at least")]
    {
        assert!(annotations[name].as_str().unwrap().contains(part), "{annotations}");
    }
    let sent = fed_until(&sender, 30, "both groups are notified", async || {
        let count = |scope| notifications(&webhook, "firing", scope).len();
        (count("fleet") == 1 && count("node") == 1).then_some(())
    });
    sent.await.unwrap();

    alertmanager.kill();
    let page = mesh.stack.api().clone();
    let failed = "plimsoll_notification_posts_total{receiver=\"alertmanager\",result=\"connect\"}";
    let missed = fed_until(&sender, 30, "the aggregator misses it", async || {
        MetricsPage::of(&page).await.ok()?.value(failed)
    });
    missed.await.unwrap();
    alertmanager.restart().await.unwrap();
    alertmanager
        .await_alerts(RULE, "it receives the alerts again", |alerts| alerts.len() == 2)
        .await
        .unwrap();

    // An alert that began after the latest checkpoint would begin once more, at a time found anew.
    await_checkpoint(mesh.stack.api()).await.unwrap();
    mesh.stack.kill_aggregator();
    let before = of_scope(&alertmanager.alerts(RULE).await.unwrap(), "fleet").clone();
    hooks(&sender, 30).unwrap();
    mesh.stack.restart_aggregator().await.unwrap();
    let again = fed_until(&sender, 30, "it receives the same alert", async || {
        let alerts = alertmanager.alerts(RULE).await.ok()?;
        let fleet = alerts.iter().find(|alert| alert["labels"]["scope"] == "fleet")?.clone();
        (fleet["updatedAt"] != before["updatedAt"]).then_some(fleet)
    });
    let again = again.await.unwrap();
    assert_eq!(again["startsAt"], before["startsAt"]);
    assert!(notifications(&webhook, "resolved", "fleet").is_empty(), "{:?}", webhook.bodies());

    let over = fed_until(&sender, 2, "both groups receive the end", async || {
        let count = |scope| notifications(&webhook, "resolved", scope).len();
        (count("fleet") == 1 && count("node") == 1).then_some(())
    });
    over.await.unwrap();
    assert_eq!(alertmanager.alerts(RULE).await.unwrap(), Vec::<Value>::new());
    mesh.stack.end().await.unwrap();
}
