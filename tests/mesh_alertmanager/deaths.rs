//! One alert from its beginning to its end, while Alertmanager and aggregator are killed in
//! between: nobody is told that it is over before it is.

use plimsoll_tests::alertmanager::Alertmanager;
use plimsoll_tests::fed::Fed;
use plimsoll_tests::feed::Feed;
use plimsoll_tests::hook::Hook;
use plimsoll_tests::page::Page;
use serde_json::Value;

use super::{BUDGETS, RULE, fed_until, hooks, notifications};

fn of_scope<'a>(alerts: &'a [Value], scope: &str) -> &'a Value {
    alerts.iter().find(|alert| alert["labels"]["scope"] == scope).unwrap()
}

#[tokio::test]
async fn an_alert_arrives_outlives_deaths_of_both_sides_and_ends_only_when_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let hook = Hook::taking().await.unwrap();
    let mut alertmanager = Alertmanager::start(dir.path(), &hook).await.unwrap();
    let url = alertmanager.api().url().to_owned();
    let settings = format!("{BUDGETS}[[alertmanager]]\nurl = '{url}'\nresend_every = '1s'\n");
    let mut mesh = Fed::start_with(dir.path(), settings).await.unwrap();
    let feed = Feed::unix(mesh.node.socket()).unwrap();

    let alerts = fed_until(&feed, 30, "both scopes fire", async || {
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
    let told = fed_until(&feed, 30, "both groups are told", async || {
        let told = |scope| notifications(&hook, "firing", scope).len();
        (told("fleet") == 1 && told("node") == 1).then_some(())
    });
    told.await.unwrap();

    alertmanager.kill();
    let page = mesh.stack.api().clone();
    let failed = "plimsoll_notice_posts_total{receiver=\"alertmanager\",result=\"connect\"}";
    let missed = fed_until(&feed, 30, "the aggregator misses it", async || {
        Page::of(&page).await.ok()?.value(failed)
    });
    missed.await.unwrap();
    alertmanager.restart().await.unwrap();
    alertmanager.alerts_when(RULE, "it hears again", |alerts| alerts.len() == 2).await.unwrap();

    mesh.stack.kill_aggregator();
    let before = of_scope(&alertmanager.alerts(RULE).await.unwrap(), "fleet").clone();
    hooks(&feed, 30).unwrap();
    mesh.stack.restart_aggregator().await.unwrap();
    let again = fed_until(&feed, 30, "it hears of the same alert", async || {
        let alerts = alertmanager.alerts(RULE).await.ok()?;
        let fleet = alerts.iter().find(|alert| alert["labels"]["scope"] == "fleet")?.clone();
        (fleet["updatedAt"] != before["updatedAt"]).then_some(fleet)
    });
    let again = again.await.unwrap();
    assert_eq!(again["startsAt"], before["startsAt"]);
    assert!(notifications(&hook, "resolved", "fleet").is_empty(), "{:?}", hook.bodies());

    let over = fed_until(&feed, 2, "both groups hear the end", async || {
        let told = |scope| notifications(&hook, "resolved", scope).len();
        (told("fleet") == 1 && told("node") == 1).then_some(())
    });
    over.await.unwrap();
    assert_eq!(alertmanager.alerts(RULE).await.unwrap(), Vec::<Value>::new());
    mesh.stack.end().await.unwrap();
}
