//! Pages of a process that waits for a partition: probes, and metrics by which it is known to live.

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use plimsoll_runtime::http::probe;

use super::accept;
use super::routes::{Routes, liveness};
use crate::exposition;

/// The routes of a process that waits.
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
