//! Unacknowledged messages: current subscribers receive them; later subscribers do not.

use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt;
use plimsoll_bus::limits::{UNACKNOWLEDGED_AGE_MAX, UNACKNOWLEDGED_MAX};
use plimsoll_bus::{BusEvent, UnacknowledgedMessage};
use plimsoll_clock::Stopwatch;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::broker::Broker;
use crate::streams::request;
use crate::talk::{POLL, Talk, config, soon};

const SUBJECT: &str = "plimsoll.v1.m.confirm.n1";

fn aside(subject: &str, word: &str) -> UnacknowledgedMessage {
    let headers = vec![("Plimsoll-Why", word.to_owned()), ("Plimsoll-Seq", "7".to_owned())];
    UnacknowledgedMessage { subject: subject.to_owned(), headers, payload: word.to_owned().into() }
}

/// A subscriber on another connection; its subscription is active when this returns.
async fn ears(url: &str, subject: &str) -> Subscriber {
    let client = soon(poll_connect(url)).await;
    let subscriber = client.subscribe(subject.to_owned()).await.unwrap();
    let answers = client.subscribe("here").await.unwrap();
    client.publish("here", "".into()).await.unwrap();
    soon(answers.into_future()).await.0.expect("the broker has read both subscriptions");
    subscriber
}

/// A broker that was only just started is tried again, sooner than a bus tries it.
async fn poll_connect(url: &str) -> async_nats::Client {
    loop {
        match async_nats::connect(url).await {
            Ok(client) => return client,
            Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
}

async fn word(ears: &mut Subscriber) -> String {
    let message = soon(ears.next()).await.expect("the subscription goes on");
    String::from_utf8(message.payload.to_vec()).unwrap()
}

#[tokio::test]
async fn a_published_message_has_its_headers() {
    for broker in [Broker::with_streams().await, Broker::without_streams().await] {
        let talk = Talk::connected(broker.url()).await;
        let mut ears = ears(&broker.url(), SUBJECT).await;
        talk.bus.publish_unacknowledged(aside(SUBJECT, "hello")).unwrap();
        let message = soon(ears.next()).await.unwrap();
        let headers = message.headers.unwrap();
        let header = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
        assert_eq!(header("Plimsoll-Why").as_deref(), Some("hello"));
        assert_eq!(header("Plimsoll-Seq").as_deref(), Some("7"));
        assert_eq!((&message.payload[..], message.reply), (&b"hello"[..], None));
    }
}

#[tokio::test]
async fn a_burst_as_large_as_the_queue_arrives_in_order() {
    let broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    let mut ears = ears(&broker.url(), SUBJECT).await;
    let words: Vec<String> = (0..UNACKNOWLEDGED_MAX).map(|number| number.to_string()).collect();
    for word in &words {
        talk.bus.publish_unacknowledged(aside(SUBJECT, word)).unwrap();
    }
    for expected in &words {
        assert_eq!(word(&mut ears).await, *expected);
    }
}

#[tokio::test]
async fn what_is_queued_before_closing_is_sent() {
    let broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    let mut ears = ears(&broker.url(), SUBJECT).await;
    talk.bus.publish_unacknowledged(aside(SUBJECT, "goodbye")).unwrap();
    soon(talk.bus.close()).await;
    assert_eq!(word(&mut ears).await, "goodbye");
}

/// Publishes the same text for this time and at least this often. None of it may fail.
async fn poll_publishing(talk: &Talk, word: &str, span: Duration, least: usize) {
    let (watch, mut got) = (Stopwatch::start(), 0);
    while watch.elapsed() < span || got < least {
        for _ in 0..100 {
            assert_eq!(talk.bus.publish_unacknowledged(aside(SUBJECT, word)), Ok(()));
            got += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn publishing_to_an_absent_broker_neither_waits_nor_fails() {
    let mut broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    broker.kill();
    talk.until(|event| *event == BusEvent::Disconnected).await;
    // Longer than anything may wait, and many times as much as the queue can hold.
    poll_publishing(&talk, "stale", UNACKNOWLEDGED_AGE_MAX * 2, 3 * UNACKNOWLEDGED_MAX).await;

    broker.restart();
    let mut ears = ears(&broker.url(), SUBJECT).await;
    talk.until_connected().await;
    talk.bus.publish_unacknowledged(aside(SUBJECT, "fresh")).unwrap();
    assert_eq!(word(&mut ears).await, "fresh");
    let later = timeout(UNACKNOWLEDGED_AGE_MAX, ears.next()).await;
    assert!(later.is_err(), "{later:?}");
}

#[tokio::test]
async fn unsupported_content_harms_no_other() {
    let broker = Broker::start("jetstream: { store_dir: $STORE }, max_payload: 1KB").await;
    let talk = Talk::connected(broker.url()).await;
    let mut ears = ears(&broker.url(), SUBJECT).await;
    talk.bus.publish_unacknowledged(aside("", "nowhere")).unwrap();
    talk.bus.publish_unacknowledged(aside("two words", "nowhere")).unwrap();
    talk.bus.publish_unacknowledged(aside(SUBJECT, "a\r\nb")).unwrap();
    let large = UnacknowledgedMessage { payload: vec![7; 2_048].into(), ..aside(SUBJECT, "large") };
    talk.bus.publish_unacknowledged(large).unwrap();
    talk.bus.publish_unacknowledged(aside(SUBJECT, "small")).unwrap();
    assert_eq!(word(&mut ears).await, "small");
}

async fn poll_until_kept(url: &str, stream: &str) {
    while request(url, stream, Value::Null).await["state"]["messages"] != json!(1) {
        tokio::time::sleep(POLL).await;
    }
}

#[tokio::test]
async fn a_stream_stores_what_is_sent_to_dead_letters() {
    let broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    let stream = "STREAM.INFO.PLIMSOLL_m_dead";
    let info = request(&broker.url(), stream, Value::Null).await;
    assert_eq!(info["config"]["subjects"], json!(["plimsoll.v1.m.dead.*"]));
    assert_eq!(info["config"]["max_bytes"], json!(64 << 20));
    assert_eq!(info["config"]["storage"], json!("file"));

    talk.bus.publish_unacknowledged(aside("plimsoll.v1.m.dead.n1", "too large")).unwrap();
    soon(poll_until_kept(&broker.url(), stream)).await;
    let last = json!({ "last_by_subj": "plimsoll.v1.m.dead.n1" });
    let letter = request(&broker.url(), "STREAM.MSG.GET.PLIMSOLL_m_dead", last).await;
    // "too large", as JSON carries bytes.
    assert_eq!(letter["message"]["data"], json!("dG9vIGxhcmdl"));
    assert!(letter["message"]["hdrs"].is_string(), "{letter}");
}

#[tokio::test]
async fn a_refused_permission_is_reported_with_its_subject() {
    let broker = Broker::start(
        "jetstream: { store_dir: $STORE }, authorization: { users: [
            { user: n1, password: b, permissions: {
                publish: { deny: [\"plimsoll.v1.m.normal.>\", \"plimsoll.v1.m.confirm.>\"] },
                subscribe: { deny: \"plimsoll.v1.m.secret\" } } } ] }",
    )
    .await;
    let mut talk = Talk::begin(config(format!("nats://n1:b@127.0.0.1:{}", broker.port())));
    talk.until_connected().await;
    talk.bus.publish_unacknowledged(aside(SUBJECT, "hello")).unwrap();
    let _listener = talk.bus.listen("plimsoll.v1.m.secret".to_owned());
    let message = crate::talk::message(plimsoll_schemas::subject::Lane::Normal, 1);
    talk.bus.try_publish(message).unwrap();
    let mut denied = Vec::new();
    for _ in 0..3 {
        denied.push(talk.until(|event| matches!(event, BusEvent::Denied { .. })).await);
    }
    for subject in [SUBJECT, "plimsoll.v1.m.secret", "plimsoll.v1.m.normal.n1.latency"] {
        let quoted = format!("{subject:?}");
        let about = |event: &BusEvent| {
            let BusEvent::Denied { text, .. } = event else { return false };
            text.contains(&quoted)
        };
        let count = denied.iter().filter(|event| about(event)).count();
        assert_eq!(count, 1, "{subject}: {denied:?}");
    }
}
