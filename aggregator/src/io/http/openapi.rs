//! The OpenAPI document of the HTTP API: `/api/v1/openapi.json`. `openapi.json` is written by hand
//! and holds every route, parameter, bound and response. `tests.rs` compares it with the routes and
//! the bounds, `tests/python/openapi.py` with what a running aggregator answers.
//!
//! DESIGN A84.

use std::sync::LazyLock;

use axum::Router;
use axum::http::header;
use axum::routing::get;
use bytes::Bytes;

/// With the version of this build.
pub(super) static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    include_str!("openapi.json").replacen("{version}", env!("CARGO_PKG_VERSION"), 1).into()
});

/// The route of the document.
pub(super) fn routes() -> Router {
    let show = async || ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone());
    Router::new().route("/api/v1/openapi.json", get(show))
}
