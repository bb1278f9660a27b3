//! What a cursor delivers while nothing goes wrong.

use plimsoll_bus::{BusEvent, CursorEvent};
use plimsoll_schemas::clock::Clock;
use plimsoll_schemas::limits::bus::CURSOR_EVENTS_MAX;
use plimsoll_schemas::subject::Lane;

use crate::broker::Broker;
use crate::talk::{Talk, expected, extent, message, next, next_message, payloads, text, token_of};

#[tokio::test]
async fn everything_published_is_read_back_in_order() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 0, None);
    let (mut sent, mut acknowledged) = (0, 0);
    while acknowledged < 1_000 {
        while sent < 1_000 && talk.bus.try_publish(message(Lane::Normal, sent + 1)).is_ok() {
            sent += 1;
        }
        let heard = talk.until(|event| token_of(event).is_some()).await;
        acknowledged += 1;
        assert_eq!(heard, BusEvent::Acknowledged { token: acknowledged, duplicate: false });
    }
    assert_eq!(payloads(&mut cursor, 1_000).await, expected(1..=1_000));
}

#[tokio::test]
async fn reading_starts_where_it_is_told_to() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=10).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 7, None);
    let (first, before) = next_message(&mut cursor).await;
    assert_eq!(before.iter().map(extent).collect::<Vec<_>>(), [Some((1, 10))]);
    assert_eq!((first.stream_seq, first.pending, text(&first)), (7, 3, "payload 7".to_owned()));
    assert_eq!((first.lane, first.subject), (Lane::Normal, message(Lane::Normal, 7).subject));
    assert_eq!(payloads(&mut cursor, 3).await, expected(8..=10));
}

#[tokio::test]
async fn a_message_comes_with_the_time_at_which_the_broker_stored_it() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let clock = Clock::start();
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    for token in 1..=3 {
        let before = clock.now().wall;
        talk.publish(Lane::Normal, token..=token).await;
        let after = clock.now().wall;
        let at = next_message(&mut cursor).await.0.at.unwrap();
        assert!(before <= at && at <= after, "{before} {at} {after}");
    }
    drop(cursor);
    let mut again = talk.bus.cursor(Lane::Normal, 1, None);
    let read_at = clock.now().wall;
    assert!(next_message(&mut again).await.0.at.unwrap() < read_at, "not when it was sent on");
}

#[tokio::test]
async fn a_message_that_no_stream_keeps_has_no_time() {
    let broker = Broker::without_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 0, None);
    assert_eq!(extent(&next(&mut cursor).await), Some((0, 0)));
    talk.publish(Lane::Normal, 1..=1).await;
    assert_eq!(next_message(&mut cursor).await.0.at, None);
}

#[tokio::test]
async fn a_cursor_at_the_end_waits_for_what_comes_next() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=2).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 3, None);
    assert_eq!(extent(&next(&mut cursor).await), Some((1, 2)));
    talk.publish(Lane::Normal, 3..=3).await;
    let (message, before) = next_message(&mut cursor).await;
    assert_eq!((message.stream_seq, before), (3, Vec::new()));
}

#[tokio::test]
async fn a_cursor_beyond_the_end_of_its_stream_starts_over_and_says_so() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=2).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 900, None);
    assert_eq!(next(&mut cursor).await, CursorEvent::Reset { expected_seq: 900, last_seq: 2 });
    assert_eq!(payloads(&mut cursor, 2).await, expected(1..=2));
}

#[tokio::test]
async fn lanes_are_read_apart() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=3).await;
    talk.publish(Lane::Emergency, 4..=5).await;
    for (lane, tokens) in [(Lane::Emergency, 4..=5), (Lane::Normal, 1..=3)] {
        let mut cursor = talk.bus.cursor(lane, 1, None);
        let count = tokens.clone().count();
        assert_eq!(payloads(&mut cursor, count).await, expected(tokens));
    }
}

#[tokio::test]
async fn a_reader_that_takes_its_time_loses_nothing() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    // Several times of what may wait for the reader, the client and the broker's request.
    let count = 12 * CURSOR_EVENTS_MAX as u64;
    talk.publish(Lane::Normal, 1..=count).await;
    let tokens = usize::try_from(count).unwrap();
    assert_eq!(payloads(&mut cursor, tokens).await, expected(1..=count));
}

#[tokio::test]
async fn a_message_larger_than_a_whole_request_is_still_read() {
    let settings = "jetstream: { store_dir: $STORE }, max_payload: 20MB, max_pending: 64MB";
    let broker = Broker::start(settings).await;
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=1).await;
    let mut large = message(Lane::Normal, 2);
    large.payload = vec![7; 10 * 1024 * 1024].into();
    let outcome = talk.outcome(large.clone()).await;
    assert_eq!(outcome, BusEvent::Acknowledged { token: 2, duplicate: false });
    talk.publish(Lane::Normal, 3..=3).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    assert_eq!(text(&next_message(&mut cursor).await.0), "payload 1");
    assert_eq!(next_message(&mut cursor).await.0.payload.len(), large.payload.len());
    assert_eq!(text(&next_message(&mut cursor).await.0), "payload 3");
}
