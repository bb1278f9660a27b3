//! OTLP servers: HTTP on one port and gRPC on another.
//!
//! A body is read within bounds (`body`), inflated, and handed to the driver, which records and
//! notes it before its answer leaves. Parses no metric: that is the core's. Unary gRPC is a frame
//! of five bytes and two trailers over HTTP/2, so both ports are one HTTP stack; `tonic` with the
//! generated messages of `opentelemetry-proto` would add a second one, and a tree of `Vec`s a
//! hundred times as large as a hostile body. No TLS, no logs and profiles, no streaming calls.
//!
//! DESIGN N26, N43, S50.

mod answer;
mod body;
mod budget;
mod framing;
mod grpc;
mod http;
mod inbox;
mod refusal;
pub mod stats;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::limits::{
    BYTES_PER_WAKE, OTLP_ANSWERS_MAX, OTLP_BODY_TIMEOUT, OTLP_CONNECTIONS_MAX, OTLP_QUEUE_MAX,
};
use axum::Router;
use plimsoll_runtime::http::{ListenError, Protection, Protocol, Server, ServerLimits};
use plimsoll_runtime::supervision::Supervisor;
use tokio::sync::mpsc;

use crate::config::OtlpSettings;
use crate::core::departure::SocketPoll;
use crate::core::intake::otlp::{Encoding, Signal};
use crate::core::spool::NoteNumber;
use crate::io::answers::WaitingAnswers;
use budget::BodyBudget;
pub use inbox::RecordedBody;
use inbox::{Inbox, Post, WaitingAnswer};
use refusal::Refusal;
use stats::OtlpStats;

/// The servers of both ports; either may be off.
pub struct OtlpServers {
    budget: Arc<BodyBudget>,
    http: Option<Server>,
    grpc: Option<Server>,
    posts: mpsc::Receiver<Post>,
    /// The first queued body.
    first: Option<Post>,
    answers: WaitingAnswers<WaitingAnswer>,
}

impl OtlpServers {
    /// Listens on the configured addresses.
    pub async fn open(
        settings: &OtlpSettings,
        protection: &Protection,
        supervisor: &Supervisor,
    ) -> Result<Self, ListenError> {
        let (sender, posts) = mpsc::channel(OTLP_QUEUE_MAX);
        let budget = Arc::new(BodyBudget::default());
        let inbox = Inbox { budget: Arc::clone(&budget), posts: sender };
        let (http, grpc) = (http::routes(inbox.clone()), grpc::routes(inbox));
        let serve = async |key, address, protocol, routes| {
            serve(bounds(protocol), key, address, protection, routes, supervisor).await
        };
        let http = serve("otlp.http", settings.http, Protocol::Http1, http).await?;
        let grpc = serve("otlp.grpc", settings.grpc, Protocol::Http2, grpc).await?;
        Ok(Self { budget, http, grpc, posts, first: None, answers: WaitingAnswers::default() })
    }

    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Server::address)
    }

    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().map(Server::address)
    }

    /// Waits until a body is queued; for ever when both ports are off, or too many answers wait.
    /// Cancel safe.
    pub async fn readable(&mut self) {
        if self.answers.len() >= OTLP_ANSWERS_MAX {
            std::future::pending::<()>().await;
        }
        if self.first.is_none() {
            self.first = self.posts.recv().await;
        }
        if self.first.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Passes queued bodies to `record`, up to a bound, and returns their number and size. Each is
    /// answered with what comes back once its note is written; see [`Self::answer`]. While answers
    /// are overdue, bodies are refused instead.
    pub fn take(
        &mut self,
        are_answers_overdue: bool,
        mut record: impl FnMut(Signal, Encoding, &[u8]) -> RecordedBody,
    ) -> SocketPoll {
        let mut taken = SocketPoll::default();
        while taken.datagrams <= OTLP_QUEUE_MAX
            && taken.bytes < BYTES_PER_WAKE
            && self.answers.len() < OTLP_ANSWERS_MAX
        {
            let Some(post) = self.first.take().or_else(|| self.posts.try_recv().ok()) else {
                break;
            };

            if are_answers_overdue {
                taken.datagrams += 1;
                post.refuse(Refusal::SlowSpool);
                continue;
            }

            let (size, note, answer) = post.record(&mut record);
            taken = taken + size;
            self.answers.push(note, answer);
        }

        taken
    }

    /// Sends the answers that wait for a note up to this one.
    pub fn answer(&mut self, noted: NoteNumber) {
        self.answers.drain_noted(noted).for_each(WaitingAnswer::send);
    }

    /// Whether the last [`Self::take`] left nothing behind.
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.posts.is_empty()
    }

    /// Refuses new requests with a retry hint; requests in progress are still taken.
    pub fn leave(&self) {
        self.budget.leave();
    }

    pub fn is_awaited(&self) -> bool {
        self.budget.is_occupied() || !self.answers.is_empty()
    }

    /// Refuses all requests that are not recorded yet.
    pub fn close(&mut self) {
        self.posts.close();
        self.first = None;
        while self.posts.try_recv().is_ok() {}
    }

    /// Requests and connections; `None` when both ports are off.
    pub fn stats(&self) -> Option<OtlpStats> {
        let connections = [("http", &self.http), ("grpc", &self.grpc)];
        let connections: Vec<_> = connections
            .into_iter()
            .filter_map(|(protocol, server)| Some((protocol, server.as_ref()?.stats())))
            .collect();
        (!connections.is_empty())
            .then(|| OtlpStats { connections, requests: self.budget.requests() })
    }

    /// Sends the outstanding answers and closes both ports. What is not noted by now is lost with
    /// this process, so its clients are asked to send it again.
    pub async fn end(mut self) {
        // Before the servers end: requests that still wait are refused instead of waiting for the
        // driver.
        self.close();
        // A client without an answer sends again, to the successor. An answer of success here would
        // lose it.
        self.answers.clear();
        for server in self.http.into_iter().chain(self.grpc) {
            server.end().await;
        }
    }
}

fn bounds(protocol: Protocol) -> ServerLimits {
    ServerLimits {
        protocol,
        connections_max: OTLP_CONNECTIONS_MAX,
        // Bodies have a bound of their own, whose answer is one that an SDK reads.
        body_bytes_max: usize::MAX,
        // After the time for a body, the driver's.
        request_timeout: 2 * OTLP_BODY_TIMEOUT,
        ..ServerLimits::default()
    }
}

async fn serve(
    bounds: ServerLimits,
    key: &'static str,
    address: Option<SocketAddr>,
    protection: &Protection,
    routes: Router,
    supervisor: &Supervisor,
) -> Result<Option<Server>, ListenError> {
    let Some(address) = address else { return Ok(None) };
    Server::start_within(bounds, key, address, protection, routes, supervisor).await.map(Some)
}
