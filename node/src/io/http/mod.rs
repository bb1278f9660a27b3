//! The node's own HTTP pages, on loopback: metrics about itself, liveness, readiness.
//!
//! The driver owns all figures; a request asks it for them and formats the answer here.

mod intake;
mod otlp;
mod scrape;

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use plimsoll_runtime::http::{self as server, ending, metrics, probe};
use plimsoll_runtime::limits::QUERIES_MAX;
use plimsoll_runtime::page::{Family, Page};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::time::seconds;
use tokio::sync::{mpsc, oneshot};

use crate::core::outbox::BreakerState;
use crate::core::{Status, spool::SpoolStats};
use crate::io::cost::{self, Stage};
use crate::io::otlp::figures as doors;

/// A question to the driver: where to put the answer.
pub type Query = oneshot::Sender<Figures>;

/// What the driver knows.
#[derive(Debug)]
pub struct Figures {
    /// Of its core.
    pub status: Status,
    /// Datagrams that the kernel dropped, by socket.
    pub dropped: [(&'static str, u64); 2],
    /// Clients connected to the stream socket.
    pub connections: usize,
    /// Connections to these pages.
    pub http: Option<server::Figures>,
    /// What came as OTLP, where it is taken.
    pub otlp: Option<doors::Figures>,
    /// Time spent in each stage of its turns.
    pub by_stage: [(Stage, Duration); Stage::ALL.len()],
}

/// The routes, and the queue on which their questions arrive.
pub fn routes() -> (Router, mpsc::Receiver<Query>) {
    let (ask, queries) = mpsc::channel(QUERIES_MAX);
    let router = Router::new()
        .route("/metrics", get(show_metrics))
        .route("/healthz", get(async || probe(true, "alive".to_owned())))
        .route("/readyz", get(show_readiness))
        .with_state(ask);
    (router, queries)
}

async fn figures(ask: &mpsc::Sender<Query>) -> Option<Figures> {
    let (answer, answered) = oneshot::channel();
    ask.send(answer).await.ok()?;
    answered.await.ok()
}

async fn show_readiness(State(ask): State<mpsc::Sender<Query>>) -> Response {
    match figures(&ask).await.map(|figures| figures.status) {
        Some(status) if status.spool.stuck => {
            let held = status.bus.outbox_messages;
            probe(false, format!("the spool cannot be written; {held} messages wait for it"))
        }
        Some(status) if status.connected && status.breaker == BreakerState::Closed => {
            probe(true, "connected to the broker".to_owned())
        }
        Some(status) if status.connected => {
            let held = status.bus.outbox_messages;
            probe(false, format!("the broker does not take messages; {held} wait"))
        }
        Some(status) => {
            let held = status.bus.outbox_messages;
            probe(false, format!("no connection to the broker; {held} messages wait"))
        }
        None => ending(),
    }
}

async fn show_metrics(State(ask): State<mpsc::Sender<Query>>) -> Response {
    figures(&ask).await.map_or_else(ending, |figures| metrics(page(&figures)))
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn page(figures: &Figures) -> String {
    let (page, status) = (Page::default(), &figures.status);
    add_intake(&page, status);
    add_limits(&page, &status.limits);
    intake::add(&page, &status.intake);
    intake::add_otlp(&page, &status.otlp);
    scrape::add(&page, &status.intake.scrapes);
    let help = "Datagrams that the kernel dropped because a socket was full";
    let name = "plimsoll_agent_kernel_dropped_datagrams_total";
    by(&page, name, help, &["socket"], figures.dropped);
    let help = "Clients connected to the stream socket";
    page.gauge("plimsoll_agent_client_connections", help, figures.connections as f64);
    if let Some(http) = &figures.http {
        add_http(&page, http);
    }
    if let Some(otlp) = &figures.otlp {
        otlp::add(&page, otlp);
    }
    add_cost(&page, figures);
    add_outbox(&page, status);
    add_spool(&page, &status.spool);
    add_outcomes(&page, status);
    page.render()
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_intake(page: &Page, status: &Status) {
    let (intake, bus) = (&status.intake, &status.bus);
    let counters = [
        ("plimsoll_agent_datagrams_total", "Datagrams read", intake.datagrams),
        ("plimsoll_agent_values_total", "Values taken from lines", intake.values),
        ("plimsoll_agent_samples_total", "Latency samples taken", intake.samples),
        ("plimsoll_agent_clamped_total", "Latencies above one hour", intake.clamped),
        ("plimsoll_agent_overflowed_total", "Values folded into other", intake.overflowed),
        ("plimsoll_agent_recorded_total", "Samples put into snapshots", status.totals.recorded),
        ("plimsoll_agent_read_errors_total", "Failed reads of a socket", intake.read_errors),
        ("plimsoll_agent_denials_total", "What the broker did not permit", status.denials),
        ("plimsoll_agent_reconnects_total", "Connections after the first", bus.reconnects),
    ];
    for (name, help, value) in counters {
        page.counter(name, help, value as f64);
    }
}

fn add_limits(page: &Page, limits: &[(Operation, u64)]) {
    let help = "1 for each limit over which samples are counted exactly";
    let labels = &["operation", "limit_seconds"];
    let rows: Vec<_> = limits
        .iter()
        .map(|(operation, limit_ns)| [operation.to_string(), seconds(*limit_ns).to_string()])
        .collect();
    let rows: Vec<_> = rows.iter().map(|row| row.each_ref().map(String::as_str)).collect();
    let rows = rows.iter().map(|row| (&row[..], 1.0));
    page.gauges(Family { name: "plimsoll_agent_limit_info", help, labels }, rows);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_http(page: &Page, http: &server::Figures) {
    let (name, help) = ("plimsoll_agent_http_connections", "Connections to these pages");
    let rows = http.open.map(|(stage, n)| ([stage.as_str()], n as f64));
    let rows = rows.iter().map(|(values, n)| (&values[..], *n));
    page.gauges(Family { name, help, labels: &["stage"] }, rows);
    let closed = http.closed().map(|(reason, n)| (reason.as_str(), n));
    let help = "Connections to these pages that are over, by reason";
    by(page, "plimsoll_agent_http_connections_closed_total", help, &["reason"], closed);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_cost(page: &Page, figures: &Figures) {
    if let Some(cpu) = cost::cpu() {
        let help = "CPU time of the node, all threads";
        page.counter("plimsoll_agent_cpu_seconds_total", help, cpu.as_secs_f64());
    }
    if let Some(bytes) = cost::resident_bytes() {
        let help = "Memory of the node that is resident";
        page.gauge("plimsoll_agent_resident_bytes", help, bytes as f64);
    }
    let (name, help) = ("plimsoll_agent_stage_seconds_total", "Time of the driver, by stage");
    let rows = figures.by_stage.map(|(stage, spent)| ([stage.as_str()], spent.as_secs_f64()));
    let rows = rows.iter().map(|(values, seconds)| (&values[..], *seconds));
    page.counters(Family { name, help, labels: &["stage"] }, rows);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_outbox(page: &Page, status: &Status) {
    let bus = &status.bus;
    let gauges = [
        ("plimsoll_agent_series", "Series in the open interval", status.series as u64),
        ("plimsoll_agent_outbox_messages", "Messages not acknowledged", bus.outbox_messages),
        ("plimsoll_agent_outbox_bytes", "Bytes not acknowledged", bus.outbox_bytes),
        ("plimsoll_agent_held_samples", "Samples not acknowledged", status.held_samples),
        ("plimsoll_agent_entrusted_messages", "Messages not confirmed", bus.entrusted),
        (
            "plimsoll_agent_entrusted_bytes",
            "Bytes of messages not confirmed",
            status.unconfirmed_bytes as u64,
        ),
        (
            "plimsoll_agent_entrusted_samples",
            "Samples in messages not confirmed",
            status.unconfirmed_samples,
        ),
        ("plimsoll_agent_in_flight_messages", "Messages in flight", status.in_flight as u64),
        ("plimsoll_agent_connected", "1 while messages can be sent", status.connected.into()),
        (
            "plimsoll_agent_breaker_state",
            "0 closed, 1 half-open, 2 open",
            status.breaker.as_number().into(),
        ),
        (
            "plimsoll_agent_rerouting",
            "1 while new messages go by the emergency lane",
            status.rerouting.into(),
        ),
        ("plimsoll_agent_dropping", "1 while new messages are dropped", status.dropping.into()),
        (
            "plimsoll_agent_conservative",
            "1 while only the emergency lane is sent",
            status.conservative.into(),
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value as f64);
    }
    if let Some(round_trip) = bus.round_trip_ns {
        let help = "Latest round trip to the broker";
        page.gauge("plimsoll_agent_broker_round_trip_seconds", help, seconds(round_trip));
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_spool(page: &Page, spool: &SpoolStats) {
    let gauges = [
        ("plimsoll_agent_spool_bytes", "Bytes of the spool", spool.bytes as u64),
        (
            "plimsoll_agent_spool_durable",
            "1 while what is held would outlive the process",
            spool.durable.into(),
        ),
        (
            "plimsoll_agent_spool_stuck",
            "1 while messages wait for a disk that does not answer or keeps an outdated file",
            spool.stuck.into(),
        ),
        (
            "plimsoll_agent_spool_released_samples",
            "Samples in messages of former incarnations that were too old to be sent again",
            spool.expired,
        ),
        (
            "plimsoll_agent_spool_recovered_samples",
            "Samples taken over from former incarnations",
            spool.recovered,
        ),
        (
            "plimsoll_agent_spool_crashed_samples",
            "Samples lost with the interval that was open when the last incarnation ended",
            spool.crashed,
        ),
        (
            "plimsoll_agent_spool_uncertain_samples",
            "Samples of which a damaged spool does not tell whether they were sent",
            spool.uncertain,
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value as f64);
    }
    let aside = spool.quarantined.iter().map(|reason| (*reason, 1));
    let help = "Spools set aside, by reason";
    by(page, "plimsoll_agent_spool_set_aside_total", help, &["reason"], aside);
    let help = "Writes into the spool that failed";
    page.counter("plimsoll_agent_spool_failures_total", help, spool.failures as f64);
}

fn add_outcomes(page: &Page, status: &Status) {
    let bus = &status.bus;
    let outcomes = [
        ("attempted", bus.attempted),
        ("published", bus.published),
        ("dropped", bus.dropped),
        ("refused", bus.refused),
        ("rerouted", bus.rerouted),
        ("retried", bus.retried),
        ("coalesced", bus.coalesced),
        ("rate_limited", bus.rate_limited),
        ("confirmed", bus.confirmed),
        ("released", bus.released),
        ("resent", bus.resent),
    ];
    let help = "Messages by what became of them";
    by(page, "plimsoll_agent_messages_total", help, &["outcome"], outcomes);
    let (heard, refused) = (status.confirmations.accepted, &status.confirmations.rejected);
    let outcomes = refused.iter().map(|(reason, n)| (*reason, *n));
    let outcomes = std::iter::once(("believed", heard)).chain(outcomes);
    let help = "Confirmations heard, by what became of them";
    by(page, "plimsoll_agent_confirmations_total", help, &["outcome"], outcomes);
    let rejected = bus.rejected.iter().map(|(reason, n)| (reason.as_str(), *n));
    let help = "Lines refused, by reason";
    by(page, "plimsoll_agent_rejected_lines_total", help, &["reason"], rejected);
    let lost = status.totals.lost.iter().map(|(reason, n)| (reason.as_str(), *n));
    let help = "Samples given up, by reason";
    by(page, "plimsoll_agent_lost_samples_total", help, &["reason"], lost);
    let lost = status.events_lost.iter().map(|(reason, n)| (*reason, *n));
    let help = "Events and service checks given up before they were sent, by reason";
    by(page, "plimsoll_agent_events_lost_total", help, &["reason"], lost);
}

/// Adds a family of counters told apart by one label.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn by<'a>(
    page: &Page,
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str; 1],
    rows: impl IntoIterator<Item = (&'a str, u64)>,
) {
    let rows: Vec<_> = rows.into_iter().map(|(value, n)| ([value], n as f64)).collect();
    let rows = rows.iter().map(|(values, n)| (&values[..], *n));
    page.counters(Family { name, help, labels }, rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_limit_has_its_row() {
        let page = Page::default();
        let limit = |name, ns| (Operation::new(name).unwrap(), ns);
        add_limits(&page, &[limit("a", 18_000_000), limit("a", 25_000_001), limit("b", 1_000)]);
        let text = page.render();
        let rows: Vec<_> = text.lines().filter(|row| row.starts_with("plimsoll_agent_l")).collect();
        let row = |name, limit| {
            format!("plimsoll_agent_limit_info{{limit_seconds=\"{limit}\",operation=\"{name}\"}} 1")
        };
        assert_eq!(rows, [row("b", "0.000001"), row("a", "0.018"), row("a", "0.025000001")]);
    }
}
