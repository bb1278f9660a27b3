//! Outcomes of a published message.

use std::time::Duration;

use plimsoll_bus::limits::{HAND_OVER_WAIT, PUBLISH_QUEUE_MAX};
use plimsoll_bus::{Bus, BusError, BusEvent, Delivery, Publish, Refusal, Ticket};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::subject::Lane;

use crate::broker::Broker;
use crate::talk::{SOON, Talk, config, expected, extent, message, next, payloads, soon};

#[tokio::test]
async fn a_broker_that_appears_later_is_connected_to_and_takes_messages() {
    let mut broker = Broker::with_streams().await;
    broker.kill();
    let mut talk = Talk::begin(config(broker.url()));
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    let waited = Stopwatch::start();
    // One wait for each of them would take twice as long as `soon` permits.
    let many = 2 * SOON.as_secs() / HAND_OVER_WAIT.as_secs();
    let refused = async {
        for token in 1..=many {
            let reason = Refusal::HandOver;
            let outcome = talk.outcome(message(Lane::Normal, token)).await;
            assert_eq!(outcome, BusEvent::Refused { ticket: Ticket(token), reason });
        }
    };
    soon(refused).await;
    assert!(waited.elapsed() >= HAND_OVER_WAIT);

    broker.restart();
    let connected = talk.until_connected().await;
    assert!(
        matches!(&connected, BusEvent::Connected { delivery: Delivery::JetStream, server_version,
            payload_bytes_max: 1_048_576 } if server_version.starts_with("2."))
    );
    talk.publish(Lane::Normal, 1..=3).await;
    assert_eq!(payloads(&mut cursor, 3).await, expected(1..=3));
}

#[tokio::test]
async fn a_message_sent_twice_under_one_id_is_kept_once() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=1).await;
    let mut again = message(Lane::Normal, 1);
    again.ticket = Ticket(77);
    let outcome = talk.outcome(again).await;
    assert_eq!(outcome, BusEvent::Acknowledged { ticket: Ticket(77), duplicate: true });
    talk.publish(Lane::Normal, 2..=2).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    assert_eq!(payloads(&mut cursor, 2).await, expected(1..=2));
}

#[tokio::test]
async fn what_cannot_be_carried_is_refused_with_the_reason_and_harms_nothing() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let mut too_large = message(Lane::Normal, 1);
    too_large.payload = vec![0; 1024 * 1024].into();
    let mut blank = message(Lane::Normal, 2);
    blank.subject.push(' ');
    let mut line_break = message(Lane::Normal, 3);
    line_break.message_id.push_str("\r\nPUB x");
    let mut nowhere = message(Lane::Normal, 4);
    nowhere.subject = "elsewhere".to_owned();
    for (message, reason) in [
        (too_large, Refusal::TooLarge),
        (blank, Refusal::Malformed),
        (line_break, Refusal::Malformed),
        (nowhere, Refusal::NoResponders),
    ] {
        let ticket = message.ticket;
        assert_eq!(talk.outcome(message).await, BusEvent::Refused { ticket, reason });
    }
    talk.publish(Lane::Normal, 5..=5).await;
}

#[tokio::test]
async fn a_full_queue_returns_the_message() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let last = PUBLISH_QUEUE_MAX as u64;
    // No await in between: the task that empties the queue has no chance to run.
    for token in 1..=last {
        assert_eq!(talk.bus.try_publish(message(Lane::Normal, token)), Ok(()));
    }
    let one_more = message(Lane::Normal, last + 1);
    assert_eq!(talk.bus.try_publish(one_more.clone()), Err(one_more));
    for token in 1..=last {
        let received = talk.until(|event| crate::talk::token_of(event).is_some()).await;
        assert_eq!(received, BusEvent::Acknowledged { ticket: Ticket(token), duplicate: false });
    }
}

#[tokio::test]
async fn without_streams_the_echo_acknowledges_and_the_lane_is_live() {
    let broker = Broker::without_streams().await;
    let mut talk = Talk::begin(config(broker.url()));
    let connected = talk.until_connected().await;
    assert!(matches!(connected, BusEvent::Connected { delivery: Delivery::Core, .. }));
    let mut cursor = talk.bus.cursor(Lane::Emergency, 9, None);
    assert_eq!(extent(&next(&mut cursor).await), Some((0, 0)));
    talk.publish(Lane::Emergency, 1..=20).await;
    for token in 1..=20 {
        let plimsoll_bus::CursorEvent::Message(delivered) = next(&mut cursor).await else {
            panic!("only messages follow")
        };
        assert_eq!(delivered.payload, message(Lane::Emergency, token).payload);
        assert_eq!((delivered.stream_seq, delivered.pending), (0, 0));
    }
}

#[tokio::test]
async fn probes_measure_the_way_to_the_broker_and_back() {
    let broker = Broker::with_streams().await;
    let watch = Stopwatch::start();
    let mut talk = Talk::connected(broker.url()).await;
    for _ in 0..2 {
        let received = talk.until(|event| matches!(event, BusEvent::RoundTrip(_))).await;
        let all = watch.elapsed();
        assert!(matches!(received, BusEvent::RoundTrip(took)
            if took > Duration::ZERO && took <= all));
    }
}

#[tokio::test]
async fn a_listener_receives_what_is_published() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let mut listener = talk.bus.listen("plimsoll.v1.m.alert.*".to_owned());
    let mut alert = message(Lane::Normal, 1);
    alert.subject = "plimsoll.v1.m.alert.slow".to_owned();
    // The subscription is on its way; a retained alert is acknowledged either way.
    let received = loop {
        alert.ticket.0 += 1;
        alert.message_id = format!("alert-{}", alert.ticket.0);
        talk.outcome(alert.clone()).await;
        let wait = tokio::time::timeout(Duration::from_millis(50), listener.next());
        if let Ok(received) = wait.await {
            break received.unwrap();
        }
    };
    assert_eq!(received.subject, "plimsoll.v1.m.alert.slow");
    assert_eq!(received.payload, "payload 1");
    talk.bus.close().await;
    assert_eq!(soon(async { while listener.next().await.is_some() {} }).await, ());
}

#[tokio::test]
async fn a_bad_url_is_an_error_that_names_it() {
    let refused = Bus::connect(config("http://broker:4222".to_owned()));
    let Err(error @ BusError::Url { .. }) = refused else { panic!("refused as a url") };
    assert!(error.to_string().contains("\"http://broker:4222\""), "{error}");
}

#[tokio::test]
async fn a_message_above_max_payload_is_refused_and_the_connection_stays() {
    let broker = Broker::start("jetstream: { store_dir: $STORE }, max_payload: 1KB").await;
    let mut talk = Talk::begin(config(broker.url()));
    let connected = talk.until_connected().await;
    assert!(
        matches!(connected, BusEvent::Connected { payload_bytes_max: 1_024, .. }),
        "{connected:?}"
    );
    let large = Publish { payload: vec![7; 1_000].into(), ..message(Lane::Normal, 1) };
    let outcome = talk.outcome(large).await;
    // Its headers count.
    assert_eq!(outcome, BusEvent::Refused { ticket: Ticket(1), reason: Refusal::TooLarge });
    talk.publish(Lane::Normal, 2..=2).await;
}
