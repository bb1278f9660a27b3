//! The streams: created where they are missing, left alone where they are not.

use plimsoll_bus::{BusEvent, CursorEvent, Refusal};
use plimsoll_schemas::subject::Lane;
use serde_json::{Value, json};

use crate::broker::Broker;
use crate::talk::{
    POLL, Talk, expected, extent, message, next, next_message, payloads, soon, text,
};

/// Sends a request to the JetStream API as an operator would.
pub(crate) async fn request(url: &str, question: &str, body: Value) -> Value {
    let client = soon(async_nats::connect(url)).await.unwrap();
    let subject = format!("$JS.API.{question}");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = client.request(subject, body.into()).await.unwrap();
    serde_json::from_slice(&answer.payload).unwrap()
}

async fn delete_lane(url: &str) {
    let answer = request(url, "STREAM.DELETE.PLIMSOLL_m_normal", Value::Null).await;
    assert_eq!(answer["success"], json!(true), "{answer}");
}

/// As a node would: sends it again until it is acknowledged.
pub(crate) async fn poll_until_kept(talk: &mut Talk, lane: Lane, token: u64) {
    let kept = async {
        loop {
            match talk.outcome(message(lane, token)).await {
                BusEvent::Acknowledged { duplicate, .. } => break duplicate,
                refused => assert!(matches!(refused, BusEvent::Refused { .. })),
            }
            tokio::time::sleep(POLL).await;
        }
    };
    assert!(!soon(kept).await, "a new stream has no duplicates");
}

#[tokio::test]
async fn missing_streams_are_created_with_bounds() {
    let broker = Broker::with_streams().await;
    let _talk = Talk::connected(broker.url()).await;
    for (stream, subject, bytes) in [
        ("PLIMSOLL_m_normal", "plimsoll.v1.m.normal.>", 1 << 30),
        ("PLIMSOLL_m_emergency", "plimsoll.v1.m.emergency.>", 1 << 30),
        ("PLIMSOLL_m_alert", "plimsoll.v1.m.alert.*", 64 << 20),
        ("PLIMSOLL_m_dead", "plimsoll.v1.m.dead.*", 64 << 20),
    ] {
        let info = request(&broker.url(), &format!("STREAM.INFO.{stream}"), Value::Null).await;
        let config = &info["config"];
        assert_eq!(config["subjects"], json!([subject]));
        assert_eq!(config["max_bytes"], json!(bytes));
        assert_eq!(config["max_age"], json!(86_400_000_000_000_u64));
        assert_eq!(config["duplicate_window"], json!(120_000_000_000_u64));
        assert_eq!((&config["storage"], &config["discard"]), (&json!("file"), &json!("old")));
    }
}

#[tokio::test]
async fn a_stream_of_another_name_that_takes_the_subjects_is_named_and_stores_nothing_of_ours() {
    let broker = Broker::with_streams().await;
    let theirs = json!({ "name": "EVERYTHING", "subjects": ["plimsoll.>"], "storage": "memory",
        "retention": "limits", "num_replicas": 1 });
    let answer = request(&broker.url(), "STREAM.CREATE.EVERYTHING", theirs).await;
    assert_eq!(answer["error"], Value::Null, "{answer}");

    let mut talk = Talk::connected(broker.url()).await;
    let outcome = talk.outcome(message(Lane::Normal, 1)).await;
    let BusEvent::Refused { reason: Refusal::Foreign(stream), .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(stream, "EVERYTHING");
    let is_fault = |event: &BusEvent| matches!(event, BusEvent::Streams { fault: Some(_) });
    let BusEvent::Streams { fault: Some(text) } = talk.until(is_fault).await else {
        unreachable!("it was just looked for")
    };
    assert!(text.contains("EVERYTHING"), "{text}");

    // Once it is gone, the streams are created.
    request(&broker.url(), "STREAM.DELETE.EVERYTHING", Value::Null).await;
    poll_until_kept(&mut talk, Lane::Normal, 2).await;
}

#[tokio::test]
async fn an_existing_stream_is_left_as_it_is() {
    let broker = Broker::with_streams().await;
    let theirs = json!({ "name": "PLIMSOLL_m_normal", "subjects": ["plimsoll.v1.m.normal.>"],
        "storage": "memory", "retention": "limits", "max_msgs": 7, "num_replicas": 1 });
    let answer = request(&broker.url(), "STREAM.CREATE.PLIMSOLL_m_normal", theirs).await;
    assert_eq!(answer["error"], Value::Null, "{answer}");
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=1).await;
    let info = request(&broker.url(), "STREAM.INFO.PLIMSOLL_m_normal", Value::Null).await;
    assert_eq!((&info["config"]["max_msgs"], &info["state"]["messages"]), (&json!(7), &json!(1)));
}

#[tokio::test]
async fn a_stream_deleted_under_us_is_created_again() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=3).await;
    delete_lane(&broker.url()).await;
    poll_until_kept(&mut talk, Lane::Normal, 4).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    assert_eq!(payloads(&mut cursor, 1).await, expected(4..=4));
}

#[tokio::test]
async fn a_new_stream_larger_than_the_old_is_still_detected() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=100).await;
    // The test does not read: the cursor waits with a full queue, in the middle of the old stream.
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    assert_eq!(payloads(&mut cursor, 1).await, expected(1..=1));
    delete_lane(&broker.url()).await;
    poll_until_kept(&mut talk, Lane::Normal, 201).await;
    talk.publish(Lane::Normal, 202..=400).await;
    assert_eq!(payloads(&mut cursor, 99).await, expected(2..=100));
    let (message, before) = next_message(&mut cursor).await;
    let reset = CursorEvent::Reset { expected_seq: 101, last_seq: 200 };
    assert_eq!((text(&message).as_str(), &before[0], before.len()), ("payload 201", &reset, 2));
    assert_eq!(extent(&before[1]), Some((1, 200)));
    assert_eq!(payloads(&mut cursor, 199).await, expected(202..=400));
}

#[tokio::test]
async fn a_stream_recreated_between_two_cursors_differs_from_the_old() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=10).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    let CursorEvent::Positioned { stream_id, .. } = next(&mut cursor).await else { panic!() };
    assert_eq!(payloads(&mut cursor, 10).await, expected(1..=10));
    drop(cursor);
    talk.publish(Lane::Normal, 11..=11).await;
    let mut same = talk.bus.cursor(Lane::Normal, 11, Some(stream_id.clone()));
    assert_eq!(text(&next_message(&mut same).await.0), "payload 11");
    delete_lane(&broker.url()).await;
    poll_until_kept(&mut talk, Lane::Normal, 201).await;
    talk.publish(Lane::Normal, 202..=230).await;
    let mut other = talk.bus.cursor(Lane::Normal, 11, Some(stream_id));
    let (message, before) = next_message(&mut other).await;
    assert_eq!(before[0], CursorEvent::Reset { expected_seq: 11, last_seq: 30 });
    assert_eq!((text(&message).as_str(), extent(&before[1])), ("payload 201", Some((1, 30))));
}

#[tokio::test]
async fn a_broker_with_little_room_gets_smaller_streams_and_all_of_them() {
    for (room, normal, emergency) in
        [("256MB", 64, 64), ("300MB", 64, 64), ("1GB", 256, 256), ("2GB", 1_024, 256)]
    {
        let settings = format!("jetstream: {{ store_dir: $STORE, max_file_store: {room} }}");
        let broker = Broker::start(&settings).await;
        let mut talk = Talk::connected(broker.url()).await;
        talk.publish(Lane::Normal, 1..=1).await;
        talk.publish(Lane::Emergency, 2..=2).await;
        let mut sizes = Vec::new();
        for stream in ["normal", "emergency", "alert", "dead"] {
            let info = format!("STREAM.INFO.PLIMSOLL_m_{stream}");
            let info = request(&broker.url(), &info, Value::Null).await;
            sizes.push(info["config"]["max_bytes"].as_u64().unwrap_or_default() >> 20);
        }
        assert_eq!(sizes, [normal, emergency, 64, 64], "{room}");
    }
}
