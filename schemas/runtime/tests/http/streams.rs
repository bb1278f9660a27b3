//! A real HTTP/2 server: which streams its clients may have open, and which clients it closes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::post;
use hyper::Request;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use plimsoll_clock::Deadline;
use plimsoll_runtime::http::{
    CloseReason, ConnectionStage, Protection, Protocol, Server, ServerLimits, ServerStats,
};
use plimsoll_runtime::limits::STREAMS_MAX;
use plimsoll_runtime::supervision::Supervisor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

const PATIENCE: Duration = Duration::from_secs(60);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A frame of settings without any.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";

#[derive(Clone)]
struct Spawner;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, task: F) {
        tokio::spawn(task);
    }
}

struct Fixture {
    server: Server,
    gate: Arc<Semaphore>,
}

impl Fixture {
    /// `/now` is answered at once, `/held` when it gets a permit, `/read` when its body has
    /// arrived.
    async fn start(bounds: ServerLimits) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let held = async move |unread: Request<Body>| {
            held.acquire().await.expect("no test closes it").forget();
            drop(unread);
            "let go"
        };
        let routes = Router::new()
            .route("/now", post(async || "now"))
            .route("/held", post(held))
            .route("/read", post(async |body: Bytes| body.len().to_string()));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let bounds = ServerLimits { protocol: Protocol::Http2, ..bounds };
        let (key, open, supervisor) = ("otlp.grpc", Protection::default(), Supervisor::default());
        let server = Server::start_within(bounds, key, any, &open, routes, &supervisor).await;
        Self { server: server.unwrap(), gate }
    }

    async fn connect(&self) -> SendRequest<Body> {
        let stream = TcpStream::connect(self.server.address()).await.unwrap();
        let (sender, connection) = http2::handshake(Spawner, TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn until(&self, what: &str, holds: impl Fn(&ServerStats) -> bool) -> ServerStats {
        let deadline = Deadline::within(PATIENCE);
        loop {
            let stats = self.server.stats();
            if holds(&stats) {
                return stats;
            }
            assert!(!deadline.has_passed(), "{what} did not come: {stats:?}");
            yield_now().await;
        }
    }
}

/// The status of one answer, or the error in its slot.
fn send(sender: &SendRequest<Body>, path: &str, body: Body) -> JoinHandle<Result<u16, String>> {
    let mut sender = sender.clone();
    let request = Request::post(format!("http://h{path}")).body(body).unwrap();
    tokio::spawn(async move {
        let answer = sender.send_request(request).await.map_err(|error| format!("{error:?}"))?;
        Ok(answer.status().as_u16())
    })
}

#[tokio::test]
async fn one_connection_has_few_requests_at_a_time_and_the_next_one_waits() {
    let fixture = Fixture::start(ServerLimits::default()).await;
    let sender = fixture.connect().await;
    assert_eq!(send(&sender, "/now", Body::empty()).await.unwrap(), Ok(200));
    let request: Vec<_> = (0..20).map(|_| send(&sender, "/held", Body::empty())).collect();
    let held = usize::try_from(STREAMS_MAX).unwrap();
    let answering = |stats: &ServerStats| stats.open[1] == (ConnectionStage::Answering, 1);
    fixture.until("being answered", answering).await;
    for _ in 0..1_000 {
        yield_now().await;
    }
    assert!(request.iter().all(|request| !request.is_finished()));
    fixture.gate.add_permits(held);
    let done = |stats: &ServerStats| stats.answered == 1 + u64::from(STREAMS_MAX);
    fixture.until("the first ones answered", done).await;
    fixture.gate.add_permits(20);
    for request in request {
        assert_eq!(request.await.unwrap(), Ok(200));
    }
    assert_eq!(fixture.server.stats().answered, 21);
}

#[tokio::test]
async fn an_unread_body_does_not_block_another() {
    let bounds = ServerLimits { body_bytes_max: usize::MAX, ..ServerLimits::default() };
    let fixture = Fixture::start(bounds).await;
    let sender = fixture.connect().await;
    assert_eq!(send(&sender, "/now", Body::empty()).await.unwrap(), Ok(200));
    let large = || Body::from(vec![7; 1_000_000]);
    let unread: Vec<_> = (1..STREAMS_MAX).map(|_| send(&sender, "/held", large())).collect();
    let small = || Body::from(vec![7; 60_000]);
    assert_eq!(send(&sender, "/read", small()).await.unwrap(), Ok(200));
    fixture.gate.add_permits(unread.len());
    for unread in unread {
        assert_eq!(unread.await.unwrap(), Ok(200));
    }
}

#[tokio::test]
async fn an_idle_client_is_closed_and_one_with_requests_may_rest_with_pongs() {
    let bounds =
        ServerLimits { head_timeout: Duration::from_millis(100), ..ServerLimits::default() };
    let fixture = Fixture::start(bounds).await;
    let resting = fixture.connect().await;
    assert_eq!(send(&resting, "/now", Body::empty()).await.unwrap(), Ok(200));
    let mut silent = TcpStream::connect(fixture.server.address()).await.unwrap();
    let mut greeting = TcpStream::connect(fixture.server.address()).await.unwrap();
    greeting.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
    for client in [&mut silent, &mut greeting] {
        let _read = client.read_to_end(&mut Vec::new()).await;
    }
    let stats = fixture.until("two closed", |f| f.closed_for(CloseReason::Silent) == 2).await;
    assert_eq!(stats.connections(), 1);
    assert_eq!(send(&resting, "/now", Body::empty()).await.unwrap(), Ok(200));
}

#[tokio::test]
async fn a_client_without_a_pong_is_closed() {
    let bounds = ServerLimits {
        head_timeout: Duration::from_millis(100),
        stall_timeout: Duration::from_millis(100),
        ..ServerLimits::default()
    };
    let fixture = Fixture::start(bounds).await;
    let mut client = TcpStream::connect(fixture.server.address()).await.unwrap();
    // POST /now, of which the fields are 0x83 :method, 0x86 :scheme, 0x44 :path, 0x41 :authority.
    let head = b"\x83\x86\x44\x04/now\x41\x01h";
    let frame = [&[0, 0, 11, 1, 5, 0, 0, 0, 1], &head[..]].concat();
    client.write_all(&[PREFACE, SETTINGS, &frame].concat()).await.unwrap();
    fixture.until("an answer", |stats| stats.answered == 1).await;
    let stats = fixture.until("closed", |stats| stats.connections() == 0).await;
    assert_eq!(stats.closed_for(CloseReason::Silent), 1, "{stats:?}");
}

#[tokio::test]
async fn heads_beyond_their_bound_are_refused_and_the_connection_goes_on() {
    let fixture = Fixture::start(ServerLimits::default()).await;
    let mut sender = fixture.connect().await;
    let request = Request::post("http://h/now").header("x", "y".repeat(100_000));
    let answer = sender.send_request(request.body(Body::empty()).unwrap()).await;
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status().as_u16() == 431));
    assert_eq!(send(&fixture.connect().await, "/now", Body::empty()).await.unwrap(), Ok(200));
}

#[tokio::test]
async fn requests_end_with_their_connection() {
    let fixture = Fixture::start(ServerLimits::default()).await;
    for _ in 0..20 {
        let sender = fixture.connect().await;
        let request: Vec<_> = (0..3).map(|_| send(&sender, "/held", Body::empty())).collect();
        let answering = |stats: &ServerStats| stats.open[1] == (ConnectionStage::Answering, 1);
        fixture.until("being answered", answering).await;
        request.iter().for_each(JoinHandle::abort);
        drop((sender, request));
        fixture.until("none left", |stats| stats.connections() == 0).await;
    }
    // No client is left to take the permit.
    fixture.gate.add_permits(1);
    assert_eq!(fixture.gate.available_permits(), 1);
    assert_eq!(send(&fixture.connect().await, "/held", Body::empty()).await.unwrap(), Ok(200));
}

#[tokio::test]
async fn a_server_that_ends_answers_requests() {
    let fixture = Fixture::start(ServerLimits::default()).await;
    let sender = fixture.connect().await;
    let request = send(&sender, "/held", Body::empty());
    let answering = |stats: &ServerStats| stats.open[1] == (ConnectionStage::Answering, 1);
    fixture.until("being answered", answering).await;
    let (gate, ending) = (Arc::clone(&fixture.gate), tokio::spawn(fixture.server.end()));
    gate.add_permits(1);
    assert_eq!(request.await.unwrap(), Ok(200));
    ending.await.unwrap();
}
