//! An HTTP server with bounded connections, bodies, unsent bytes and time, for any routes.
//!
//! Owns the table of connections (`table`). A slow client never delays the answer to another:
//! when all connections are in use, the one idle longest at one stage is closed for the new one.
//! Heads have hyper's timeout, requests and bodies the limits of tower-http; the table adds what
//! neither has: eviction, a bound on unsent bytes, and a timeout for clients that do not read.
//!
//! [`Protection`] keeps out those who may not read: pages of other sites (`guard`), clients without
//! a token (`readers`), and listeners on the network (`tls`). For the clients in our own programs
//! [`refusal_text`] states what a server answered that they cannot use.
//!
//! DESIGN S15, S50.

mod accept;
mod bounds;
mod client_address;
mod guard;
mod protection;
mod readers;
mod refusal;
mod slot;
mod stall;
mod stats;
mod streams;
mod table;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::limits;
use crate::supervision::Supervisor;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;

use accept::Acceptor;
pub use bounds::{Protocol, ServerLimits};
pub use client_address::ClientAddress;
pub use protection::{Protection, ProtectionFiles};
pub use refusal::refusal_text;
use slot::SharedTable;
use stats::RefusalCounts;
pub use stats::{CloseReason, ConnectionStage, Exposure, RequestRefusal, ServerStats};
use table::ConnectionTable;

/// What a line of [`readiness`] with a warning begins with.
pub const WARNING: &str = "warning: ";

/// An address that cannot be bound.
#[derive(Debug, Error)]
#[error(
    "{key}: cannot listen on {address}: {source}; choose another address, or port 0 for any free port"
)]
pub struct ListenError {
    key: &'static str,
    address: SocketAddr,
    source: std::io::Error,
}

/// A server that runs until it is ended or dropped.
pub struct Server {
    address: SocketAddr,
    table: Arc<SharedTable>,
    refused: Arc<RefusalCounts>,
    exposure: Exposure,
    end: watch::Sender<()>,
    task: AbortOnDrop,
}

struct AbortOnDrop(JoinHandle<()>);

impl Server {
    /// Serves `routes` on `address`; `key` is the setting that an error names, and the name of the
    /// task that accepts connections.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start(
        key: &'static str,
        address: SocketAddr,
        protection: &Protection,
        routes: Router,
        supervisor: &Supervisor,
    ) -> Result<Self, ListenError> {
        let bounds = ServerLimits::default();
        Self::start_within(bounds, key, address, protection, routes, supervisor).await
    }

    /// Serves as [`Self::start`] does, with other limits. No browser speaks HTTP/2 in the clear,
    /// so its requests need no guard.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start_within(
        bounds: ServerLimits,
        key: &'static str,
        address: SocketAddr,
        protection: &Protection,
        routes: Router,
        supervisor: &Supervisor,
    ) -> Result<Self, ListenError> {
        let fail = |source| ListenError { key, address, source };
        let listener = listen(address).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let late = StatusCode::REQUEST_TIMEOUT;
        let refused = Arc::<RefusalCounts>::default();

        let routes = match bounds.protocol {
            Protocol::Http1 => protection.guard(routes, &refused),
            Protocol::Http2 => routes,
        };

        let routes = routes
            .layer(RequestBodyLimitLayer::new(bounds.body_bytes_max))
            .layer(TimeoutLayer::with_status_code(late, bounds.request_timeout));
        let table = ConnectionTable::new(bounds.connections_max, bounds.unsent_bytes_max);
        let table = Arc::new(SharedTable::new(table));
        let (tls, exposure) = (protection.tls().cloned(), protection.exposure(address));
        let (end, ended) = watch::channel(());
        // The socket outlives a restart, so that clients wait in its backlog meanwhile.
        let (listener, shared) = (Arc::new(Mutex::new(Some(listener))), Arc::clone(&table));

        let accepting = supervisor.task(key).run(move || {
            let acceptor = Acceptor::new(routes.clone(), bounds, tls.clone(), Arc::clone(&shared));
            acceptor.run(Arc::clone(&listener), ended.clone())
        });

        let task = AbortOnDrop(tokio::spawn(accepting));
        Ok(Self { address, table, refused, exposure, end, task })
    }

    /// Serves these routes on `http.health_address`, if it is set, in the clear and to anyone: a
    /// kubelet cannot ask pages that listen on loopback or need a certificate. They must be
    /// `/healthz` and `/readyz`, which show nothing but the state of the process.
    ///
    /// DESIGN S63.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start_for_probes(
        address: Option<SocketAddr>,
        probes: Router,
        supervisor: &Supervisor,
    ) -> Result<Option<Self>, ListenError> {
        let Some(address) = address else { return Ok(None) };
        let (key, protection) = ("http.health_address", Protection::default());
        Self::start(key, address, &protection, probes, supervisor).await.map(Some)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its connections and refused requests.
    pub fn stats(&self) -> ServerStats {
        let mut stats = self.table.lock().stats();
        (stats.exposure, stats.refused) = (self.exposure, self.refused.counts());
        stats
    }

    /// Accepts no more connections, answers the requests in progress, and closes; after
    /// [`limits::END_WAIT`] it cuts the remaining connections.
    pub async fn end(self) {
        let Self { end, mut task, .. } = self;
        drop(end);
        // A server that panicked has ended too.
        let _ended = (&mut task.0).await;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // Connections inherit it.
    socket.set_send_buffer_size(limits::SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(limits::BACKLOG)
}

pub fn metrics(text: String) -> Response {
    ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response()
}

/// Whether a probe passes, with the reason as its body.
pub fn probe(passes: bool, reason: String) -> Response {
    let status = if passes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, reason + "\n").into_response()
}

/// Readiness: the state, then on a line each what should be changed although it is ready. A warning
/// states its cause, and after the last `; ` the setting or the step that ends it.
pub fn readiness(passes: bool, state: String, warnings: Vec<String>) -> Response {
    let lines = warnings.into_iter().map(|text| format!("\n{WARNING}{text}"));
    probe(passes, state + &lines.collect::<String>())
}

/// The answer while the process is ending.
pub fn ending() -> Response {
    probe(false, "this process is shutting down".to_owned())
}
