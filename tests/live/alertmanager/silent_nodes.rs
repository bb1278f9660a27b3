//! Many nodes that fall silent at once: one notification with their number and the first names.

use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::wire::{Body, Bus};
use plimsoll_tests::alertmanager::Alertmanager;
use plimsoll_tests::publisher::Publisher;
use plimsoll_tests::single_node::SingleNodeMesh;
use plimsoll_tests::webhook::WebhookReceiver;
use serde_json::{Value, json};

use crate::hostile::forgery::{header, header_of_now, message};

/// Silence is certain after ten seconds, and the rule asks for five more.
const WAIT: Duration = Duration::from_secs(90);
const NODES: u64 = 40;

fn name(n: u64) -> String {
    format!("made-up-{n:02}")
}

async fn publish(publisher: &mut Publisher, seq: u64, is_last: bool) {
    for n in 0..NODES {
        let of_now = header_of_now(&name(n));
        let mut header = header(&name(n), 1, seq, 0);
        (header.start, header.last) = (of_now.start, is_last);
        let subject = format!("plimsoll.v1.local.normal.{}.bus", name(n));
        publisher.publish(&subject, message(header, Body::Bus(Bus::default()))).await.unwrap();
    }
}

/// Notifications of rules about silence in this state.
fn notified(webhook: &WebhookReceiver, state: AlertState) -> Vec<Value> {
    let bodies = webhook.bodies().into_iter().map(|body| body["notification"].clone());
    let of_silence = |of: &Value| of["rule"].as_str().is_some_and(|rule| rule.contains("silent"));
    bodies.filter(|of| of_silence(of) && of["state"] == json!(state)).collect()
}

#[tokio::test]
async fn forty_nodes_that_fall_silent_are_one_notification_with_number_and_names() {
    let dir = tempfile::tempdir().unwrap();
    let webhook = WebhookReceiver::accepting().await.unwrap();
    let of_alertmanager = WebhookReceiver::accepting().await.unwrap();
    let alertmanager = Alertmanager::start(dir.path(), &of_alertmanager).await.unwrap();
    let settings = format!(
        "[[webhook]]\nname = 'chat'\nurl = '{}'\n\
         [[alertmanager]]\nurl = '{}'\nresend_every = '1s'\n",
        webhook.url(),
        alertmanager.api().url()
    );
    let mut mesh = SingleNodeMesh::start_with(dir.path(), settings).await.unwrap();
    let mut publisher = Publisher::connect(mesh.stack.broker().url()).await.unwrap();
    publish(&mut publisher, 1, false).await;
    let first = until("the receiver is notified of the silence", WAIT, async || {
        notified(&webhook, AlertState::Firing).first().cloned()
    });
    let first = first.await.unwrap();
    let names: Vec<String> = (0..10).map(name).collect();
    let evidence = &first["evidence"];
    assert_eq!((&first["rule"], &evidence["value"]), (&json!("nodes_silent"), &json!(40.0)));
    assert_eq!(evidence["labels"]["nodes"], json!(names.join(",")));
    // Each node's own alert fires too, and is on the page.
    let page = mesh.stack.api().clone();
    let fire = until("each node's alert fires", WAIT, async || {
        let text = page.get("/api/v1/alerts?state=firing&rule=node_silent").await.ok()?;
        let page: Value = serde_json::from_str(&text).ok()?;
        (page["alerts"].as_array()?.len() as u64 == NODES).then_some(())
    });
    fire.await.unwrap();
    assert_eq!(notified(&webhook, AlertState::Firing), [first]);
    let grouped = until("Alertmanager has the one alert", WAIT, async || {
        let alerts = alertmanager.alerts("nodes_silent").await.ok()?;
        (!alerts.is_empty()).then_some(alerts)
    });
    assert_eq!(grouped.await.unwrap().len(), 1);
    assert_eq!(alertmanager.alerts("node_silent").await.unwrap(), Vec::<Value>::new());
    // All leave in order: nothing is silent any more.
    publish(&mut publisher, 2, true).await;
    let resolved = until("the receiver is notified of the end", WAIT, async || {
        notified(&webhook, AlertState::Resolved).first().cloned()
    });
    assert_eq!(resolved.await.unwrap()["rule"], "nodes_silent");
    assert_eq!(notified(&webhook, AlertState::Resolved).len(), 1);
    assert_eq!(notified(&webhook, AlertState::Firing).len(), 1);
    mesh.stack.end().await.unwrap();
}
