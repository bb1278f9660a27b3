//! A node that leaves: what was accepted before is recorded and answered, what comes after is told
//! to come again, and nothing is answered well that was not recorded.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::desk::{Answer, Desk, head, heard, post, say};

const JSON: &str = "application/json";

fn is_told_to_come_again(told: &Answer) {
    assert_eq!((told.status, told.header("retry-after")), (503, "1"));
    let text = String::from_utf8_lossy(&told.body).into_owned();
    assert!(text.contains("leaving"), "{text}");
}

/// A request of which all but the last byte is there.
async fn nearly(desk: &mut Desk) -> TcpStream {
    let mut client = TcpStream::connect(desk.http).await.unwrap();
    let headers = format!("content-type: {JSON}\r\ncontent-length: 2\r\n");
    let said = head("POST /v1/metrics", &headers) + "{";
    client.write_all(said.as_bytes()).await.unwrap();
    desk.until("a body on its way", |desk| desk.doors.is_awaited()).await;
    client
}

#[tokio::test]
async fn a_body_on_its_way_is_taken_while_the_sockets_are_emptied_and_a_later_one_is_not() {
    let mut desk = Desk::open().await;
    let mut before = nearly(&mut desk).await;
    desk.doors.leave();
    let after = desk.answering(say(desk.http, post("/v1/metrics", JSON, "", b"{}"))).await;
    is_told_to_come_again(&after.unwrap());
    assert!(desk.doors.is_awaited());
    before.write_all(b"}").await.unwrap();
    assert_eq!(desk.answering(heard(before)).await.unwrap().status, 200);
    assert_eq!(desk.came.len(), 1);
    desk.emptied().await;
}

#[tokio::test]
async fn whatever_is_not_recorded_when_the_doors_close_is_told_to_come_again() {
    let mut desk = Desk::open().await;
    let waiting = tokio::spawn(say(desk.http, post("/v1/metrics", JSON, "", b"{}")));
    let whole = |desk: &mut Desk| desk.figures().requests.volumes.len() == 1;
    desk.until("a body that waits", whole).await;
    let mut unfinished = nearly(&mut desk).await;
    desk.doors.leave();
    desk.doors.close();
    is_told_to_come_again(&waiting.await.unwrap().unwrap());
    unfinished.write_all(b"}").await.unwrap();
    is_told_to_come_again(&heard(unfinished).await.unwrap());
    assert_eq!((desk.came.len(), desk.ended("http metrics leaving")), (0, 2));
    desk.emptied().await;
    desk.doors.end().await;
}
