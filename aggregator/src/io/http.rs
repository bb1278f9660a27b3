//! The aggregator's HTTP pages: Prometheus metrics, the JSON summary, liveness, readiness.
//!
//! The driver owns the state; a request asks it for a view and formats that here.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use plimsoll_process::http::{ending, metrics, probe};
use plimsoll_process::page::{Family, Page};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::limits::http::QUERIES_MAX;
use plimsoll_schemas::time::seconds;
use tokio::sync::{mpsc, oneshot};

use crate::core::view::View;
use crate::exposition::fleet;

/// A question to the driver, with the place for its answer.
pub enum Query {
    /// Everything that is known.
    View(oneshot::Sender<Arc<View>>),
    /// Whether that is the whole truth.
    Readiness(oneshot::Sender<Readiness>),
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
    budgets: Arc<[Budget]>,
}

/// The routes, and the queue on which their questions arrive.
pub fn routes(budgets: &[Budget]) -> (Router, mpsc::Receiver<Query>) {
    let (ask, queries) = mpsc::channel(QUERIES_MAX);
    let router = Router::new()
        .route("/", get(async || INDEX))
        .route("/metrics", get(show_metrics))
        .route("/metrics/summary", get(show_summary))
        .route("/healthz", get(async || probe(true, "alive".to_owned())))
        .route("/readyz", get(show_readiness))
        .with_state(Asker { ask, budgets: budgets.into() });
    (router, queries)
}

const INDEX: &str = "plimsoll-aggregator
/metrics           Prometheus text
/metrics/summary   JSON: nodes, ledger, operations, budgets, alert changes
/healthz           alive
/readyz            connected, and the stream's past has been read
";

impl Asker {
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Query) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.ask.send(question(answer)).await.ok()?;
        answered.await.ok()
    }

    async fn view(&self) -> Option<Arc<View>> {
        self.ask(Query::View).await
    }
}

async fn show_summary(State(asker): State<Asker>) -> Response {
    asker.view().await.map_or_else(ending, |view| Json(&view.summary).into_response())
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

async fn show_metrics(State(asker): State<Asker>) -> Response {
    let Some(view) = asker.view().await else { return ending() };
    metrics(fleet(&view, &asker.budgets) + &own(&view))
}

const MERGED: Family =
    Family { name: "plimsoll_merged_snapshots_total", help: "Snapshots merged", labels: &["kind"] };
const UNDECODABLE: Family = Family {
    name: "plimsoll_undecodable_total",
    help: "Messages that could not be read, by reason",
    labels: &["reason"],
};
const OVER_CAP: Family = Family {
    name: "plimsoll_over_cap_total",
    help: "What found no room: samples went to the operation other, the rest is not shown",
    labels: &["what"],
};
const PENDING: Family = Family {
    name: "plimsoll_stream_pending_messages",
    help: "Messages of the lane still to be read",
    labels: &["lane"],
};

const CHECKPOINT_FAILURES: Family = Family {
    name: "plimsoll_checkpoint_failures_total",
    help: "Checkpoints not written, and stores set aside at the start, by reason",
    labels: &["reason"],
};

/// Where the state outlives the process; nothing when it does not.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_checkpoints(page: &Page, view: &View) {
    let figures = &view.checkpoints;
    if !figures.kept {
        return;
    }
    if let Some(at) = figures.at {
        let age = view.summary.at_seconds - seconds(at.0);
        let help = "Time since the stored state was taken";
        page.gauge("plimsoll_checkpoint_age_seconds", help, age.max(0.0));
    }
    let help = "Bytes of records that the latest checkpoint wrote";
    page.gauge("plimsoll_checkpoint_bytes", help, figures.bytes as f64);
    page.counter("plimsoll_checkpoints_written_total", "Checkpoints", figures.written as f64);
    let rows: Vec<_> = figures.failures.iter().map(|(why, n)| ([*why], *n as f64)).collect();
    page.counters(CHECKPOINT_FAILURES, rows.iter().map(|(labels, n)| (&labels[..], *n)));
}

/// What the aggregator says about itself.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn own(view: &View) -> String {
    let page = Page::default();
    let (counts, notices) = (&view.counts, view.notices);
    let counters = [
        ("plimsoll_duplicate_snapshots_total", "Snapshots merged before", counts.duplicates),
        ("plimsoll_forgotten_snapshots_total", "Snapshots of old incarnations", counts.forgotten),
        ("plimsoll_late_samples_total", "Samples too old for 10 s", counts.late_samples),
        ("plimsoll_clock_ahead_total", "Snapshots from a clock ahead", counts.clock_ahead),
        ("plimsoll_notices_raised_total", "Notices made", notices.raised),
        ("plimsoll_notices_delivered_total", "Notices the broker has", notices.delivered),
        ("plimsoll_notices_undelivered_total", "Notices given up", notices.undelivered),
    ];
    for (name, help, value) in counters {
        page.counter(name, help, value as f64);
    }
    let families = [
        (MERGED, &counts.merged),
        (UNDECODABLE, &counts.undecodable),
        (OVER_CAP, &counts.over_cap),
    ];
    for (family, rows) in families {
        let rows: Vec<_> = rows.iter().map(|(value, n)| ([value.as_ref()], *n as f64)).collect();
        page.counters(family, rows.iter().map(|(labels, n)| (&labels[..], *n)));
    }
    let pending: Vec<_> =
        view.pending.iter().map(|(lane, n)| ([lane.as_str()], *n as f64)).collect();
    page.gauges(PENDING, pending.iter().map(|(labels, n)| (&labels[..], *n)));
    let broker = view.summary.broker.as_str();
    let connected = f64::from(u8::from(!matches!(broker, "disconnected" | "silent")));
    page.gauge("plimsoll_broker_connected", "1 while there is a broker", connected);
    add_checkpoints(&page, view);
    page.render()
}
