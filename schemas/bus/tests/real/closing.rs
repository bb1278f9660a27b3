//! What closing and dropping a connection leave behind.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use plimsoll_bus::BusEvent;
use plimsoll_bus::limits::{PING_EVERY, PUBLISH_QUEUE_MAX, RETRY_DELAY_MAX};
use plimsoll_schemas::subject::Lane;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::broker::Broker;
use crate::streams::request;
use crate::talk::{Talk, config, expected, message, payloads, soon, token_of};

fn fill_queue(talk: &Talk) {
    for token in 1..=PUBLISH_QUEUE_MAX as u64 {
        talk.bus.try_publish(message(Lane::Normal, token)).unwrap();
    }
}

#[tokio::test]
async fn closing_loses_nothing_that_was_handed_over() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    fill_queue(&talk);
    talk.bus.close().await;
    let mut got = Vec::new();
    while let Some(event) = soon(talk.events.next()).await {
        got.extend(token_of(&event));
    }
    assert!(got.len() <= PUBLISH_QUEUE_MAX);

    let reader = Talk::connected(broker.url()).await;
    let mut cursor = reader.bus.cursor(Lane::Normal, 1, None);
    let all = expected(1..=PUBLISH_QUEUE_MAX as u64);
    assert_eq!(payloads(&mut cursor, PUBLISH_QUEUE_MAX).await, all);
}

#[tokio::test]
async fn closing_waits_for_a_broker_that_has_not_read_everything() {
    let broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    broker.pause().await;
    // All of it fits into the socket buffers, so only the broker can confirm that it was read.
    fill_queue(&talk);
    let mut closing = pin!(talk.bus.close());
    // The client, left to itself, would close with its next ping.
    assert!(timeout(PING_EVERY + Duration::from_secs(1), &mut closing).await.is_err());
    broker.resume();
    soon(closing).await;
    let info = request(&broker.url(), "STREAM.INFO.PLIMSOLL_m_normal", Value::Null).await;
    assert_eq!(info["state"]["messages"], PUBLISH_QUEUE_MAX);
}

#[tokio::test]
async fn a_dropped_bus_stops_trying_to_connect() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let talk = Talk::begin(config(silent.local_addr().unwrap().to_string()));
    soon(async { silent.accept().await.map(drop) }).await.unwrap();
    soon(async { silent.accept().await.map(drop) }).await.unwrap();
    drop(talk);
    // One attempt may have been under way.
    let mut attempts = 0;
    while timeout(RETRY_DELAY_MAX * 2, silent.accept()).await.is_ok() {
        attempts += 1;
        assert!(attempts <= 1, "{attempts}");
    }
}

#[tokio::test]
async fn closing_loses_nothing_without_streams_either() {
    let broker = Broker::without_streams().await;
    let listener = soon(async_nats::connect(broker.url())).await.unwrap();
    let mut received = listener.subscribe("plimsoll.>").await.unwrap();
    listener.flush().await.unwrap();
    let talk = Talk::connected(broker.url()).await;
    fill_queue(&talk);
    talk.bus.close().await;
    for token in 1..=PUBLISH_QUEUE_MAX as u64 {
        let message = soon(received.next()).await.unwrap();
        assert_eq!(message.payload, format!("payload {token}"));
    }
}

#[tokio::test]
async fn closing_does_not_wait_for_an_absent_broker() {
    let mut broker = Broker::with_streams().await;
    broker.kill();
    let mut talk = Talk::begin(config(broker.url()));
    fill_queue(&talk);
    soon(talk.bus.close()).await;
    let mut refused = 0;
    while let Some(event) = soon(talk.events.next()).await {
        match event {
            BusEvent::Refused { .. } => refused += 1,
            event => assert!(matches!(event, BusEvent::ConnectFailed { .. }), "{event:?}"),
        }
    }
    assert_eq!(refused, PUBLISH_QUEUE_MAX);
}

#[tokio::test]
async fn closing_ends_cursors_and_events() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    talk.publish(Lane::Normal, 1..=1).await;
    assert_eq!(payloads(&mut cursor, 1).await, expected(1..=1));
    talk.bus.close().await;
    assert_eq!(soon(cursor.next()).await, None);
    while soon(talk.events.next()).await.is_some() {}
}

#[tokio::test]
async fn dropping_discards_the_queue_and_ends_at_once() {
    let mut broker = Broker::with_streams().await;
    broker.kill();
    let mut talk = Talk::begin(config(broker.url()));
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    fill_queue(&talk);
    drop(talk.bus);
    assert_eq!(soon(talk.events.next()).await, None);
    assert_eq!(soon(cursor.next()).await, None);
}
