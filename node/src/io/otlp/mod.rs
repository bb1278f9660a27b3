//! Where OpenTelemetry comes in: OTLP over HTTP on one port and over gRPC on another.
//!
//! A body is read within bounds ([`body`]), inflated, and handed to the driver, which records it
//! before its answer leaves. Parses no metric: that is the core's. Unary gRPC is a frame of five
//! bytes and two trailers over HTTP/2, so both ports are one HTTP stack; `tonic` with the generated
//! messages of `opentelemetry-proto` would add a second one, and a tree of `Vec`s a hundred times
//! as large as a hostile body. No TLS, no logs and profiles, no streaming calls.

mod answer;
mod body;
pub mod figures;
mod framing;
mod grpc;
mod http;
mod refusal;
mod room;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::limits::{BYTES_PER_WAKE, OTLP_BODY_TIMEOUT, OTLP_CONNECTIONS_MAX, OTLP_QUEUE_MAX};
use axum::Router;
use plimsoll_runtime::http::{Bounds, ListenError, Protocol, Server};
use tokio::sync::{mpsc, oneshot};

use crate::config::OtlpSettings;
use crate::core::departure::SocketPoll;
use crate::core::intake::otlp::{Encoding, Malformed, Outcome, Signal};
use body::Whole;
use figures::Figures;
use refusal::Refusal;
use room::Room;

/// A body that wants to be recorded.
pub struct Post {
    signal: Signal,
    encoding: Encoding,
    body: Whole,
    answer: oneshot::Sender<Result<Outcome, Malformed>>,
}

impl Post {
    /// Has it recorded, and its client told what came of it.
    pub fn answer(
        self,
        record: impl FnOnce(Signal, Encoding, &[u8]) -> Result<Outcome, Malformed>,
    ) -> SocketPoll {
        let outcome = record(self.signal, self.encoding, self.body.bytes());
        // The client may have hung up.
        let _told = self.answer.send(outcome);
        SocketPoll { datagrams: 1, bytes: self.body.bytes().len() }
    }
}

/// What the handlers of both ports share.
#[derive(Clone)]
struct Desk {
    room: Arc<Room>,
    posts: mpsc::Sender<Post>,
}

impl Desk {
    /// Hands a body to the driver and waits for what comes of it.
    async fn post(
        &self,
        signal: Signal,
        encoding: Encoding,
        body: Whole,
    ) -> Result<Outcome, Refusal> {
        let (answer, answered) = oneshot::channel();
        let post = Post { signal, encoding, body, answer };
        self.posts.send(post).await.map_err(|_| Refusal::Leaving)?;
        let outcome = answered.await.map_err(|_| Refusal::Leaving)?;
        outcome.map_err(|Malformed(words)| Refusal::Malformed(words))
    }
}

/// Both ports, or one, or none.
pub struct Doors {
    room: Arc<Room>,
    http: Option<Server>,
    grpc: Option<Server>,
    posts: mpsc::Receiver<Post>,
    /// The first of those that wait.
    first: Option<Post>,
}

impl Doors {
    /// Listens where the settings say.
    ///
    /// # Errors
    /// When an address is taken or not ours.
    pub async fn open(settings: &OtlpSettings) -> Result<Self, ListenError> {
        let (sender, posts) = mpsc::channel(OTLP_QUEUE_MAX);
        let room = Arc::new(Room::default());
        let desk = Desk { room: Arc::clone(&room), posts: sender };
        let (http, grpc) = (http::routes(desk.clone()), grpc::routes(desk));
        let http = serve("otlp.http", settings.http, Protocol::Http1, http).await?;
        let grpc = serve("otlp.grpc", settings.grpc, Protocol::Http2, grpc).await?;
        Ok(Self { room, http, grpc, posts, first: None })
    }

    /// Where OTLP over HTTP is taken.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Server::address)
    }

    /// Where OTLP over gRPC is taken.
    #[must_use]
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().map(Server::address)
    }

    /// Waits until there is a body to take; for ever where nobody listens. Cancel safe.
    pub async fn readable(&mut self) {
        if self.first.is_none() {
            self.first = self.posts.recv().await;
        }
        if self.first.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Hands over the bodies that wait, up to a bound, and gives what they brought.
    pub fn take(&mut self, mut on_post: impl FnMut(Post) -> SocketPoll) -> SocketPoll {
        let mut taken = SocketPoll::default();
        while taken.datagrams <= OTLP_QUEUE_MAX && taken.bytes < BYTES_PER_WAKE {
            let Some(post) = self.first.take().or_else(|| self.posts.try_recv().ok()) else {
                break;
            };
            taken = taken + on_post(post);
        }
        taken
    }

    /// Whether the last [`Self::take`] left nothing behind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.posts.is_empty()
    }

    /// From here on whoever asks is told to come again; bodies on their way are still taken.
    pub fn leave(&self) {
        self.room.leave();
    }

    /// Whether bodies are on their way.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.room.is_occupied()
    }

    /// Takes no more: whoever waits for an answer is told that nothing was recorded.
    pub fn close(&mut self) {
        self.posts.close();
        self.first = None;
        while self.posts.try_recv().is_ok() {}
    }

    /// What came, unless nobody listens.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        let connections = [("http", &self.http), ("grpc", &self.grpc)];
        let connections: Vec<_> = connections
            .into_iter()
            .filter_map(|(protocol, server)| Some((protocol, server.as_ref()?.figures())))
            .collect();
        (!connections.is_empty()).then(|| Figures { connections, requests: self.room.requests() })
    }

    /// Answers what was asked already, and closes both ports.
    pub async fn end(mut self) {
        self.close();
        for server in self.http.into_iter().chain(self.grpc) {
            server.end().await;
        }
    }
}

async fn serve(
    key: &'static str,
    address: Option<SocketAddr>,
    protocol: Protocol,
    routes: Router,
) -> Result<Option<Server>, ListenError> {
    let Some(address) = address else { return Ok(None) };
    let bounds = Bounds {
        protocol,
        connections_max: OTLP_CONNECTIONS_MAX,
        // Bodies have a bound of their own, whose answer is one that an SDK reads.
        body_bytes_max: usize::MAX,
        // After the time for a body, the driver's.
        request_timeout: 2 * OTLP_BODY_TIMEOUT,
        ..Bounds::default()
    };
    Server::start_within(bounds, key, address, routes).await.map(Some)
}
