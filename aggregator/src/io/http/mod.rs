//! The aggregator's HTTP API: Prometheus metrics, summary, nodes, hardware, statistics, ledger,
//! history, events and alerts as JSON, silences and acknowledgements, runs, liveness and readiness.
//!
//! The driver owns the state. A handler sends it a [`Query`]; `pages` renders pages from the read
//! view that it returns. Nothing here changes the state by itself, and a request that is not
//! understood is rejected with the parameter at fault.

mod accept;
mod alerts;
mod events;
mod history;
mod near;
mod nodes;
mod openapi;
mod orders;
mod pages;
mod parts;
mod query;
mod runs;
mod statistics;

use std::sync::Arc;

use axum::extract::{Query as Parameters, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use plimsoll_runtime::http::{ending, probe};
use plimsoll_runtime::limits::QUERIES_MAX;
use tokio::sync::mpsc;

use self::pages::{Page, Pages};
use self::query::QuerySender;
use crate::config::{Metrics, Token};

pub use query::{PageSource, Query, Readiness};

#[derive(Clone)]
struct Handler {
    queries: QuerySender,
    pages: Arc<Pages>,
}

/// The routes, and the queue on which their queries arrive.
pub fn routes(settings: &Metrics, token: Option<Token>) -> (Router, mpsc::Receiver<Query>) {
    let (sender, received) = mpsc::channel(QUERIES_MAX);
    let queries = QuerySender::new(sender);
    let pages = Arc::new(Pages::new(settings));
    let history = history::HistoryHandler::new(queries.clone());
    let runs = runs::routes(queries.clone(), token.clone(), history.clone());
    let alerts = alerts::routes(queries.clone(), token);
    let statistics = statistics::routes(queries.clone());
    let history = history::routes(history);
    let nodes = nodes::routes(queries.clone());
    let router = Router::new()
        .route("/", get(async || INDEX))
        .route("/metrics", get(show_metrics))
        .route("/metrics/nodes", get(show_nodes))
        .route("/metrics/summary", get(show_summary))
        .route("/api/v1/ledger", get(show_ledger))
        .route("/api/v1/events", get(show_events))
        .route("/api/v1/alerts/undeliverable", get(show_undeliverable))
        .route("/healthz", get(async || probe(true, "alive".to_owned())))
        .route("/readyz", get(show_readiness))
        .with_state(Handler { queries, pages })
        .merge(alerts)
        .merge(statistics)
        .merge(history)
        .merge(nodes)
        .merge(openapi::routes())
        .merge(runs);
    (router, received)
}

const INDEX: &str = "plimsoll-aggregator
/metrics           for Prometheus, as text, OpenMetrics or protobuf: the fleet, the worst nodes
/metrics/nodes     the same for all nodes, without the fleet
/metrics/summary   JSON: nodes, ledger, operations, budgets, alert changes
/api/v1/nodes      JSON: the state of each node, by name
                   ?node=, presence=up|silent|left, after=, limit=1..1000
/api/v1/hardware   JSON: the newest sensor readings of each node, by name
/api/v1/hardware/history
                   JSON: readings at any past time, from nodes' own histories
                   ?node=, sensor=, from=, to=, last=, step=
                   ?node=, sensor=, after=, limit=1..64
/api/v1/ledger     JSON: the full ledger by node and incarnation, with sequence gaps
/api/v1/statistics JSON: count, mean, std, min, max and percentiles of one operation, in seconds
                   ?operation=, node=, window=10s|1m|5m|30m|1h|2h|6h|1d|3d|30d|total
/api/v1/query      JSON: the past of one operation from exact counts, in seconds
                   ?operation=, rollup=, value=, from=, to=, last=2h, step=1m,
                   quantiles=0.5,0.99, over=18ms, distribution=true
                   `Accept: application/vnd.msgpack` for less than a twentieth of it
/api/v1/heatmap    JSON: the same by time and latency, ?bands=48 beside these
/api/v1/operations JSON: the operations and groups of which a history is kept
/api/v1/runs       JSON: the runs, newest first
                   ?state=running|ended|no_end, limit=1..1000
                   POST {name, labels, by}; POST /api/v1/runs/<name>/stop {exit_code}
/api/v1/runs/<name>
                   JSON: one run with the latencies from its begin to its end; last: the newest
/api/v1/runs/last  JSON: the same of the run that began last
/api/v1/runs/compare
                   JSON: shifts from one run to another, ?a=, b=, operation=
/api/v1/events     JSON: the newest events and service checks, newest first
                   ?limit=1..256, node=, source=event|service_check,
                   alert_type=info|success|warning|error
/api/v1/alerts     JSON: the active alerts with evidence, silences and acknowledgements
                   ?state=firing|pending|resolved, rule=, node=
/api/v1/alerts/acknowledge
                   POST {rule, node, operation, by, comment, for}; DELETE ?rule=, node=, operation=
/api/v1/silences   JSON: the silences that are active or begin later
                   POST {match: {rule, node, operation, severity}, by, comment, for}
                   DELETE /api/v1/silences/<id>
                   POST and DELETE need `Authorization: Bearer <token>` with the http.token_file
/api/v1/alerts/undeliverable
                   JSON: the newest undeliverable notifications, oldest first
/api/v1/openapi.json
                   JSON: the OpenAPI document of all of these
/healthz           200 while the process runs
/readyz            200 while the broker is connected and the streams' backlog has been read
";

impl Handler {
    async fn page(&self, page: Page, headers: &HeaderMap) -> Response {
        let gzip = accept::takes_gzip(headers);
        let body = self.pages.get(page, gzip, self.queries.send(Query::ReadView)).await;
        let Some(body) = body else { return ending() };
        let mut response = ([(header::CONTENT_TYPE, page.content_type())], body).into_response();
        let varies = HeaderValue::from_static("accept, accept-encoding");
        response.headers_mut().insert(header::VARY, varies);
        if gzip {
            let encoding = HeaderValue::from_static("gzip");
            response.headers_mut().insert(header::CONTENT_ENCODING, encoding);
        }
        response
    }
}

async fn show_metrics(State(handler): State<Handler>, headers: HeaderMap) -> Response {
    handler.page(Page::Metrics(accept::format(&headers)), &headers).await
}

async fn show_nodes(State(handler): State<Handler>, headers: HeaderMap) -> Response {
    handler.page(Page::Nodes(accept::format(&headers)), &headers).await
}

async fn show_summary(State(handler): State<Handler>, headers: HeaderMap) -> Response {
    handler.page(Page::Summary, &headers).await
}

async fn show_ledger(State(handler): State<Handler>, headers: HeaderMap) -> Response {
    handler.page(Page::Ledger, &headers).await
}

async fn show_events(
    State(handler): State<Handler>,
    Parameters(parameters): Parameters<Vec<(String, String)>>,
) -> Response {
    let wanted = match events::parse(&parameters) {
        Ok(wanted) => wanted,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let page = handler.queries.send(|answer| Query::Events(wanted, answer)).await;
    page.map_or_else(ending, |page| Json(page).into_response())
}

async fn show_undeliverable(State(handler): State<Handler>) -> Response {
    let undeliverable = handler.queries.send(Query::Undeliverable).await;
    undeliverable.map_or_else(ending, |undeliverable| Json(undeliverable).into_response())
}

async fn show_readiness(State(handler): State<Handler>) -> Response {
    let Some(readiness) = handler.queries.send(Query::Readiness).await else { return ending() };
    let Readiness { broker, connect_error, past_is_read, pending } = readiness;
    match (broker, past_is_read) {
        ("disconnected", _) => {
            let cause = connect_error.as_deref().unwrap_or("no answer");
            probe(false, format!("broker unreachable: {cause}"))
        }
        ("silent", _) => probe(false, "the broker is connected and does not answer".to_owned()),
        (_, false) => {
            probe(false, format!("reading the streams' backlog: {pending} messages left"))
        }
        (_, true) => probe(true, format!("ready, broker is {broker}")),
    }
}

#[cfg(test)]
mod tests;
