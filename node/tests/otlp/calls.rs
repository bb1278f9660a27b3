//! OTLP over gRPC: each answer with its status, its message and its body. The client is hyper's
//! own for HTTP/2.

use std::net::SocketAddr;

use axum::body::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use plimsoll_node::core::intake::otlp::{Encoding, Signal};
use plimsoll_runtime::http::{CloseReason, ConnectionStage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::{Fixture, LARGEST, gzip};

const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

#[derive(Clone)]
struct Spawner;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, task: F) {
        tokio::spawn(task);
    }
}

/// What a call came to: HTTP status, `grpc-status`, `grpc-message`, and the body with its frame.
type Called = (u16, String, String, Vec<u8>);

pub(crate) type Sender = http2::SendRequest<Full<Bytes>>;

pub(crate) async fn connect(address: SocketAddr) -> Sender {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = http2::handshake(Spawner, stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// One call over a connection of its own.
async fn call(
    address: SocketAddr,
    path: &str,
    headers: &[(&'static str, &'static str)],
    body: Vec<u8>,
) -> Called {
    let mut request = Request::post(format!("http://h{path}"));
    for (name, value) in [("te", "trailers")].iter().chain(headers) {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    called(connect(address).await, request).await
}

pub(crate) async fn called(mut sender: Sender, request: Request<Full<Bytes>>) -> Called {
    let answer = sender.send_request(request).await.unwrap();
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let got = |headers: &HeaderMap, name| headers.get(name).map(|v| v.to_str().unwrap().to_owned());
    let field = |name| got(&trailers, name).or_else(|| got(&head.headers, name));
    let (status, message) = (field("grpc-status"), field("grpc-message"));
    let body = body.to_bytes().to_vec();
    (head.status.as_u16(), status.unwrap_or_default(), message.unwrap_or_default(), body)
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flag], &length[..], message].concat()
}

const GRPC: (&str, &str) = ("content-type", "application/grpc");
const GZIP: (&str, &str) = ("grpc-encoding", "gzip");

#[tokio::test]
async fn a_message_is_handed_over_and_answered_by_a_message_and_a_status() {
    let mut fixture = Fixture::open().await;
    let address = fixture.grpc;
    let proto = ("content-type", "application/grpc+proto");
    let empty = framed(0, b"");
    for (path, headers, sent, answered) in [
        (METRICS, vec![GRPC], framed(0, b"m"), empty.clone()),
        (TRACES, vec![proto, GZIP], framed(1, &gzip(b"t")), empty.clone()),
        (TRACES, vec![GRPC, GZIP], framed(0, b"plain"), empty.clone()),
        (METRICS, vec![GRPC, ("grpc-encoding", "identity")], framed(0, b""), empty.clone()),
        (METRICS, vec![GRPC], framed(0, &vec![7; LARGEST]), empty.clone()),
        (
            METRICS,
            vec![GRPC],
            framed(0, b"partly"),
            framed(0, &[&[0x0a, 28, 0x08, 3, 0x12, 24], &b"unit of x: set otlp.unit"[..]].concat()),
        ),
    ] {
        let call = async move { call(address, path, &headers, sent).await };
        let (status, code, message, body) = fixture.answering(call).await;
        assert_eq!((status, code.as_str(), message.as_str()), (200, "0", ""), "{path}");
        assert_eq!(body, answered, "{path}");
    }
    let came: Vec<_> = fixture.came.iter().map(|(signal, _, body)| (*signal, body.len())).collect();
    let [metrics, traces] = [Signal::Metrics, Signal::Traces];
    let sent = [(metrics, 1), (traces, 1), (traces, 5), (metrics, 0), (metrics, LARGEST)];
    assert_eq!(came, [&sent[..], &[(metrics, 6)]].concat());
    assert!(fixture.came.iter().all(|(_, encoding, _)| *encoding == Encoding::Protobuf));
    assert_eq!(
        (fixture.ended("grpc metrics taken"), fixture.ended("grpc metrics partial")),
        (3, 1)
    );
    fixture.emptied().await;
}

#[tokio::test]
async fn each_refusal_has_its_code_and_states_the_fix() {
    let mut fixture = Fixture::open().await;
    let address = fixture.grpc;
    let logs = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    let bomb = gzip(&vec![0; 64 * 1024 * 1024]);
    let promised = [&[0, 0, 64, 0, 1], &b"x"[..]].concat();
    for (path, headers, sent, code, words, ending) in [
        (logs, vec![GRPC], framed(0, b""), "12", "metrics and traces", "none unknown"),
        (
            METRICS,
            vec![GRPC],
            framed(0, b"bad"),
            "3",
            "metric 7: %C3%A4 is no",
            "metrics malformed",
        ),
        (METRICS, vec![GRPC, GZIP], framed(1, b"{}"), "3", "gzip: ", "metrics malformed"),
        (
            METRICS,
            vec![GRPC],
            framed(1, b"x"),
            "13",
            "grpc-encoding is not set",
            "metrics malformed",
        ),
        (METRICS, vec![GRPC], framed(2, b"x"), "13", "starts with 0 or 1", "metrics malformed"),
        (
            METRICS,
            vec![GRPC],
            framed(0, b"x").repeat(2),
            "13",
            "this has more",
            "metrics malformed",
        ),
        (METRICS, vec![GRPC], b"\0\0\0".to_vec(), "13", "before its length", "metrics malformed"),
        (METRICS, vec![GRPC], vec![], "13", "before its length", "metrics malformed"),
        (TRACES, vec![GRPC], vec![0, 0, 0, 0, 9, 1], "13", "before its length", "traces malformed"),
        (
            METRICS,
            vec![GRPC, ("grpc-encoding", "zstd")],
            framed(1, b"x"),
            "12",
            "gzip or identity",
            "metrics unsupported",
        ),
        (METRICS, vec![GRPC], promised, "8", "more than 4194304 bytes", "metrics too_large"),
        (METRICS, vec![GRPC, GZIP], framed(1, &bomb), "8", "smaller", "metrics too_large"),
    ] {
        let before = fixture.ended(&format!("grpc {ending}"));
        let call = async move { call(address, path, &headers, sent).await };
        let (status, reply, message, body) = fixture.answering(call).await;
        assert_eq!((status, reply.as_str(), body.len()), (200, code, 0), "{message}");
        assert!(message.contains(words), "{words} is not in {message}");
        assert_eq!(fixture.ended(&format!("grpc {ending}")), before + 1, "{ending}");
    }
    let json = vec![("content-type", "application/grpc+json")];
    let call = async move { call(address, METRICS, &json, framed(0, b"{}")).await };
    assert_eq!(fixture.answering(call).await.0, 415);
    assert_eq!(fixture.came.len(), 1);
    fixture.emptied().await;
}

#[tokio::test]
async fn a_hundred_megabytes_are_read_no_further_than_their_head() {
    let mut fixture = Fixture::open().await;
    let address = fixture.grpc;
    let sent = framed(0, &vec![7; 100_000_000]);
    let call = async move { call(address, METRICS, &[GRPC], sent).await };
    let (_, code, message, _) = fixture.answering(call).await;
    assert_eq!(code, "8", "{message}");
    assert_eq!(fixture.stats().requests.volumes.len(), 0);
    fixture.emptied().await;
}

#[tokio::test]
async fn many_calls_at_once_on_one_connection_are_all_answered() {
    let mut fixture = Fixture::open().await;
    let address = fixture.grpc;
    let request = |n: u8| {
        let body = Full::new(Bytes::from(framed(0, &vec![n; 100_000])));
        Request::post(format!("http://h{METRICS}")).header(GRPC.0, GRPC.1).body(body).unwrap()
    };
    let calls = async move {
        let sender = connect(address).await;
        // With its answer the client receives the number of calls that it may have at once.
        let mut codes = vec![called(sender.clone(), request(0)).await.1];
        let calls: Vec<_> =
            (1..50).map(|n| tokio::spawn(called(sender.clone(), request(n)))).collect();
        for call in calls {
            codes.push(call.await.unwrap().1);
        }
        codes
    };
    let codes = fixture.answering(calls).await;
    assert_eq!(codes, vec!["0"; 50]);
    assert_eq!(fixture.came.iter().map(|(_, _, body)| body.len()).sum::<usize>(), 5_000_000);
    let connections = fixture.stats().connections[1].1.clone();
    assert_eq!((connections.accepted, connections.answered), (1, 50));
    fixture.emptied().await;
}

#[tokio::test]
async fn a_cancelled_call_leaves_nothing_behind() {
    let mut fixture = Fixture::open().await;
    let address = fixture.grpc;
    for round in 1..=20 {
        let sent = framed(0, &vec![7; 50_000]);
        let call = tokio::spawn(async move { call(address, METRICS, &[GRPC], sent).await });
        fixture.until("a call on its way", |fixture| fixture.servers.is_awaited()).await;
        call.abort();
        // No call is answered meanwhile: it may have come in full.
        fixture.until("its end", |fixture| fixture.ended("grpc metrics hung_up") == round).await;
        fixture.turn();
        fixture.emptied().await;
    }
}

#[tokio::test]
async fn bytes_that_are_not_http2_are_closed_and_the_next_call_is_answered() {
    let mut fixture = Fixture::open().await;
    let address = fixture.grpc;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for bytes in [
        b"POST /v1/metrics HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(9),
        // A frame of 16 MiB, and headers without end.
        [&preface[..], b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"].concat(),
        [&preface[..], &b"\x00\x00\x00\x09\x00\x00\x00\x00\x01".repeat(50)].concat(),
    ] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        let _read = client.read_to_end(&mut answer).await;
        assert!(answer.len() < 1_000, "{answer:?}");
    }
    let call = async move { call(address, METRICS, &[GRPC], framed(0, b"m")).await };
    assert_eq!(fixture.answering(call).await.1, "0");
    let over = |fixture: &mut Fixture| fixture.stats().connections[1].1.connections() == 0;
    fixture.until("all over", over).await;
    let connections = fixture.stats().connections[1].1.clone();
    assert_eq!(connections.closed_for(CloseReason::Malformed), 4, "{connections:?}");
    assert_eq!(connections.open[0], (ConnectionStage::Waiting, 0));
}

#[tokio::test]
async fn a_node_that_leaves_asks_its_callers_to_retry() {
    let mut fixture = Fixture::open().await;
    let address = fixture.grpc;
    let sender = async move { connect(address).await };
    let kept = fixture.answering(sender).await;
    fixture.servers.leave();
    let request = Request::post(format!("http://h{METRICS}")).header(GRPC.0, GRPC.1);
    let request = request.body(Full::new(Bytes::from(framed(0, b"m")))).unwrap();
    let (status, code, message, _) = fixture.answering(called(kept, request)).await;
    assert_eq!((status, code.as_str()), (200, "14"));
    assert!(message.contains("shutting down"), "{message}");
    assert_eq!((fixture.came.len(), fixture.ended("grpc metrics leaving")), (0, 1));
    fixture.servers.end().await;
}
