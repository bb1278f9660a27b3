//! The aggregator's HTTP pages: Prometheus metrics, the JSON summary and ledger, liveness,
//! readiness, events, and alerts with what people ask to be done about them.
//!
//! The driver owns the state; a request asks it for a still, and [`pages`] makes a page of that.

mod accept;
mod alerts;
mod events;
mod orders;
mod pages;

use std::sync::Arc;

use axum::extract::{Query as Parameters, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use plimsoll_runtime::http::{Figures, ending, probe};
use plimsoll_runtime::limits::QUERIES_MAX;
use plimsoll_schemas::alert::{AlertsPage, SilencesPage};
use plimsoll_schemas::summary::EventsPage;
use tokio::sync::{mpsc, oneshot};

use self::pages::{Kind, Pages};
use crate::config::{Metrics, Token};
use crate::core::alerting::CommandError;
use crate::core::alerting::Undelivered;
use crate::core::alerting::{AlertCommand, AlertsQuery, CommandResult};
use crate::core::fleet::EventsQuery;
use crate::core::view::ReadView;
use crate::exposition::Looks;

/// A question to the driver, with the place for its answer.
pub enum Query {
    /// Everything that is known.
    Look(oneshot::Sender<Arc<Look>>),
    /// The newest events.
    Events(EventsQuery, oneshot::Sender<Box<EventsPage>>),
    /// The alerts that stand.
    Alerts(AlertsQuery, oneshot::Sender<Box<AlertsPage>>),
    /// The silences that hold or are yet to begin.
    Silences(oneshot::Sender<SilencesPage>),
    /// Something is to be done about alerts, by somebody who may ask for it.
    Order(AlertCommand, oneshot::Sender<Result<CommandResult, CommandError>>),
    /// The newest notices that were given up.
    Undelivered(oneshot::Sender<Vec<Undelivered>>),
    /// Whether that is the whole truth.
    Readiness(oneshot::Sender<Readiness>),
}

/// Everything that is known at one moment, for all who ask soon after one another.
#[derive(Debug)]
pub struct Look {
    /// What the core knows.
    pub still: ReadView,
    /// What looks have cost so far, this one included; their number is this one's own.
    pub looks: Looks,
    /// Connections of those who ask.
    pub connections: Figures,
}

/// Whether the aggregator can be relied on.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// `jetstream`, `core`, `silent` or `disconnected`.
    pub broker: &'static str,
    /// True once the stream's past has been read.
    pub past_is_read: bool,
    /// Messages still to be read.
    pub pending: u64,
}

#[derive(Clone)]
struct Asker {
    ask: mpsc::Sender<Query>,
    pages: Arc<Pages>,
    /// What whoever changes state must show; nobody can without one.
    token: Option<Arc<Token>>,
}

/// The routes, and the queue on which their questions arrive.
pub fn routes(settings: &Metrics, token: Option<Token>) -> (Router, mpsc::Receiver<Query>) {
    let (ask, queries) = mpsc::channel(QUERIES_MAX);
    let (pages, token) = (Arc::new(Pages::new(settings)), token.map(Arc::new));
    let router = Router::new()
        .route("/", get(async || INDEX))
        .route("/metrics", get(show_metrics))
        .route("/metrics/nodes", get(show_nodes))
        .route("/metrics/summary", get(show_summary))
        .route("/api/v1/ledger", get(show_ledger))
        .route("/api/v1/events", get(show_events))
        .route("/api/v1/alerts/undelivered", get(show_undelivered))
        .route("/healthz", get(async || probe(true, "alive".to_owned())))
        .route("/readyz", get(show_readiness))
        .merge(alerts::routes())
        .with_state(Asker { ask, pages, token });
    (router, queries)
}

const INDEX: &str = "plimsoll-aggregator
/metrics           for Prometheus, as text, OpenMetrics or protobuf: the fleet, the worst nodes
/metrics/nodes     the same of all nodes, without the fleet
/metrics/summary   JSON: nodes, ledger, operations, budgets, alert changes
/api/v1/ledger     JSON: every account in full, by node and incarnation, with what is missing
/api/v1/events     JSON: the newest events and service checks, newest first
                   ?limit=1..256, node=, source=event|service_check,
                   alert_type=info|success|warning|error
/api/v1/alerts     JSON: the alerts that stand, with evidence, silences and acknowledgements
                   ?state=firing|pending|resolved, rule=, node=
/api/v1/alerts/acknowledge
                   POST {rule, node, operation, by, comment, for}; DELETE ?rule=, node=, operation=
/api/v1/silences   JSON: the silences that hold or are yet to begin
                   POST {match: {rule, node, operation, severity}, by, comment, for}
                   DELETE /api/v1/silences/<id>
                   POST and DELETE need `Authorization: Bearer <token>`, the one of http.token_file
/api/v1/alerts/undelivered
                   JSON: the newest notices that a receiver will not hear of, oldest first
/healthz           alive
/readyz            connected, and the stream's past has been read
";

impl Asker {
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Query) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.ask.send(question(answer)).await.ok()?;
        answered.await.ok()
    }

    async fn show(&self, kind: Kind, headers: &HeaderMap) -> Response {
        let gzip = accept::takes_gzip(headers);
        let page = self.pages.get(kind, gzip, self.ask(Query::Look)).await;
        let Some(page) = page else { return ending() };
        let mut response = ([(header::CONTENT_TYPE, kind.content_type())], page).into_response();
        let varies = HeaderValue::from_static("accept, accept-encoding");
        response.headers_mut().insert(header::VARY, varies);
        if gzip {
            let encoding = HeaderValue::from_static("gzip");
            response.headers_mut().insert(header::CONTENT_ENCODING, encoding);
        }
        response
    }
}

async fn show_metrics(State(asker): State<Asker>, headers: HeaderMap) -> Response {
    asker.show(Kind::Metrics(accept::format(&headers)), &headers).await
}

async fn show_nodes(State(asker): State<Asker>, headers: HeaderMap) -> Response {
    asker.show(Kind::Nodes(accept::format(&headers)), &headers).await
}

async fn show_summary(State(asker): State<Asker>, headers: HeaderMap) -> Response {
    asker.show(Kind::Summary, &headers).await
}

async fn show_ledger(State(asker): State<Asker>, headers: HeaderMap) -> Response {
    asker.show(Kind::Ledger, &headers).await
}

async fn show_events(
    State(asker): State<Asker>,
    Parameters(parameters): Parameters<Vec<(String, String)>>,
) -> Response {
    let wanted = match events::parse(&parameters) {
        Ok(wanted) => wanted,
        Err(wrong) => return (StatusCode::BAD_REQUEST, format!("{wrong}\n")).into_response(),
    };
    let page = asker.ask(|answer| Query::Events(wanted, answer)).await;
    page.map_or_else(ending, |page| Json(page).into_response())
}

async fn show_undelivered(State(asker): State<Asker>) -> Response {
    let undelivered = asker.ask(Query::Undelivered).await;
    undelivered.map_or_else(ending, |undelivered| Json(undelivered).into_response())
}

async fn show_readiness(State(asker): State<Asker>) -> Response {
    let Some(readiness) = asker.ask(Query::Readiness).await else { return ending() };
    let Readiness { broker, past_is_read, pending } = readiness;
    match (broker, past_is_read) {
        ("disconnected", _) => probe(false, "no connection to the broker".to_owned()),
        ("silent", _) => probe(false, "the broker is connected and silent".to_owned()),
        (_, false) => probe(false, format!("reading the past: {pending} messages to go")),
        (_, true) => probe(true, format!("ready, broker is {broker}")),
    }
}
