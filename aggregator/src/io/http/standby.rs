//! What a process serves: pages, and those among them that are for probes; and the pages of one
//! that waits for a partition, with metrics by which it is known to live.

use axum::Router;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use plimsoll_runtime::http::probe;

use super::accept;
use crate::exposition;

pub fn standby_routes() -> Routes {
    // Also while the broker does not answer: the log has the owners, or the fault.
    let cause = "standing by: waiting for a partition";
    let probes = liveness().route("/readyz", get(async || probe(false, cause.to_owned())));
    let pages = probes.clone().route("/metrics", get(show_metrics));
    Routes { pages, probes }
}

async fn show_metrics(headers: HeaderMap) -> Response {
    let format = accept::format(&headers);
    let page = exposition::standby_page(format);
    ([(header::CONTENT_TYPE, format.content_type())], page).into_response()
}

pub struct Routes {
    /// All of them, for a server that guards them.
    pub pages: Router,
    pub probes: Router,
}

/// The page by which a probe finds the process alive.
pub(super) fn liveness<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/healthz", get(async || probe(true, "alive".to_owned())))
}
