//! A node that leaves: what was accepted before is recorded and answered. What comes after gets an
//! answer to retry. Nothing that was not recorded and noted gets an answer of success.

use plimsoll_node::core::intake::otlp::Outcome;
use plimsoll_node::core::spool::NoteNumber;
use plimsoll_node::io::otlp::RecordedBody;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::fixture::{Answer, Fixture, answer_of, head, post, send};

const JSON: &str = "application/json";

/// A body that was recorded, and whose answer waits for a note.
fn recorded() -> RecordedBody {
    RecordedBody { outcome: Ok(Outcome::default()), note: NoteNumber::ALL }
}

fn is_asked_to_retry(reply: &Answer) {
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"));
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(text.contains("shutting down"), "{text}");
}

/// A request of which all but the last byte is there.
async fn nearly(fixture: &mut Fixture) -> TcpStream {
    let mut client = TcpStream::connect(fixture.http).await.unwrap();
    let headers = format!("content-type: {JSON}\r\ncontent-length: 2\r\n");
    let sent = head("POST /v1/metrics", &headers) + "{";
    client.write_all(sent.as_bytes()).await.unwrap();
    fixture.until("a body on its way", |fixture| fixture.servers.is_awaited()).await;
    client
}

#[tokio::test]
async fn a_body_on_its_way_is_taken_while_the_sockets_are_emptied_and_a_later_one_is_not() {
    let mut fixture = Fixture::open().await;
    let mut before = nearly(&mut fixture).await;
    fixture.servers.leave();
    let after = fixture.answering(send(fixture.http, post("/v1/metrics", JSON, "", b"{}"))).await;
    is_asked_to_retry(&after.unwrap());
    assert!(fixture.servers.is_awaited());
    before.write_all(b"}").await.unwrap();
    assert_eq!(fixture.answering(answer_of(before)).await.unwrap().status, 200);
    assert_eq!(fixture.came.len(), 1);
    fixture.emptied().await;
}

#[tokio::test]
async fn requests_unrecorded_when_the_servers_close_are_asked_to_retry() {
    let mut fixture = Fixture::open().await;
    let waiting = tokio::spawn(send(fixture.http, post("/v1/metrics", JSON, "", b"{}")));
    let whole = |fixture: &mut Fixture| fixture.stats().requests.volumes.len() == 1;
    fixture.until("a body that waits", whole).await;
    let mut unfinished = nearly(&mut fixture).await;
    fixture.servers.leave();
    fixture.servers.close();
    is_asked_to_retry(&waiting.await.unwrap().unwrap());
    unfinished.write_all(b"}").await.unwrap();
    is_asked_to_retry(&answer_of(unfinished).await.unwrap());
    assert_eq!((fixture.came.len(), fixture.ended("http metrics leaving")), (0, 2));
    fixture.emptied().await;
    fixture.servers.end().await;
}

#[tokio::test]
async fn an_answer_waits_for_its_note_and_a_body_takes_no_memory_meanwhile() {
    let mut fixture = Fixture::open().await;
    let client = tokio::spawn(send(fixture.http, post("/v1/metrics", JSON, "", b"{}")));
    fixture.until("a body", |fixture| !fixture.servers.is_empty()).await;
    let taken = fixture.servers.take(false, |_, _, _| recorded());
    assert_eq!((taken.datagrams, fixture.stats().requests.buffered_bytes), (1, 0));
    for _ in 0..100 {
        fixture.servers.answer(NoteNumber::default());
        tokio::task::yield_now().await;
    }
    assert!(fixture.servers.is_awaited() && !client.is_finished());
    // A leaving node still answers.
    fixture.servers.leave();
    fixture.servers.close();
    fixture.servers.answer(NoteNumber::ALL);
    assert_eq!(client.await.unwrap().unwrap().status, 200);
    assert!(!fixture.servers.is_awaited());
}

#[tokio::test]
async fn what_is_not_noted_when_a_node_ends_is_asked_to_retry() {
    let mut fixture = Fixture::open().await;
    let client = tokio::spawn(send(fixture.http, post("/v1/metrics", JSON, "", b"{}")));
    fixture.until("a body", |fixture| !fixture.servers.is_empty()).await;
    fixture.servers.take(false, |_, _, _| recorded());
    fixture.servers.end().await;
    is_asked_to_retry(&client.await.unwrap().unwrap());
}

#[tokio::test]
async fn while_answers_are_overdue_a_body_is_refused_unrecorded() {
    let mut fixture = Fixture::open().await;
    let client = tokio::spawn(send(fixture.http, post("/v1/metrics", JSON, "", b"{}")));
    fixture.until("a body", |fixture| !fixture.servers.is_empty()).await;
    let taken = fixture.servers.take(true, |_, _, _| panic!("it must not be recorded"));
    assert_eq!(taken.datagrams, 1);
    let reply = client.await.unwrap().unwrap();
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"));
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(text.contains("\"code\":14") && text.contains("spool is slow"), "{text}");
    assert_eq!(fixture.ended("http metrics slow_spool"), 1);
}
