//! Bodies that try to cost more than they are worth, and clients that do not finish them.

use std::fs;

use plimsoll_runtime::http::CloseReason;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::fixture::{Fixture, LARGEST, answer_of, gzip, head, post, send};

const PROTOBUF: &str = "application/x-protobuf";

fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn begun(length: usize, headers: &str) -> Vec<u8> {
    let headers = format!("content-type: {PROTOBUF}\r\ncontent-length: {length}\r\n{headers}");
    head("POST /v1/metrics", &headers).into_bytes()
}

#[tokio::test]
async fn a_body_declared_too_large_is_refused_before_it_is_read() {
    let mut fixture = Fixture::open().await;
    let address = fixture.http;
    for length in [LARGEST + 1, 100_000_000, usize::MAX >> 1] {
        let reply = fixture.answering(send(address, begun(length, ""))).await.expect("an answer");
        assert_eq!(reply.status, 413, "{length}");
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(text.contains("more than 4194304 bytes; export smaller batches"), "{text}");
    }
    assert_eq!(fixture.ended("http metrics too_large"), 3);
    fixture.emptied().await;
}

#[tokio::test]
async fn a_hundred_undeclared_megabytes_are_read_up_to_the_bound() {
    let mut fixture = Fixture::open().await;
    let address = fixture.http;
    let mut chunked = head(
        "POST /v1/metrics",
        &format!("content-type: {PROTOBUF}\r\ntransfer-encoding: chunked\r\n"),
    )
    .into_bytes();
    chunked.extend_from_slice(b"5f5e100\r\n");
    let client = async move {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&chunked).await.unwrap();
        let mut got = 0;
        while got < 100_000_000 && client.write_all(&[7; 50_000]).await.is_ok() {
            got += 50_000;
        }
        (got, answer_of(client).await)
    };
    let (got, reply) = fixture.answering(client).await;
    // What the kernel buffers on both sides was sent and never read.
    assert!(got < 40_000_000, "{got} bytes were taken");
    assert!(reply.is_none_or(|reply| reply.status == 413));
    assert_eq!(fixture.ended("http metrics too_large"), 1);
    fixture.emptied().await;
}

#[tokio::test]
async fn a_bomb_is_stopped_where_it_passes_the_bound() {
    let mut fixture = Fixture::open().await;
    let address = fixture.http;
    let bomb = gzip(&vec![0; 128 * 1024 * 1024]);
    assert!(bomb.len() < 256 * 1024, "{} bytes", bomb.len());
    let before = peak_kib();
    for _ in 0..20 {
        let bytes = post("/v1/metrics", PROTOBUF, "content-encoding: gzip\r\n", &bomb);
        let reply = fixture.answering(send(address, bytes)).await.expect("an answer");
        assert_eq!(reply.status, 413);
    }
    let grown = peak_kib() - before;
    assert!(grown < 24 * 1024, "{grown} KiB");
    assert_eq!((fixture.ended("http metrics too_large"), fixture.came.len()), (20, 0));
    fixture.emptied().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_nothing() {
    let mut fixture = Fixture::open().await;
    for round in 1..=20 {
        let mut client = TcpStream::connect(fixture.http).await.unwrap();
        client.write_all(&begun(1_000_000, "")).await.unwrap();
        client.write_all(&[7; 100_000]).await.unwrap();
        fixture.until("a body on its way", |fixture| fixture.servers.is_awaited()).await;
        if round % 2 == 0 {
            client.set_zero_linger().unwrap();
        }
        drop(client);
        fixture.emptied().await;
        fixture.until("its end", |fixture| fixture.ended("http metrics hung_up") == round).await;
    }
    assert_eq!(fixture.came.len(), 0);
}

#[tokio::test]
async fn all_bodies_together_have_a_bound_and_requests_beyond_it_may_retry() {
    let mut fixture = Fixture::open().await;
    let address = fixture.http;
    let mut halves = Vec::new();
    for _ in 0..2 {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&begun(LARGEST, "")).await.unwrap();
        client.write_all(&vec![7; LARGEST - 1]).await.unwrap();
        halves.push(client);
    }
    let full = |fixture: &mut Fixture| fixture.stats().requests.buffered_bytes > 2 * LARGEST;
    fixture.until("two large bodies", full).await;
    let third = post("/v1/metrics", PROTOBUF, "", &vec![7; LARGEST]);
    let reply = fixture.answering(send(address, third)).await;
    // So much was on its way that the answer may have been lost with it.
    if let Some(reply) = reply {
        assert_eq!((reply.status, reply.header("retry-after")), (503, "1"));
    }
    assert_eq!(fixture.ended("http metrics busy"), 1);
    let small = post("/v1/metrics", PROTOBUF, "", &[7; 10_000]);
    assert_eq!(fixture.answering(send(address, small)).await.unwrap().status, 200);
    for mut client in halves {
        client.write_all(&[7]).await.unwrap();
        let reply = fixture.answering(answer_of(client)).await.unwrap();
        assert_eq!(reply.status, 200);
    }
    fixture.emptied().await;
}

#[tokio::test]
async fn a_crowd_that_never_finishes_a_body_costs_a_bound_and_not_the_next_client() {
    let mut fixture = Fixture::open().await;
    let address = fixture.http;
    let mut crowd = Vec::new();
    for _ in 0..200 {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&begun(60_000, "")).await.unwrap();
        crowd.push(client);
    }
    for _ in 0..20 {
        let small = post("/v1/metrics", PROTOBUF, "", b"m");
        assert_eq!(fixture.answering(send(address, small)).await.unwrap().status, 200);
    }
    let connections = fixture.stats().connections[0].1.clone();
    assert!(connections.connections() <= 64, "{connections:?}");
    assert!(connections.closed_for(CloseReason::Evicted) > 0, "{connections:?}");
    drop(crowd);
    fixture.emptied().await;
}
