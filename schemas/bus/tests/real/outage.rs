//! What becomes of a connection and a cursor when the broker fails.

use plimsoll_bus::{BusEvent, ConnectFault, CursorEvent, Ticket};
use plimsoll_schemas::subject::Lane;

use crate::broker::Broker;
use crate::talk::{Talk, config, expected, message, next_message, payloads, text, token_of};

#[tokio::test]
async fn a_stopped_broker_counts_as_stalled_and_answers_late_when_it_goes_on() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    talk.until(|event| matches!(event, BusEvent::RoundTrip(_))).await;
    broker.pause().await;
    for token in 1..=3 {
        talk.bus.try_publish(message(Lane::Normal, token)).unwrap();
    }
    let received = |event: &BusEvent| !matches!(event, BusEvent::RoundTrip(_));
    assert_eq!(talk.until(received).await, BusEvent::Stalled);

    broker.resume();
    for token in 1..=3 {
        let received = talk.until(received).await;
        assert_eq!(received, BusEvent::Acknowledged { ticket: Ticket(token), duplicate: false });
    }
    talk.until(|event| matches!(event, BusEvent::RoundTrip(_))).await;
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_reported_with_the_cause() {
    let mut talk = Talk::begin(config("nats://127.0.0.1:1".to_owned()));
    let failed = talk.until(|event| matches!(event, BusEvent::ConnectFailed { .. })).await;
    let text = "connection refused".to_owned();
    assert_eq!(failed, BusEvent::ConnectFailed { fault: ConnectFault::Refused, text });
}

#[tokio::test]
async fn a_name_that_no_host_has_is_reported_as_such() {
    let mut talk = Talk::begin(config("nats://broker.invalid:4222".to_owned()));
    let failed = talk.until(|event| matches!(event, BusEvent::ConnectFailed { .. })).await;
    let text = "the host name cannot be resolved".to_owned();
    assert_eq!(failed, BusEvent::ConnectFailed { fault: ConnectFault::Name, text });
}

#[tokio::test]
async fn a_broker_that_stays_stopped_is_left_and_found_again() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    broker.pause().await;
    talk.until(|event| *event == BusEvent::Stalled).await;
    talk.until(|event| *event == BusEvent::Disconnected).await;
    broker.resume();
    talk.until_connected().await;
    talk.publish(Lane::Normal, 1..=1).await;
}

#[tokio::test]
async fn a_restarted_broker_costs_a_cursor_neither_a_gap_nor_a_duplicate() {
    let mut broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    let mut seen = Vec::new();
    for round in 0..3 {
        let (first, last) = (round * 20 + 1, round * 20 + 20);
        talk.publish(Lane::Normal, first..=last).await;
        // Half is read before the broker stops, half must be read after it has restarted.
        seen.extend(payloads(&mut cursor, 10).await);
        broker.restart();
        talk.until(|event| *event == BusEvent::Disconnected).await;
        talk.until_connected().await;
        while seen.len() < usize::try_from(last).unwrap() {
            let (message, before) = next_message(&mut cursor).await;
            let reset = |event: &CursorEvent| matches!(event, CursorEvent::Reset { .. });
            assert!(!before.iter().any(reset), "{before:?}");
            seen.push(text(&message));
        }
    }
    assert_eq!(seen, expected(1..=60));
}

#[tokio::test]
async fn a_broker_that_lost_its_store_resets_the_cursor_and_is_read_from_its_start() {
    let mut broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    talk.publish(Lane::Normal, 1..=5).await;
    assert_eq!(payloads(&mut cursor, 5).await, expected(1..=5));
    broker.wipe();
    broker.restart();
    talk.until(|event| *event == BusEvent::Disconnected).await;
    talk.until_connected().await;
    talk.publish(Lane::Normal, 6..=7).await;
    let (message, before) = next_message(&mut cursor).await;
    let reset = before.iter().find(|event| matches!(event, CursorEvent::Reset { .. }));
    assert!(matches!(reset, Some(CursorEvent::Reset { expected_seq: 6, .. })), "{before:?}");
    assert_eq!((message.stream_seq, text(&message)), (1, "payload 6".to_owned()));
    assert_eq!(payloads(&mut cursor, 1).await, expected(7..=7));
}

#[tokio::test]
async fn what_was_queued_when_the_broker_died_is_answered_or_can_be_sent_again() {
    let mut broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    for token in 1..=50 {
        talk.bus.try_publish(message(Lane::Normal, token)).unwrap();
    }
    broker.restart();
    talk.until(|event| *event == BusEvent::Disconnected).await;
    talk.until_connected().await;
    for token in 1..=50 {
        let outcome = talk.outcome(message(Lane::Normal, token)).await;
        assert_eq!(token_of(&outcome), Some(token));
        assert!(matches!(outcome, BusEvent::Acknowledged { .. }), "{outcome:?}");
    }
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    let mut seen = payloads(&mut cursor, 50).await;
    seen.sort();
    let mut all = expected(1..=50);
    all.sort();
    assert_eq!(seen, all);
}
