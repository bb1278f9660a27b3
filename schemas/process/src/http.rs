//! The frame around every HTTP server: bounded bodies, bounded time, an error that names the
//! address.

use std::net::SocketAddr;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use plimsoll_schemas::limits::http::{BODY_BYTES_MAX, REQUEST_TIMEOUT};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;

/// An address that could not be had.
#[derive(Debug, Error)]
#[error("{key}: cannot listen on {address}: {source}; choose another or 127.0.0.1:0 for any")]
pub struct ListenError {
    key: &'static str,
    address: SocketAddr,
    source: std::io::Error,
}

/// A server that runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

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
        let fail = |source| ListenError { key, address, source };
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let bounded = routes
            .layer(RequestBodyLimitLayer::new(BODY_BYTES_MAX))
            .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, REQUEST_TIMEOUT));
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, bounded).await {
                tracing::error!(%error, "http server ended");
            }
        });
        Ok(Self { address, task })
    }

    /// Where it really listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
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
