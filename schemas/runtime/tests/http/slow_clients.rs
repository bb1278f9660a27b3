//! A real server under clients that are slow, silent, hostile or gone, on real sockets: every
//! honest request is answered, and memory stays bounded.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use plimsoll_clock::{Deadline, Stopwatch};
use plimsoll_runtime::http::{
    CloseReason, ConnectionStage, Protection, Server, ServerLimits, ServerStats,
};
use plimsoll_runtime::supervision::Supervisor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

const CLIENTS: usize = 1_000;
const PAGE_BYTES: usize = 4 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(60);

/// Pages: a short one, a large one built for each request, and one that waits for a permit of
/// `gate`.
fn routes(gate: &Arc<Semaphore>) -> Router {
    let gate = Arc::clone(gate);
    let held = async move || {
        gate.acquire().await.expect("no test closes it").forget();
        "let go"
    };
    let large = async || Bytes::from(vec![b'x'; PAGE_BYTES]);
    Router::new()
        .route("/healthz", get(async || "alive"))
        .route("/metrics", get(large))
        .route("/endless", get(async || stream(u64::MAX)))
        .route("/held", get(held))
}

/// A body of `parts` parts whose length is not known in advance.
fn stream(parts: u64) -> Body {
    let parts = (0..parts).map(|_| Ok::<_, io::Error>(Bytes::from_static(&[b'x'; 10_000])));
    Body::from_stream(futures_util::stream::iter(parts))
}

struct Fixture {
    server: Server,
    gate: Arc<Semaphore>,
}

impl Fixture {
    async fn start(bounds: ServerLimits) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::start_within(
            bounds,
            "http.address",
            any,
            &Protection::default(),
            routes(&gate),
            &Supervisor::default(),
        )
        .await;
        Self { server: server.unwrap(), gate }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.server.address()).await.unwrap()
    }

    /// A client that takes little at once, so that the kernel cannot take an answer for it.
    async fn narrow(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        socket.connect(self.server.address()).await.unwrap()
    }

    async fn requested(&self, path: &str) -> TcpStream {
        let mut client = self.narrow().await;
        client.write_all(request(path).as_bytes()).await.unwrap();
        client
    }

    /// What an honest client gets: status line and length of the body.
    async fn get(&self, path: &str) -> io::Result<(String, usize)> {
        let mut client = TcpStream::connect(self.server.address()).await?;
        client.write_all(request(path).as_bytes()).await?;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await?;
        Ok(parts(&answer))
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

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
}

fn parts(answer: &[u8]) -> (String, usize) {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.lines().next().unwrap_or_default().to_owned(), body.len())
}

fn ok(bytes: usize) -> (String, usize) {
    ("HTTP/1.1 200 OK".to_owned(), bytes)
}

fn status_kib(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_thousand_slow_clients_cost_an_honest_one_nothing() {
    let fixture =
        Fixture::start(ServerLimits { unsent_bytes_max: 64 << 20, ..ServerLimits::default() })
            .await;
    let before = status_kib("VmRSS");
    let mut crowd = Vec::new();
    let mut slowest = Duration::ZERO;
    for n in 0..CLIENTS {
        let client = match n % 4 {
            0 => fixture.connect().await,
            1 => {
                let mut client = fixture.connect().await;
                client.write_all(b"GET /metrics HTTP/1.1\r\nx-slow: ").await.unwrap();
                client
            }
            _ => fixture.requested("/metrics").await,
        };
        crowd.push(client);
        if n % 20 == 0 {
            let watch = Stopwatch::start();
            assert_eq!(fixture.get("/metrics").await.unwrap(), ok(PAGE_BYTES), "after {n}");
            slowest = slowest.max(watch.elapsed());
        }
    }
    let stats = fixture.until("all seen", |f| f.accepted >= 1_000 && f.connections() <= 256).await;
    let resident = status_kib("VmHWM").saturating_sub(before);
    println!("{resident} KiB more, honest {slowest:?} at most, {stats:?}");
    assert!(stats.unsent_bytes <= 64 << 20, "{stats:?}");
    assert!(resident < 256 << 10, "{resident} KiB");
    for _ in 0..20 {
        assert_eq!(fixture.get("/healthz").await.unwrap(), ok(5));
    }
    assert!(
        stats.closed_for(CloseReason::Unsent) > 0 && stats.closed_for(CloseReason::Evicted) > 0
    );
}

#[tokio::test]
async fn clients_that_come_again_at_once_do_not_keep_an_honest_one_out() {
    let fixture = Arc::new(Fixture::start(ServerLimits::default()).await);
    let cut = Arc::new(AtomicU64::new(0));
    let crowd: Vec<_> = (0..300)
        .map(|n| {
            let (fixture, cut) = (Arc::clone(&fixture), Arc::clone(&cut));
            tokio::spawn(async move {
                loop {
                    let Ok(mut client) = TcpStream::connect(fixture.server.address()).await else {
                        continue;
                    };
                    let words: &[u8] = if n % 2 == 0 { b"GET /slow HT" } else { b"" };
                    let _sent = client.write_all(words).await;
                    // Until the server has had enough.
                    let _read = client.read(&mut [0; 64]).await;
                    cut.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let deadline = Deadline::within(PATIENCE);
    while cut.load(Ordering::Relaxed) < 1_000 {
        assert_eq!(fixture.get("/healthz").await.unwrap(), ok(5));
        assert!(!deadline.has_passed(), "the crowd is not pressing");
    }
    crowd.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_kept_connection_of_another_address_outlasts_a_crowd() {
    let fixture = Fixture::start(ServerLimits::default()).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
    let mut scraper = socket.connect(fixture.server.address()).await.unwrap();
    let mut crowd = Vec::new();
    for n in 0..1_000 {
        crowd.push(fixture.connect().await);
        if n % 500 == 0 {
            scraper.write_all(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
            let mut answer = [0; 1_024];
            let bytes = scraper.read(&mut answer).await.unwrap();
            assert_eq!(parts(&answer[..bytes]), ok(5), "after {n}");
        }
    }
    let stats = fixture.until("crowd seen", |f| f.accepted > 1_000).await;
    assert_eq!((stats.answered, stats.connections()), (2, 256));
}

#[tokio::test]
async fn who_does_not_finish_a_head_is_closed() {
    let bounds =
        ServerLimits { head_timeout: Duration::from_millis(200), ..ServerLimits::default() };
    let fixture = Fixture::start(bounds).await;
    let mut silent = fixture.connect().await;
    let mut dribbling = fixture.connect().await;
    dribbling.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let mut kept = fixture.connect().await;
    kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
    fixture.until("three silent", |f| f.closed_for(CloseReason::Silent) == 3).await;
    assert_eq!(fixture.server.stats().answered, 1);
    for client in [&mut silent, &mut dribbling] {
        assert_eq!(client.read(&mut [0; 64]).await.ok().unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn who_does_not_take_an_answer_is_closed_and_who_takes_it_slowly_is_not() {
    let bounds =
        ServerLimits { stall_timeout: Duration::from_millis(300), ..ServerLimits::default() };
    let fixture = Fixture::start(bounds).await;
    let _stalled = fixture.requested("/endless").await;
    let mut slow = fixture.requested("/endless").await;
    let (mut part, deadline) = ([0; 4_096], Deadline::within(PATIENCE));
    while fixture.server.stats().closed_for(CloseReason::Stalled) == 0 {
        assert!(!deadline.has_passed(), "the other was not given up");
        assert!(slow.read(&mut part).await.unwrap() > 0);
        yield_now().await;
    }
    assert!(slow.read(&mut part).await.unwrap() > 0);
    let stats = fixture.server.stats();
    assert_eq!((stats.open[2], stats.connections()), ((ConnectionStage::Writing, 1), 1));
}

#[tokio::test]
async fn clients_that_vanish_leave_nothing_behind() {
    let fixture = Fixture::start(ServerLimits::default()).await;
    for round in 0..50 {
        let clients = [fixture.connect().await, fixture.requested("/metrics").await];
        let reset = fixture.requested("/held").await;
        reset.set_zero_linger().unwrap();
        drop((clients, reset));
        assert_eq!(fixture.get("/healthz").await.unwrap(), ok(5), "round {round}");
    }
    let stats = fixture.until("none left", |f| f.connections() == 0).await;
    assert_eq!((stats.unsent_bytes, stats.accepted), (0, 200));
    let closed: u64 = stats.closed().iter().map(|(_, n)| n).sum();
    assert_eq!(closed, 200);
}

#[tokio::test]
async fn hostile_bytes_are_refused_and_the_next_client_is_served() {
    let fixture = Fixture::start(ServerLimits::default()).await;
    let endless = [b"GET / HTTP/1.1\r\nx: ".to_vec(), vec![b'x'; 200_000]].concat();
    let many = [b"GET / HTTP/1.1\r\n".to_vec(), b"a: b\r\n".repeat(5_000)].concat();
    let large = b"POST /metrics HTTP/1.1\r\nhost: h\r\ncontent-length: 99999999\r\n\r\n".to_vec();
    for (bytes, status) in [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), "400"),
        (b"GET / HTTP/9.9\r\n\r\n".to_vec(), "400"),
        (b"\0\0\0\0\r\n\r\n".to_vec(), "400"),
        (b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n".to_vec(), "400"),
        (endless, "431"),
        (many, "431"),
        (large, "413"),
    ] {
        let mut client = fixture.connect().await;
        // The server may close before all is sent, and reset the bytes that it did not read.
        let _sent = client.write_all(&bytes).await;
        let mut answer = Vec::new();
        let _read = client.read_to_end(&mut answer).await;
        let (line, _) = parts(&answer);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(30)]).into_owned();
        assert!(line.is_empty() || line.contains(status), "{shown:?}: {line}");
        assert_eq!(fixture.get("/healthz").await.unwrap(), ok(5));
    }
    let stats = fixture.until("none left", |f| f.connections() == 0).await;
    assert_eq!(stats.closed_for(CloseReason::Malformed), 6, "{stats:?}");
}

#[tokio::test]
async fn when_every_connection_is_busy_a_new_one_is_asked_to_retry() {
    let fixture =
        Fixture::start(ServerLimits { connections_max: 8, ..ServerLimits::default() }).await;
    let mut request = Vec::new();
    for _ in 0..8 {
        request.push(fixture.requested("/held").await);
    }
    fixture.until("all being answered", |f| f.open[1] == (ConnectionStage::Answering, 8)).await;
    let mut newcomer = fixture.connect().await;
    let mut answer = Vec::new();
    newcomer.read_to_end(&mut answer).await.unwrap();
    assert_eq!(parts(&answer).0, "HTTP/1.1 503 Service Unavailable");
    fixture.gate.add_permits(8);
    for mut client in request {
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(parts(&answer), ok(6));
    }
    assert_eq!(fixture.get("/healthz").await.unwrap(), ok(5));
}

#[tokio::test]
async fn a_server_that_ends_answers_open_requests_and_accepts_no_more() {
    let fixture = Fixture::start(ServerLimits::default()).await;
    let (address, gate) = (fixture.server.address(), Arc::clone(&fixture.gate));
    let _idle = fixture.connect().await;
    let mut request = fixture.requested("/held").await;
    fixture.until("being answered", |f| f.open[1] == (ConnectionStage::Answering, 1)).await;
    let ending = tokio::spawn(fixture.server.end());
    while TcpStream::connect(address).await.is_ok() {
        yield_now().await;
    }
    gate.add_permits(1);
    let mut answer = Vec::new();
    request.read_to_end(&mut answer).await.unwrap();
    assert_eq!(parts(&answer), ok(6));
    ending.await.unwrap();
}

#[tokio::test]
async fn a_client_that_takes_nothing_does_not_hold_up_the_end() {
    let fixture = Fixture::start(ServerLimits::default()).await;
    let _stalled = fixture.requested("/metrics").await;
    fixture.until("being written", |f| f.open[2] == (ConnectionStage::Writing, 1)).await;
    let ended = tokio::time::timeout(PATIENCE, fixture.server.end()).await;
    assert_eq!(ended, Ok(()));
}

#[tokio::test]
async fn a_body_without_a_known_length_is_written_to_its_end() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let routes = Router::new().route("/stream", get(async || stream(100)));
    let (open, supervisor) = (Protection::default(), Supervisor::default());
    let server = Server::start("http.address", any, &open, routes, &supervisor).await.unwrap();
    let mut client = TcpStream::connect(server.address()).await.unwrap();
    client.write_all(request("/stream").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert!(answer.len() > 1_000_000 && answer.ends_with(b"\r\n0\r\n\r\n"));
    assert_eq!(server.stats().answered, 1);
}
