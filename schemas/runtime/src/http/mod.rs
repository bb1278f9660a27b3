//! The frame around every HTTP server: bounded connections, bodies and time, an error that names
//! the address.
//!
//! Whoever is slow costs a place among few, never the next client's answer: a newcomer takes the
//! place of whoever has dawdled longest (`http/book.rs`). What is served is not known here.

mod accept;
mod book;
mod figures;
mod paced;
mod place;
mod streams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::limits;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;

use accept::Acceptor;
use book::Book;
pub use figures::{Closed, Figures, Stage};
use place::Ledger;

/// An address that could not be had.
#[derive(Debug, Error)]
#[error("{key}: cannot listen on {address}: {source}; choose another or 127.0.0.1:0 for any")]
pub struct ListenError {
    key: &'static str,
    address: SocketAddr,
    source: std::io::Error,
}

/// The protocol of a port; nobody is offered to change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 and 1.1.
    Http1,
    /// HTTP/2 in the clear, from the first byte on.
    Http2,
}

/// How much clients may take, together and each.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// What they have to speak.
    pub protocol: Protocol,
    /// Connections that are open at once.
    pub connections_max: usize,
    /// Bytes of one request's body; more is refused with a plain answer. Routes that have a bound
    /// of their own, and say so in their own way, put none here.
    pub body_bytes_max: usize,
    /// Bytes of bodies that all clients together have asked for and not taken yet.
    pub owed_bytes_max: u64,
    /// Time for a request's head, since the last answer or the connection's begin. Over HTTP/2 for
    /// the first one only; later it is the time between two pings, each of which must be answered
    /// within [`Self::stall_timeout`].
    pub head_timeout: Duration,
    /// Time in which a client takes nothing of its answer.
    pub stall_timeout: Duration,
    /// Time for one request, from its head to the begin of its answer.
    pub request_timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            protocol: Protocol::Http1,
            connections_max: limits::CONNECTIONS_MAX,
            body_bytes_max: limits::BODY_BYTES_MAX,
            owed_bytes_max: limits::OWED_BYTES_MAX,
            head_timeout: limits::HEAD_TIMEOUT,
            stall_timeout: limits::STALL_TIMEOUT,
            request_timeout: limits::REQUEST_TIMEOUT,
        }
    }
}

/// A server that runs until it is ended or dropped.
pub struct Server {
    address: SocketAddr,
    ledger: Arc<Ledger>,
    end: oneshot::Sender<()>,
    task: AbortOnDrop,
}

struct AbortOnDrop(JoinHandle<()>);

impl Server {
    /// Serves `routes` on `address`; `key` is the setting that an error names.
    ///
    /// # Errors
    /// When the address is taken or not ours.
    pub async fn start(
        key: &'static str,
        address: SocketAddr,
        routes: Router,
    ) -> Result<Self, ListenError> {
        Self::start_within(Bounds::default(), key, address, routes).await
    }

    /// Serves as [`Self::start`] does, within other bounds.
    ///
    /// # Errors
    /// When the address is taken or not ours.
    pub async fn start_within(
        bounds: Bounds,
        key: &'static str,
        address: SocketAddr,
        routes: Router,
    ) -> Result<Self, ListenError> {
        let fail = |source| ListenError { key, address, source };
        let listener = listen(address).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let late = StatusCode::REQUEST_TIMEOUT;
        let routes = routes
            .layer(RequestBodyLimitLayer::new(bounds.body_bytes_max))
            .layer(TimeoutLayer::with_status_code(late, bounds.request_timeout));
        let book = Book::new(bounds.connections_max, bounds.owed_bytes_max);
        let ledger = Arc::new(Ledger::new(book));
        let acceptor = Acceptor::new(routes, bounds, Arc::clone(&ledger));
        let (end, ended) = oneshot::channel();
        let task = AbortOnDrop(tokio::spawn(acceptor.run(listener, ended)));
        Ok(Self { address, ledger, end, task })
    }

    /// Where it really listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What became of its connections.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.ledger.book().figures()
    }

    /// Takes no more connections, answers what was asked already, and closes; after
    /// [`limits::END_WAIT`] whatever is left.
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

/// Prometheus text.
#[must_use]
pub fn metrics(text: String) -> Response {
    ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response()
}

/// Whether a probe passes, with the reason as its body.
#[must_use]
pub fn probe(passes: bool, reason: String) -> Response {
    let status = if passes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, reason + "\n").into_response()
}

/// The answer when the process is ending and nobody answers questions any more.
#[must_use]
pub fn ending() -> Response {
    probe(false, "this process is ending".to_owned())
}
