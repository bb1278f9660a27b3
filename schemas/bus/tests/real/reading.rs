//! What a cursor delivers when no fault occurs, and beside a hostile publisher.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use plimsoll_bus::limits::{CURSOR_EVENTS_MAX, PULL_MESSAGES_MAX, STALL_AFTER};
use plimsoll_bus::{BusEvent, CursorEvent, Ticket, UnacknowledgedMessage};
use plimsoll_clock::{Clock, Stopwatch};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::wire::SENT_HEADER;

use crate::broker::Broker;
use crate::talk::{
    Talk, expected, extent, message, next, next_message, payloads, soon, text, token_of,
};

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
        let received = talk.until(|event| token_of(event).is_some()).await;
        acknowledged += 1;
        assert_eq!(
            received,
            BusEvent::Acknowledged { ticket: Ticket(acknowledged), duplicate: false }
        );
    }
    assert_eq!(payloads(&mut cursor, 1_000).await, expected(1..=1_000));
}

#[tokio::test]
async fn reading_starts_at_the_given_cursor() {
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
async fn a_message_states_its_send_time_and_a_resend_the_later_time() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let clock = Clock::start();
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    for attempt in 1..=2 {
        let mut message = message(Lane::Normal, 1);
        message.message_id = format!("n1-1-{attempt}");
        let before = clock.now().wall;
        let outcome = talk.outcome(message).await;
        let after = clock.now().wall;
        assert_eq!(outcome, BusEvent::Acknowledged { ticket: Ticket(1), duplicate: false });
        let read = next_message(&mut cursor).await.0;
        let sent = read.sent.unwrap();
        assert_eq!((read.stream_seq, text(&read)), (attempt, "payload 1".to_owned()));
        assert!(before <= sent && sent <= after, "{before} {sent} {after}");
        assert!(sent <= read.at.unwrap(), "sent after it was stored");
    }
}

#[tokio::test]
async fn a_message_without_a_send_time_is_read_all_the_same() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let subject = message(Lane::Normal, 1).subject;
    for sent in ["", "soon", "-1", "1.5", "0x10", "99999999999999999999"] {
        let headers = vec![(SENT_HEADER, sent.to_owned())];
        let payload = sent.to_owned().into();
        talk.bus
            .publish_unacknowledged(UnacknowledgedMessage {
                subject: subject.clone(),
                headers,
                payload,
            })
            .unwrap();
    }
    let nothing = UnacknowledgedMessage { subject, headers: Vec::new(), payload: "nothing".into() };
    talk.bus.publish_unacknowledged(nothing).unwrap();
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    for expected in ["", "soon", "-1", "1.5", "0x10", "99999999999999999999", "nothing"] {
        let message = next_message(&mut cursor).await.0;
        assert_eq!((text(&message).as_str(), message.sent), (expected, None));
    }
    talk.publish(Lane::Normal, 2..=2).await;
    assert!(next_message(&mut cursor).await.0.sent.is_some());
}

#[tokio::test]
async fn a_backlog_costs_one_request_for_each_batch() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    let mut requests = talk.bus.listen("$JS.API.CONSUMER.MSG.NEXT.>".to_owned());
    let count = 3 * PULL_MESSAGES_MAX as u64;
    talk.publish(Lane::Normal, 1..=count).await;

    let watch = Stopwatch::start();
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    let tokens = usize::try_from(count).unwrap();
    assert_eq!(payloads(&mut cursor, tokens).await, expected(1..=count));
    let subject = "$JS.API.CONSUMER.MSG.NEXT.none".to_owned();
    let end = UnacknowledgedMessage { subject, headers: Vec::new(), payload: "the end".into() };
    talk.bus.publish_unacknowledged(end).unwrap();
    let mut received = 0_u64;
    while soon(requests.next()).await.unwrap().payload != "the end" {
        received += 1;
    }

    // The last one waits for more, and may come after the end. A broker that a busy machine keeps
    // silent for so long interrupts a batch, and each time costs one request more.
    let silences = watch.elapsed().as_secs() / STALL_AFTER.as_secs();
    assert!((3..=3 + 1 + silences).contains(&received), "{received}, {silences}");
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
async fn a_cursor_beyond_the_end_of_its_stream_resets_and_logs() {
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
    assert_eq!(outcome, BusEvent::Acknowledged { ticket: Ticket(2), duplicate: false });
    talk.publish(Lane::Normal, 3..=3).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 1, None);
    assert_eq!(text(&next_message(&mut cursor).await.0), "payload 1");
    assert_eq!(next_message(&mut cursor).await.0.payload.len(), large.payload.len());
    assert_eq!(text(&next_message(&mut cursor).await.0), "payload 3");
}

/// Publishes to the normal lane with a line of headers that no client sends.
fn publish_with(port: u16, line: &[u8]) {
    let headers = [b"NATS/1.0\r\n", line, b"\r\n\r\n"].concat();
    let subject = message(Lane::Normal, 0).subject;
    let head = format!("HPUB {subject} {} {}\r\n", headers.len(), headers.len() + 3);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let connect = b"CONNECT {\"verbose\":false,\"headers\":true}\r\n";
    let command = [connect, head.as_bytes(), &headers, b"bad\r\nPING\r\n"].concat();
    stream.write_all(&command).unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "PONG"), "the broker has it");
}

#[tokio::test]
async fn malformed_headers_stop_no_reader() {
    let broker = Broker::with_streams().await;
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=3).await;
    let lines = [&b"nocolon"[..], b"X: \xff\xfe", b"X Y: z", b"\xff: z"];
    for line in lines {
        publish_with(broker.port(), line);
    }
    talk.publish(Lane::Normal, 4..=6).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, 0, None);
    let mut read = payloads(&mut cursor, 10).await;
    // What comes after them is read too, and nothing twice.
    publish_with(broker.port(), lines[0]);
    let mut other = Talk::connected(broker.url()).await;
    other.publish(Lane::Normal, 7..=7).await;
    read.extend(payloads(&mut cursor, 2).await);
    let bad = |count| vec!["bad".to_owned(); count];
    let all = [expected(1..=3), bad(4), expected(4..=6), bad(1), expected(7..=7)].concat();
    assert_eq!(read, all);
}
