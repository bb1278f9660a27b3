//! The OpenAPI document of the HTTP API: `/api/v1/openapi.json`.
//!
//! `../openapi.json` is generated, and committed, so that programs need nothing for it. `tests/`
//! makes it from the types of the answers, with their doc comments, and from one table of routes;
//! a test compares. To write it again:
//!
//! `PLIMSOLL_OPENAPI=write cargo test -p plimsoll-aggregator --lib openapi`
//!
//! DESIGN A84.

use std::sync::LazyLock;

use axum::Router;
use axum::http::header;
use axum::routing::get;
use bytes::Bytes;

/// As it is committed, without the version of this build.
const COMMITTED: &str = include_str!("../openapi.json");

/// With the version of this build.
pub(super) static DOCUMENT: LazyLock<Bytes> =
    LazyLock::new(|| COMMITTED.replacen("{version}", env!("CARGO_PKG_VERSION"), 1).into());

/// The route of the document.
pub(super) fn routes() -> Router {
    let show = async || ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone());
    Router::new().route("/api/v1/openapi.json", get(show))
}

#[cfg(test)]
mod tests;
