//! What a node costs the JetStream API: nothing, as long as its streams exist.

use plimsoll_bus::{BusConfig, BusEvent, ConnectionRole, Delivery, Refusal};
use plimsoll_schemas::subject::Lane;
use serde_json::Value;

use crate::broker::Broker;
use crate::streams::{poll_until_kept, request};
use crate::talk::{Talk, config, message};

fn node(url: String) -> Talk {
    Talk::begin(BusConfig { role: ConnectionRole::Node, ..config(url) })
}

/// Requests to the JetStream API that the broker has counted since its start, this one not
/// included.
async fn requests(broker: &Broker) -> u64 {
    let info = request(&broker.url(), "INFO", Value::Null).await;
    info["api"]["total"].as_u64().unwrap_or_else(|| panic!("{info}"))
}

#[tokio::test]
async fn a_node_publishes_without_a_request_while_its_streams_exist() {
    let mut broker = Broker::with_streams().await;
    drop(Talk::connected(broker.url()).await);
    let before = requests(&broker).await;
    let mut talk = node(broker.url());
    talk.until_connected().await;
    talk.publish(Lane::Normal, 1..=3).await;
    talk.publish(Lane::Emergency, 4..=4).await;
    assert_eq!(requests(&broker).await, before + 1, "only the request for the count");
    broker.restart();
    talk.until(|event| *event == BusEvent::Disconnected).await;
    talk.until_connected().await;
    talk.publish(Lane::Normal, 5..=6).await;
    assert_eq!(requests(&broker).await, 0, "nor after a restart");
}

#[tokio::test]
async fn a_stream_that_is_missing_is_found_by_its_first_message_and_created() {
    let broker = Broker::with_streams().await;
    let mut talk = node(broker.url());
    talk.until_connected().await;
    let outcome = talk.outcome(message(Lane::Normal, 1)).await;
    assert!(matches!(outcome, BusEvent::Refused { reason: Refusal::NoResponders, .. }));
    poll_until_kept(&mut talk, Lane::Normal, 2).await;
    // The lanes' streams are created one after the other.
    poll_until_kept(&mut talk, Lane::Emergency, 3).await;
}

#[tokio::test]
async fn an_account_without_streams_is_found_by_its_first_message() {
    let users = "users: [{ user: ann, password: hush }]";
    let settings = format!("jetstream: {{ store_dir: $STORE }}, accounts: {{ A: {{ {users} }} }}");
    let broker = Broker::start(&settings).await;
    let mut talk = node(format!("nats://ann:hush@127.0.0.1:{}", broker.port()));
    let connected = |event: &BusEvent| match event {
        BusEvent::Connected { delivery, .. } => Some(*delivery),
        _ => None,
    };
    assert_eq!(connected(&talk.until_connected().await), Some(Delivery::JetStream));
    let outcome = talk.outcome(message(Lane::Normal, 1)).await;
    assert!(matches!(outcome, BusEvent::Refused { reason: Refusal::NoResponders, .. }));
    talk.until(|event| *event == BusEvent::Disconnected).await;
    assert_eq!(connected(&talk.until_connected().await), Some(Delivery::Core));
    talk.publish(Lane::Normal, 2..=2).await;
}
