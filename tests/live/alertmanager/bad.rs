//! Receivers that are down, reject, break, return garbage or never respond affect only themselves.

use std::collections::BTreeSet;

use plimsoll_bus::{Bus, BusConfig};
use plimsoll_mesh::child::free_port;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::undeliverable_subject;
use plimsoll_tests::metrics_page::{MetricsPage, promtool_findings};
use plimsoll_tests::process::{await_summary, fleet_samples};
use plimsoll_tests::single_node::SingleNodeMesh;
use plimsoll_tests::statsd::StatsdSender;
use plimsoll_tests::webhook::WebhookReceiver;
use serde_json::Value;
use tokio::time::timeout;

use super::{BUDGETS, RULE, WAIT, fed_until};

/// The rule about undeliverable notifications would fire too, and be notified.
const QUIET: &str = "[[rule]]\nname = 'notifications_undeliverable'\nenabled = false\n";
/// A mark that occurs in the path of every URL, and in no other text.
const SECRET: &str = "s3cret-path";

fn webhook(name: &str, url: &str, template: &str) -> String {
    format!("[[webhook]]\nname = '{name}'\nurl = '{url}/{SECRET}'\ntemplate = '{template}'\n")
}

fn result(receiver: &str, result: &str) -> String {
    format!("plimsoll_notification_posts_total{{receiver=\"{receiver}\",result=\"{result}\"}}")
}

#[tokio::test]
async fn failing_receivers_are_counted_by_reason_and_delay_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let good = WebhookReceiver::accepting().await.unwrap();
    let chat = WebhookReceiver::accepting().await.unwrap();
    let missing = WebhookReceiver::start("HTTP/1.1 404 Not Found\r\n\r\n").await.unwrap();
    let busy = WebhookReceiver::start("HTTP/1.1 503 Busy\r\nRetry-After: 2\r\n\r\n").await.unwrap();
    let garbage = WebhookReceiver::start("hello\r\n").await.unwrap();
    let silent = WebhookReceiver::start("").await.unwrap();
    let unused = format!("http://127.0.0.1:{}", free_port().unwrap());
    let all = [
        ("good", good.url(), "plimsoll"),
        ("chat", chat.url(), "slack"),
        ("missing", missing.url(), "plimsoll"),
        ("busy", busy.url(), "plimsoll"),
        ("garbage", garbage.url(), "plimsoll"),
        ("silent", silent.url(), "plimsoll"),
        ("absent", unused, "plimsoll"),
    ];
    let webhooks: String =
        all.iter().map(|(name, url, template)| webhook(name, url, template)).collect();
    let settings = format!("{BUDGETS}{QUIET}{webhooks}");
    let mut mesh = SingleNodeMesh::start_with(dir.path(), settings).await.unwrap();
    let name = MeshName::new("local").unwrap();
    let subject = undeliverable_subject(&name);
    let url = mesh.stack.broker().url();
    let connection_name = "listener".to_owned();
    let config = BusConfig::new(url, connection_name, name);
    let (bus, _events) = Bus::connect(config).unwrap();
    let mut given_up = bus.listen(subject);

    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    let api = mesh.stack.api().clone();
    let page = fed_until(&sender, 30, "each is tried", async || {
        let page = MetricsPage::of(&api).await.ok()?;
        let tried = [("missing", "status_4xx", 2.0), ("busy", "status_5xx", 2.0)]
            .into_iter()
            .chain([("garbage", "garbage", 2.0), ("absent", "connect", 2.0)])
            .chain([("good", "taken", 2.0), ("chat", "taken", 2.0), ("silent", "timeout", 1.0)]);
        let done = |(name, why, n): (&str, &str, f64)| {
            page.value(&result(name, why)).is_some_and(|posts| posts >= n)
        };
        tried.into_iter().all(done).then_some(page)
    });
    let page = page.await.unwrap();

    undeliverable_is_shown(&page, &api).await;
    let received = timeout(WAIT, given_up.next()).await.unwrap().unwrap();
    let received: Value = serde_json::from_slice(&received.payload).unwrap();
    assert_eq!((&received["rule"], &received["reason"]), (&RULE.into(), &"refused".into()));
    let cause = received["cause"].as_str().unwrap();
    assert!(cause.starts_with("HTTP 404 Not Found; correct the receiver's url"), "{cause}");

    let scopes = |bodies: Vec<Value>| -> BTreeSet<String> {
        bodies.iter().map(|body| body["notification"]["scope"].to_string()).collect()
    };
    let both = BTreeSet::from(["\"fleet\"".to_owned(), "{\"node\":\"fed\"}".to_owned()]);
    assert_eq!(scopes(good.bodies()), both);
    let text = chat.bodies()[0]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("FIRING: epoch_hook"), "{text}");

    // The latency of delivery is an operation, and in no ledger.
    let delivered = |summary: &_| fleet_samples(summary, "notification_delivery") == 4;
    let summary = await_summary(&api, "four were delivered", delivered).await.unwrap();
    assert_eq!(summary.ledger.merged, summary.nodes[0].ledger.merged);
    let metrics = api.get("/metrics").await.unwrap();
    assert_eq!(promtool_findings(&metrics).unwrap(), "");
    for text in [mesh.stack.aggregator().log(), metrics] {
        assert!(!text.contains(SECRET), "{text}");
    }
    mesh.stack.end().await.unwrap();
}

async fn undeliverable_is_shown(page: &MetricsPage, api: &Api) {
    let waiting = page.by_label("plimsoll_notifications_queued", "receiver");
    for (name, expected) in
        [("good", 0.0), ("chat", 0.0), ("missing", 0.0), ("busy", 2.0), ("silent", 2.0)]
    {
        assert_eq!(waiting[name], expected, "{name}");
    }
    let refused =
        "plimsoll_notifications_undeliverable_total{receiver=\"missing\",reason=\"refused\"}";
    assert_eq!(page.value(refused), Some(2.0));
    let undeliverable: Vec<Value> =
        serde_json::from_str(&api.get("/api/v1/alerts/undeliverable").await.unwrap()).unwrap();
    let by: BTreeSet<_> = undeliverable.iter().map(|of| of["receiver"].as_str().unwrap()).collect();
    assert_eq!((undeliverable.len(), by), (2, BTreeSet::from(["missing"])));
    assert!(!format!("{undeliverable:?}").contains(SECRET));
}
