//! Metrics of the node about itself: samples, cost, outbox, spool, outcomes of messages.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_runtime::broker_faults::BrokerFaults;
use plimsoll_runtime::build;
use plimsoll_runtime::http as server;
use plimsoll_runtime::page::{Family, Page};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::time::seconds;

use super::by_label::counters_by;
use super::{ingest, otlp, scrape};
use crate::core::{Status, outbox::BreakerState, spool::SpoolStats};
use crate::io::cost::Stage;
use crate::io::history::HistoryStats;
use crate::io::otlp::stats::OtlpStats;

/// What the driver reports for one request.
#[derive(Debug)]
pub struct AgentStats {
    /// Status of the core.
    pub status: Status,
    /// What was wrong with the connection to the broker.
    pub broker_faults: BrokerFaults,
    /// Datagrams that the kernel dropped, per socket.
    pub dropped: [(&'static str, u64); 2],
    /// Connections to the stream socket.
    pub connections: usize,
    /// Connections to the HTTP pages.
    pub http: Option<server::ServerStats>,
    /// OTLP requests and connections, when a port is open.
    pub otlp: Option<OtlpStats>,
    /// Time spent in each stage of the driver.
    pub by_stage: [(Stage, Duration); Stage::ALL.len()],
    /// Restarts of tasks and threads, by task.
    pub task_restarts: BTreeMap<&'static str, u64>,
    /// The history, if one is kept.
    pub history: Option<HistoryStats>,
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
pub(super) fn page(stats: &AgentStats) -> String {
    let (page, status) = (Page::default(), &stats.status);
    let (name, help, labels) = ("plimsoll_agent_build_info", build::HELP, &build::LABELS);
    page.gauges(Family { name, help, labels }, [(&[build::VERSION, build::COMMIT][..], 1.0)]);
    add_samples(&page, status);
    add_limits(&page, &status.limits);
    ingest::add(&page, &status.intake);
    ingest::add_otlp(&page, &status.otlp);
    scrape::add(&page, &status.intake.scrapes);
    let help = "Datagrams that the kernel dropped because the receive buffer of a socket was full";
    let name = "plimsoll_agent_kernel_dropped_datagrams_total";
    counters_by(&page, name, help, &["socket"], stats.dropped);
    let help = "Connections to the stream socket";
    page.gauge("plimsoll_agent_client_connections", help, stats.connections as f64);
    if let Some(http) = &stats.http {
        add_http(&page, http);
    }
    if let Some(otlp) = &stats.otlp {
        otlp::add(&page, otlp);
    }
    add_refused_requests(&page, stats);
    add_cost(&page, stats);
    let restarts = stats.task_restarts.iter().map(|(task, n)| (*task, *n));
    let help = "Restarts of tasks and threads that ended or panicked, per task";
    counters_by(&page, "plimsoll_agent_task_restarts_total", help, &["task"], restarts);
    add_broker(&page, &stats.broker_faults);
    add_outbox(&page, status);
    add_spool(&page, &status.spool);
    if let Some(history) = &stats.history {
        add_history(&page, history);
    }
    add_outcomes(&page, status);
    page.render()
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_samples(page: &Page, status: &Status) {
    let (intake, bus) = (&status.intake, &status.bus);
    let counters = [
        ("plimsoll_agent_datagrams_total", "Datagrams received", intake.datagrams),
        ("plimsoll_agent_values_total", "Values accepted from lines and frames", intake.values),
        ("plimsoll_agent_samples_total", "Latency samples accepted", intake.samples),
        (
            "plimsoll_agent_clamped_samples_total",
            "Latency samples above one hour, recorded as one hour",
            intake.clamped,
        ),
        (
            "plimsoll_agent_overflow_values_total",
            "Values merged into the series other because of the series limit",
            intake.overflowed,
        ),
        (
            "plimsoll_agent_recorded_samples_total",
            "Latency samples in sealed snapshots",
            status.totals.recorded,
        ),
        (
            "plimsoll_agent_socket_read_errors_total",
            "Failed reads of a datagram socket",
            intake.read_errors,
        ),
        (
            "plimsoll_agent_broker_permission_denials_total",
            "Permission denials by the broker",
            status.denials,
        ),
        (
            "plimsoll_agent_taken_message_ids_total",
            "Messages whose id another client had used in a stream, resent under another one",
            bus.taken_ids,
        ),
        (
            "plimsoll_agent_broker_reconnects_total",
            "Connections to the broker after the first one",
            bus.reconnects,
        ),
    ];
    for (name, help, value) in counters {
        page.counter(name, help, value as f64);
    }
}

fn add_limits(page: &Page, limits: &[(Operation, u64)]) {
    let help = "Latency limits above which samples are counted exactly, always 1";
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
fn add_http(page: &Page, http: &server::ServerStats) {
    let (name, help) =
        ("plimsoll_agent_http_connections", "Open connections to the HTTP pages, per stage");
    let rows = http.open.map(|(stage, n)| ([stage.as_str()], n as f64));
    let rows = rows.iter().map(|(values, n)| (&values[..], *n));
    page.gauges(Family { name, help, labels: &["stage"] }, rows);
    let closed = http.closed().map(|(reason, n)| (reason.as_str(), n));
    let help = "Closed connections to the HTTP pages, per reason";
    counters_by(page, "plimsoll_agent_http_connections_closed_total", help, &["reason"], closed);
    let (name, help) = (
        "plimsoll_agent_http_exposed",
        "Protection that HTTP pages beyond this machine lack, 1 if they do",
    );
    let rows = http.exposure.rows().map(|(what, is_lacked)| ([what], f64::from(is_lacked)));
    let rows = rows.iter().map(|(values, lacked)| (&values[..], *lacked));
    page.gauges(Family { name, help, labels: &["lacks"] }, rows);
}

/// Of the pages, and of the OTLP port that browsers reach too.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_refused_requests(page: &Page, stats: &AgentStats) {
    let otlp = stats.otlp.iter().flat_map(|otlp| &otlp.connections);
    let otlp = otlp.filter(|(protocol, _)| *protocol == "http").map(|(_, of)| ("otlp.http", of));
    let ports = stats.http.iter().map(|of| ("http.address", of)).chain(otlp);
    let rows = ports
        .flat_map(|(port, of)| of.refused().map(|(reason, n)| ([port, reason.as_str()], n as f64)));
    let rows: Vec<_> = rows.collect();
    let (name, help) = (
        "plimsoll_agent_requests_refused_total",
        "HTTP requests refused before their route, per listener and reason",
    );
    let family = Family { name, help, labels: &["listener", "reason"] };
    page.counters(family, rows.iter().map(|(values, n)| (&values[..], *n)));
}

fn add_cost(page: &Page, stats: &AgentStats) {
    let (name, help) =
        ("plimsoll_agent_driver_stage_seconds_total", "Time that the driver spent, per stage");
    let rows = stats.by_stage.map(|(stage, spent)| ([stage.as_str()], spent.as_secs_f64()));
    let rows = rows.iter().map(|(values, seconds)| (&values[..], *seconds));
    page.counters(Family { name, help, labels: &["stage"] }, rows);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_outbox(page: &Page, status: &Status) {
    let bus = &status.bus;
    let gauges = [
        ("plimsoll_agent_series", "Series in the open interval", status.series as u64),
        (
            "plimsoll_agent_outbox_depth",
            "Messages that the broker has not acknowledged, as they were produced before merging",
            bus.outbox_depth,
        ),
        (
            "plimsoll_agent_outbox_messages",
            "Messages that the broker has not acknowledged, merged",
            bus.outbox_messages,
        ),
        (
            "plimsoll_agent_outbox_bytes",
            "Bytes of messages that the broker has not acknowledged",
            bus.outbox_bytes,
        ),
        (
            "plimsoll_agent_held_samples",
            "Latency samples in messages that the broker has not acknowledged",
            status.held_samples,
        ),
        (
            "plimsoll_agent_unconfirmed_messages",
            "Acknowledged messages that no aggregator has confirmed",
            bus.unconfirmed,
        ),
        (
            "plimsoll_agent_unconfirmed_bytes",
            "Bytes of acknowledged messages that no aggregator has confirmed",
            status.unconfirmed_bytes as u64,
        ),
        (
            "plimsoll_agent_unconfirmed_samples",
            "Latency samples in acknowledged messages that no aggregator has confirmed",
            status.unconfirmed_samples,
        ),
        (
            "plimsoll_agent_in_flight_messages",
            "Messages sent to the broker and not answered yet",
            status.in_flight as u64,
        ),
        (
            "plimsoll_agent_broker_connected",
            "1 while the broker is connected, 0 otherwise",
            status.connected.into(),
        ),
        (
            "plimsoll_agent_rerouting",
            "1 while new messages take the emergency lane, 0 otherwise",
            status.rerouting.into(),
        ),
        (
            "plimsoll_agent_dropping",
            "1 while new messages are dropped, 0 otherwise",
            status.dropping.into(),
        ),
        (
            "plimsoll_agent_conservative_mode",
            "1 while only the emergency lane is sent, 0 otherwise",
            status.conservative.into(),
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value as f64);
    }
    add_breaker(page, status.breaker);
    if let Some(round_trip) = bus.round_trip_ns {
        let help = "Latest round-trip time to the broker";
        page.gauge("plimsoll_agent_broker_round_trip_seconds", help, seconds(round_trip));
    }
}

fn add_breaker(page: &Page, current: BreakerState) {
    let name = "plimsoll_agent_breaker_state";
    let help = "1 for the current state of the circuit breaker, 0 for the others";
    let rows =
        BreakerState::ALL.map(|state| ([state.as_str()], f64::from(u8::from(state == current))));
    let rows = rows.iter().map(|(values, current)| (&values[..], *current));
    page.gauges(Family { name, help, labels: &["state"] }, rows);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_spool(page: &Page, spool: &SpoolStats) {
    let gauges = [
        ("plimsoll_agent_spool_bytes", "Size of the spool", spool.bytes as u64),
        (
            "plimsoll_agent_spool_durable",
            "1 while queued messages would survive a crash of the node, 0 otherwise",
            spool.durable.into(),
        ),
        (
            "plimsoll_agent_spool_blocked",
            "1 while messages wait because the spool can be neither written nor removed, 0 otherwise",
            spool.stuck.into(),
        ),
        (
            "plimsoll_agent_spool_expired_samples",
            "Latency samples of earlier incarnations in messages that were too old to be sent",
            spool.expired,
        ),
        (
            "plimsoll_agent_spool_recovered_samples",
            "Latency samples recovered from earlier incarnations",
            spool.recovered,
        ),
        (
            "plimsoll_agent_spool_crash_lost_samples",
            "Latency samples lost with the interval that was open when the last incarnation crashed",
            spool.crashed,
        ),
        (
            "plimsoll_agent_spool_uncertain_samples",
            "Latency samples of which a damaged spool does not record whether they were sent",
            spool.uncertain,
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value as f64);
    }
    let aside = spool.quarantined.iter().map(|reason| (*reason, 1));
    let help = "Quarantined spool files, per reason";
    counters_by(page, "plimsoll_agent_quarantined_spools_total", help, &["reason"], aside);
    let help = "Failed writes to the spool";
    page.counter("plimsoll_agent_spool_write_failures_total", help, spool.failures as f64);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_history(page: &Page, history: &HistoryStats) {
    let help = "Size of the history on disk";
    page.gauge("plimsoll_agent_history_bytes", help, history.bytes as f64);
    let help = "End of the earliest interval in the history, in seconds since 1970; 0 without one";
    let earliest = history.earliest.map_or(0.0, |at| seconds(at.0));
    page.gauge("plimsoll_agent_history_earliest_timestamp_seconds", help, earliest);
    let help = "Messages written to the history";
    page.counter("plimsoll_agent_history_messages_total", help, history.written as f64);
    let dropped = history.dropped.iter().map(|(reason, n)| (*reason, *n));
    let help = "Messages that the history does not have, per reason";
    counters_by(page, "plimsoll_agent_history_dropped_total", help, &["reason"], dropped);
    let requests = history.requests.iter().map(|(outcome, n)| (*outcome, *n));
    let help = "Requests of the history, per outcome";
    counters_by(page, "plimsoll_agent_history_requests_total", help, &["outcome"], requests);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_broker(page: &Page, faults: &BrokerFaults) {
    let help = "Faults of the connection to the broker, per cause";
    counters_by(page, "plimsoll_agent_broker_faults_total", help, &["cause"], faults.counts());
    if let Some(advisories) = faults.advisories() {
        let help = "Published advisories about the version of the connected broker";
        page.gauge("plimsoll_agent_broker_advisories", help, advisories as f64);
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
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
        ("combined", bus.combined),
        ("rate_limited", bus.rate_limited),
        ("confirmed", bus.confirmed),
        ("released", bus.released),
        ("resent", bus.resent),
    ];
    let help = "Messages, per outcome";
    counters_by(page, "plimsoll_agent_messages_total", help, &["outcome"], outcomes);
    let (accepted, refused) = (status.confirmations.accepted, &status.confirmations.rejected);
    let outcomes = refused.iter().map(|(reason, n)| (*reason, *n));
    let outcomes = std::iter::once(("believed", accepted)).chain(outcomes);
    let help = "Confirmations received, per outcome";
    counters_by(page, "plimsoll_agent_confirmations_total", help, &["outcome"], outcomes);
    let rejected = bus.rejected.iter().map(|(reason, n)| (reason.as_str(), *n));
    let help = "Rejected lines, per reason";
    counters_by(page, "plimsoll_agent_rejected_lines_total", help, &["reason"], rejected);
    let lost = status.totals.lost.iter().map(|(reason, n)| (reason.as_str(), *n));
    let help = "Lost latency samples, per reason";
    counters_by(page, "plimsoll_agent_lost_samples_total", help, &["reason"], lost);
    let letters = &status.dead_letters;
    let stored = letters.stored.iter().map(|(reason, n)| (reason.as_str(), *n));
    let help = "Messages that became dead letters, per reason for which the broker refused them";
    counters_by(page, "plimsoll_agent_dead_letters_total", help, &["reason"], stored);
    let help = "Dead letters that the broker itself refused";
    page.counter("plimsoll_agent_refused_dead_letters_total", help, letters.refused as f64);
    let help = "Dead letters that are not stored yet";
    page.gauge("plimsoll_agent_waiting_dead_letters", help, letters.waiting as f64);
    let lost = status.events_lost.iter().map(|(reason, n)| (*reason, *n));
    let help = "Events and service checks lost before they were sent, per reason";
    counters_by(page, "plimsoll_agent_lost_events_total", help, &["reason"], lost);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_of_the_breaker_has_its_row() {
        let page = Page::default();
        add_breaker(&page, BreakerState::HalfOpen);
        let text = page.render();
        let rows: Vec<_> = text.lines().filter(|row| row.starts_with("plimsoll_agent_b")).collect();
        let row = |state, n| format!("plimsoll_agent_breaker_state{{state=\"{state}\"}} {n}");
        assert_eq!(rows, [row("closed", 0), row("half_open", 1), row("open", 0)]);
    }

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
