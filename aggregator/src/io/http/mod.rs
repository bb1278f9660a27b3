//! The aggregator's HTTP server: the page for people, Prometheus metrics, summary, nodes, hardware,
//! statistics, ledger, history, events and alerts as JSON, silences and acknowledgements, runs,
//! profiles, liveness and readiness.
//!
//! The driver owns the state. A handler sends it a [`Query`]; `pages` renders pages from the read
//! view that it returns. Nothing here changes the state by itself, and a request that is not
//! understood is rejected with the parameter at fault.

mod accept;
mod alerts;
mod events;
mod history;
mod index;
mod nodes;
mod openapi;
mod orders;
mod page;
mod pages;
mod parameters;
mod parts;
mod profiles;
mod query;
mod refusal;
mod runs;
mod standby;
mod statistics;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query as Parameters, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use plimsoll_runtime::http::readiness as answer;
use plimsoll_runtime::limits::QUERIES_MAX;
use plimsoll_runtime::token::Token;
use plimsoll_schemas::figure::counted;
use plimsoll_schemas::summary::EventsPage;
use tokio::sync::mpsc;

use self::pages::{Page, Pages};
use self::parameters::{Pairs, pick, value};
use self::query::QuerySender;
use self::refusal::{Answer, Refusal};
use self::standby::liveness;
use self::stream::Streams;
use crate::config::Metrics;
use crate::core::alerting::Undeliverable;

pub use query::{PageSource, ProfileSource, Query, Readiness};
pub use standby::{Routes, standby_routes};

#[derive(Clone)]
struct Handler {
    queries: QuerySender,
    pages: Arc<Pages>,
}

/// The routes, and the queue on which their queries arrive.
pub fn routes(settings: &Metrics, token: Option<Token>) -> (Routes, mpsc::Receiver<Query>) {
    let (sender, received) = mpsc::channel(QUERIES_MAX);
    let queries = QuerySender::new(sender);
    let streams = Arc::<Streams>::default();
    let pages = Arc::new(Pages::new(settings, Arc::clone(&streams)));

    let history = history::HistoryHandler::new(queries.clone());
    let runs = runs::routes(queries.clone(), token.clone(), history.clone());
    let profiles = profiles::routes(queries.clone(), token.clone());
    let alerts = alerts::routes(queries.clone(), token);
    let statistics = statistics::routes(queries.clone());
    let history = history::routes(history);
    let nodes = nodes::routes(queries.clone());
    let stream = stream::routes(queries.clone(), streams);
    // Probes are also served on an address of their own,
    // without TLS and token, since orchestrators have neither.
    let probes = liveness().route("/readyz", get(show_readiness)).with_state(queries.clone());

    let pages = Router::new()
        .route("/metrics", get(show_metrics))
        .route("/metrics/nodes", get(show_nodes))
        .route("/metrics/summary", get(show_summary))
        .route("/api/v1/ledger", show(Page::Ledger))
        .route("/api/v1/headroom", show(Page::Headroom))
        .route("/api/v1/backpressure", show(Page::Backpressure))
        .route("/api/v1/blame", show(Page::Blame))
        .route("/api/v1/events", get(show_events))
        .route("/api/v1/alerts/undeliverable", get(show_undeliverable))
        .with_state(Handler { queries, pages })
        .merge(probes.clone())
        .merge(alerts)
        .merge(statistics)
        .merge(history)
        .merge(nodes)
        .merge(openapi::routes())
        .merge(page::routes())
        .merge(stream)
        .merge(runs)
        .merge(profiles);

    (Routes { pages, probes }, received)
}

impl Handler {
    async fn page(&self, page: Page, headers: &HeaderMap) -> Result<Response, Refusal> {
        let gzip = accept::takes_gzip(headers);
        let body = self.pages.get(page, gzip, self.queries.send(Query::ReadView)).await?;
        let mut response = ([(header::CONTENT_TYPE, page.content_type())], body).into_response();
        // Also where nothing was compressed: a cache between
        // would otherwise serve one client's form to all.
        let varies = HeaderValue::from_static("accept, accept-encoding");
        response.headers_mut().insert(header::VARY, varies);
        if gzip {
            let encoding = HeaderValue::from_static("gzip");
            response.headers_mut().insert(header::CONTENT_ENCODING, encoding);
        }
        Ok(response)
    }
}

async fn show_metrics(
    State(handler): State<Handler>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    handler.page(Page::Metrics(accept::format(&headers)), &headers).await
}

async fn show_nodes(
    State(handler): State<Handler>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    handler.page(Page::Nodes(accept::format(&headers)), &headers).await
}

async fn show_summary(
    State(handler): State<Handler>,
    Parameters(pairs): Pairs,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let page = match pick(&pairs, ["nodes"], "nodes")? {
        [None] => Page::Summary,
        [Some("0")] => Page::FleetSummary,
        [Some(given)] => return Err(value("nodes", given, "0, for no node, or left out").into()),
    };
    handler.page(page, &headers).await
}

fn show(page: Page) -> MethodRouter<Handler> {
    get(async move |State(handler): State<Handler>, headers: HeaderMap| {
        handler.page(page, &headers).await
    })
}

async fn show_events(
    State(handler): State<Handler>,
    Parameters(pairs): Pairs,
) -> Answer<Box<EventsPage>> {
    let wanted = events::parse(&pairs)?;
    handler.queries.page(|answer| Query::Events(wanted, answer)).await
}

async fn show_undeliverable(State(handler): State<Handler>) -> Answer<Vec<Undeliverable>> {
    handler.queries.page(Query::Undeliverable).await
}

async fn show_readiness(State(queries): State<QuerySender>) -> Result<Response, Refusal> {
    let readiness = queries.send(Query::Readiness).await?;
    let (is_ready, state) = state(&readiness);
    Ok(answer(is_ready, state, readiness.warnings))
}

fn state(of: &Readiness) -> (bool, String) {
    let Readiness { broker, connect_error, denied, streams, past_is_read, pending, .. } = of;
    let denied =
        denied.as_ref().map(|text| format!("the broker denies what reading needs: {text}"));
    let missing = streams.as_ref().map(|text| format!("streams not created: {text}"));

    match (*broker, *past_is_read, denied.or(missing)) {
        // Where no attempt to connect has failed, this
        // is the cause, and "unreachable" would hide it.
        ("disconnected", _, Some(cause)) if connect_error.is_none() => (false, cause),
        ("disconnected", ..) => {
            let cause = connect_error.as_deref().unwrap_or("no answer");
            let fix = "check bus.url, its credentials, and the broker";
            (false, format!("broker unreachable: {cause}; {fix}"))
        }
        ("silent", ..) => (false, "the broker is connected and does not answer".to_owned()),
        (_, false, Some(cause)) => (false, cause),
        (_, false, None) => {
            let pending = counted(*pending, "message");
            (false, format!("reading the streams' backlog: {pending} left"))
        }
        (_, true, _) => (true, format!("ready, broker is {broker}")),
    }
}

#[cfg(test)]
mod tests;
