//! What a process serves: pages, and those among them that are for probes.

use axum::Router;
use axum::routing::get;
use plimsoll_runtime::http::probe;

/// The routes of a server.
pub struct Routes {
    /// All of them, for a server that guards them.
    pub pages: Router,
    pub probes: Router,
}

/// The page by which a probe finds the process alive.
pub(super) fn liveness<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/healthz", get(async || probe(true, "alive".to_owned())))
}
