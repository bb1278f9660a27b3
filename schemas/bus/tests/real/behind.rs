//! Servers of a cluster that stay behind: their consumers have nothing, although the stream has a
//! message. The cluster is played by a client that answers the JetStream API.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use plimsoll_bus::CursorEvent;
use plimsoll_schemas::subject::Lane;
use serde_json::{Value, json};

use crate::broker::Broker;
use crate::talk::{Talk, next};

/// What the played cluster is to do, and has done.
#[derive(Default)]
struct Played {
    /// Whether servers have a leader.
    is_led: AtomicBool,
    /// Consumers created, none of which has a message.
    consumers: AtomicU64,
}

/// The stream's only message.
const LAST: u64 = 1;

/// Answers until the broker ends; `ready` once its subscription is known.
fn play(port: u16, played: &Played, ready: &mpsc::Sender<()>) {
    let mut writer = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut reader = BufReader::new(writer.try_clone().unwrap());
    let connect = "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB $JS.API.> 1\r\nPING\r\n";
    writer.write_all(connect.as_bytes()).unwrap();
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["PING"] = words[..] {
            writer.write_all(b"PONG\r\n").unwrap();
        } else if let ["PONG"] = words[..] {
            ready.send(()).unwrap();
        } else if let ["MSG" | "HMSG", subject, _, reply, .., length] = words[..] {
            let mut payload = vec![0; length.parse::<usize>().unwrap() + 2];
            reader.read_exact(&mut payload).unwrap();
            writer.write_all(answer(subject, reply, played).as_bytes()).unwrap();
        }
        line.clear();
    }
}

fn answer(subject: &str, reply: &str, played: &Played) -> String {
    let operation = subject.trim_start_matches("$JS.API.");
    let message = |body: &Value| {
        let body = body.to_string();
        format!("PUB {reply} {}\r\n{body}\r\n", body.len())
    };
    if operation.starts_with("STREAM.INFO.") {
        let leader = if played.is_led.load(Ordering::Relaxed) { "a" } else { "" };
        // Without a leader a server answers what it has itself.
        let last = if leader.is_empty() { 0 } else { LAST };
        return message(&json!({
            "created": "2026-11-26T00:00:00Z", "config": {}, "cluster": { "leader": leader },
            "state": { "first_seq": last, "last_seq": last, "messages": last },
        }));
    }
    if operation.starts_with("CONSUMER.CREATE.") {
        let number = played.consumers.fetch_add(1, Ordering::Relaxed) + 1;
        return message(&json!({ "name": format!("c{number}") }));
    }
    if operation.starts_with("CONSUMER.MSG.NEXT.") {
        let status = "NATS/1.0 404 No Messages\r\n\r\n";
        return format!("HPUB {reply} {0} {0}\r\n{status}\r\n", status.len());
    }
    String::new()
}

#[tokio::test]
async fn a_consumer_on_a_server_that_stays_behind_is_left_for_another() {
    let broker = Broker::without_streams().await;
    let played = Arc::new(Played::default());
    let (port, also) = (broker.port(), Arc::clone(&played));
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || play(port, &also, &ready));
    is_ready.recv().unwrap();
    let talk = Talk::connected(broker.url()).await;
    let mut cursor = talk.bus.cursor(Lane::Normal, LAST, Some("2026-11-26T00:00:00Z".to_owned()));
    let waited = tokio::time::timeout(std::time::Duration::from_secs(1), cursor.next()).await;
    assert!(waited.is_err(), "a stream without a leader is not judged: {waited:?}");
    played.is_led.store(true, Ordering::Relaxed);
    let positioned = next(&mut cursor).await;
    assert!(matches!(positioned, CursorEvent::Positioned { last_seq: LAST, .. }), "{positioned:?}");
    let again = next(&mut cursor).await;
    assert!(matches!(again, CursorEvent::Positioned { last_seq: LAST, .. }), "{again:?}");
    assert!(played.consumers.load(Ordering::Relaxed) >= 1, "it had nothing");
}
