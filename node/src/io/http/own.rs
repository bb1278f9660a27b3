//! Metrics of the node about itself: samples, cost, outbox, spool, outcomes of messages.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_runtime::broker_faults::BrokerFaults;
use plimsoll_runtime::build;
use plimsoll_runtime::http as server;
use plimsoll_runtime::page::Page;
use plimsoll_schemas::time::seconds;
use plimsoll_schemas::unit::Unit;
use plimsoll_schemas::wire::confirmation::LatencyLimit;

use super::inputs::{self, InputStats};
use super::{ingest, scrape};
use crate::core::continuous::ContinuousStats;
use crate::core::{Status, captures::CaptureStats, outbox::BreakerState, spool::SpoolStats};
use crate::io::cost::Stage;
use crate::io::history::HistoryStats;
use crate::io::profiles::ProfileStats;

/// What the driver reports for one request.
#[derive(Debug)]
pub struct AgentStats {
    pub status: Status,
    pub broker_faults: BrokerFaults,
    pub inputs: InputStats,
    /// Connections to the HTTP pages.
    pub http: Option<server::ServerStats>,
    /// Time spent in each stage of the driver.
    pub by_stage: [(Stage, Duration); Stage::ALL.len()],
    /// Restarts of tasks and threads, by task.
    pub task_restarts: BTreeMap<&'static str, u64>,
    pub history: Option<HistoryStats>,
    pub profiles: ProfileStats,
}

pub(super) fn page(stats: &AgentStats) -> String {
    let (page, status) = (Page::default(), &stats.status);
    let build = [([build::VERSION, build::COMMIT], true)];
    page.about(build::HELP).gauges("plimsoll_agent_build_info", build::LABELS, build);
    add_samples(&page, status);
    add_limits(&page, &status.limits);
    ingest::add(&page, &status.intake);
    ingest::add_otlp(&page, &status.otlp);
    scrape::add(&page, &status.intake.scrapes);
    inputs::add(&page, &stats.inputs);
    add_process(&page, stats);
    if let Some(http) = &stats.http {
        add_http(&page, http);
    }
    add_broker(&page, stats);
    add_outbox(&page, status);
    add_outcomes(&page, status);
    add_spool(&page, &status.spool);
    add_captures(&page, &status.captures);
    if let Some(continuous) = &status.continuous {
        add_profiles(&page, continuous, &stats.profiles);
    }
    if let Some(history) = &stats.history {
        add_history(&page, history);
    }
    page.render()
}

fn add_samples(page: &Page, status: &Status) {
    let intake = &status.intake;
    page.about("Datagrams received").counter("plimsoll_agent_datagrams_total", intake.datagrams);
    page.about("Values accepted from lines and frames")
        .counter("plimsoll_agent_values_total", intake.values);
    page.about("Latency samples accepted").counter("plimsoll_agent_samples_total", intake.samples);
    page.about("Samples above the highest value of their unit, such as one hour, recorded as that")
        .counter("plimsoll_agent_clamped_samples_total", intake.clamped);
    page.about("Values merged into the series other because of the series limit")
        .counter("plimsoll_agent_overflow_values_total", intake.overflowed);
    page.about("Latency samples in sealed snapshots")
        .counter("plimsoll_agent_recorded_samples_total", status.totals.recorded);
    page.about("Lost latency samples, per reason")
        .by("reason")
        .counters("plimsoll_agent_lost_samples_total", &status.totals.lost);
    page.about("Rejected lines, per reason")
        .by("reason")
        .counters("plimsoll_agent_rejected_lines_total", &intake.rejected);
    page.about("Failed reads of a datagram socket")
        .counter("plimsoll_agent_socket_read_errors_total", intake.read_errors);
}

fn add_limits(page: &Page, limits: &[LatencyLimit]) {
    let row = |limit: &LatencyLimit| {
        let unit = Unit::of(limit.operation.as_str());
        ([limit.operation.to_string(), unit.shown(limit.limit_ns).to_string()], true)
    };
    page.about("Latency limits above which samples are counted exactly, always 1").gauges(
        "plimsoll_agent_limit_info",
        ["operation", "limit_seconds"],
        limits.iter().map(row),
    );
}

/// What the process does beside recording: its tasks, its requests, its time.
fn add_process(page: &Page, stats: &AgentStats) {
    page.about("Time that the driver spent, per stage")
        .by("stage")
        .counters("plimsoll_agent_driver_stage_seconds_total", stats.by_stage);
    page.about("Restarts of tasks and threads that ended or panicked, per task")
        .by("task")
        .counters("plimsoll_agent_task_restarts_total", &stats.task_restarts);

    page.about("HTTP requests refused before their route, per listener and reason").counters(
        "plimsoll_agent_requests_refused_total",
        ["listener", "reason"],
        refused_requests(stats),
    );
}

/// Of the pages, and of the OTLP port that browsers reach too.
fn refused_requests(stats: &AgentStats) -> impl Iterator<Item = ([&str; 2], u64)> {
    let otlp = stats.inputs.otlp.iter().flat_map(|otlp| &otlp.connections);
    let otlp = otlp.filter(|(protocol, _)| *protocol == "http").map(|(_, of)| ("otlp.http", of));
    let ports = stats.http.iter().map(|of| ("http.address", of)).chain(otlp);
    ports.flat_map(|(port, of)| of.refused().map(|(reason, n)| ([port, reason.as_str()], n)))
}

fn add_http(page: &Page, http: &server::ServerStats) {
    page.about("Open connections to the HTTP pages, per stage")
        .by("stage")
        .gauges("plimsoll_agent_http_connections", http.open);
    page.about("Closed connections to the HTTP pages, per reason")
        .by("reason")
        .counters("plimsoll_agent_http_connections_closed_total", http.closed());
    page.about("Protection that HTTP pages beyond this machine lack, 1 if they do")
        .by("lacks")
        .gauges("plimsoll_agent_http_exposed", http.exposure.rows());
}

fn add_broker(page: &Page, stats: &AgentStats) {
    let (status, faults) = (&stats.status, &stats.broker_faults);
    page.about("1 while the broker is connected, 0 otherwise")
        .gauge("plimsoll_agent_broker_connected", status.connected);
    page.about("Connections to the broker after the first one")
        .counter("plimsoll_agent_broker_reconnects_total", status.bus.reconnects);
    page.about("Permission denials by the broker")
        .counter("plimsoll_agent_broker_permission_denials_total", status.denials);
    page.about("Messages whose id another client had used in a stream, resent under another one")
        .counter("plimsoll_agent_taken_message_ids_total", status.bus.taken_ids);
    page.about("Faults of the connection to the broker, per cause")
        .by("cause")
        .counters("plimsoll_agent_broker_faults_total", faults.counts());

    if let Some(advisories) = faults.advisories() {
        page.about("Published advisories about the version of the connected broker")
            .gauge("plimsoll_agent_broker_advisories", advisories);
    }

    if let Some(round_trip) = status.bus.round_trip_ns {
        page.about("Latest round-trip time to the broker")
            .gauge("plimsoll_agent_broker_round_trip_seconds", seconds(round_trip));
    }

    add_breaker(page, status.breaker);
}

fn add_breaker(page: &Page, current: BreakerState) {
    page.about("1 for the current state of the circuit breaker, 0 for the others")
        .by("state")
        .gauges(
            "plimsoll_agent_breaker_state",
            BreakerState::ALL.map(|state| (state.as_str(), state == current)),
        );
}

fn add_outbox(page: &Page, status: &Status) {
    let bus = &status.bus;
    page.about("Series in the open interval").gauge("plimsoll_agent_series", status.series);

    page.about(
        "Messages that the broker has not acknowledged, as they were produced before merging",
    )
    .gauge("plimsoll_agent_outbox_depth", bus.outbox_depth);

    page.about("Messages that the broker has not acknowledged, merged")
        .gauge("plimsoll_agent_outbox_messages", bus.outbox_messages);
    page.about("Bytes of messages that the broker has not acknowledged")
        .gauge("plimsoll_agent_outbox_bytes", bus.outbox_bytes);
    page.about("Latency samples in messages that the broker has not acknowledged")
        .gauge("plimsoll_agent_held_samples", status.held_samples);
    page.about("Acknowledged messages that no aggregator has confirmed")
        .gauge("plimsoll_agent_unconfirmed_messages", bus.unconfirmed);
    page.about("Bytes of acknowledged messages that no aggregator has confirmed")
        .gauge("plimsoll_agent_unconfirmed_bytes", status.unconfirmed_bytes);
    page.about("Latency samples in acknowledged messages that no aggregator has confirmed")
        .gauge("plimsoll_agent_unconfirmed_samples", status.unconfirmed_samples);
    page.about("Messages sent to the broker and not answered yet")
        .gauge("plimsoll_agent_in_flight_messages", status.in_flight);
    page.about("1 while new messages take the emergency lane, 0 otherwise")
        .gauge("plimsoll_agent_rerouting", bus.rerouting);
    page.about("1 while new messages are dropped, 0 otherwise")
        .gauge("plimsoll_agent_dropping", bus.dropping);
    page.about("1 while only the emergency lane is sent, 0 otherwise")
        .gauge("plimsoll_agent_conservative_mode", bus.conservative);
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
        ("combined", bus.combined),
        ("rate_limited", bus.rate_limited),
        ("confirmed", bus.confirmed),
        ("released", bus.released),
        ("resent", bus.resent),
    ];

    page.about("Messages, per outcome")
        .by("outcome")
        .counters("plimsoll_agent_messages_total", outcomes);

    let believed = [(&"believed", &status.confirmations.accepted)];
    page.about("Confirmations received, per outcome").by("outcome").counters(
        "plimsoll_agent_confirmations_total",
        believed.into_iter().chain(&status.confirmations.rejected),
    );

    let letters = &status.dead_letters;
    page.about("Messages that became dead letters, per reason for which the broker refused them")
        .by("reason")
        .counters("plimsoll_agent_dead_letters_total", &letters.stored);
    page.about("Dead letters that the broker itself refused")
        .counter("plimsoll_agent_refused_dead_letters_total", letters.refused);
    page.about("Dead letters that are not stored yet")
        .gauge("plimsoll_agent_waiting_dead_letters", letters.waiting);
    page.about("Events and service checks lost before they were sent, per reason")
        .by("reason")
        .counters("plimsoll_agent_lost_events_total", &status.events_lost);
}

fn add_spool(page: &Page, spool: &SpoolStats) {
    page.about("Size of the spool").gauge("plimsoll_agent_spool_bytes", spool.bytes);
    page.about("1 while queued messages would survive a crash of the node, 0 otherwise")
        .gauge("plimsoll_agent_spool_durable", spool.durable);

    page.about(
        "1 while messages wait because the spool can be neither written nor removed, 0 otherwise",
    )
    .gauge("plimsoll_agent_spool_blocked", spool.stuck);

    page.about("Latency samples of earlier incarnations in messages that were too old to be sent")
        .gauge("plimsoll_agent_spool_expired_samples", spool.expired);
    page.about("Latency samples recovered from earlier incarnations")
        .gauge("plimsoll_agent_spool_recovered_samples", spool.recovered);

    page.about(
        "Latency samples lost with the interval that was open when the last incarnation crashed",
    )
    .gauge("plimsoll_agent_spool_crash_lost_samples", spool.crashed);

    page.about("Latency samples in a damaged spool, which does not record whether they were sent")
        .gauge("plimsoll_agent_spool_uncertain_samples", spool.uncertain);

    page.about("Quarantined spool files, per reason").by("reason").counters(
        "plimsoll_agent_quarantined_spools_total",
        spool.quarantined.iter().map(|reason| (reason, 1_u64)),
    );

    page.about("Failed writes to the spool")
        .counter("plimsoll_agent_spool_write_failures_total", spool.failures);
}

fn add_profiles(page: &Page, continuous: &ContinuousStats, stored: &ProfileStats) {
    page.about("Turns of processes in continuous profiling; each has one outcome or is active")
        .counter("plimsoll_agent_profiles_turns_total", continuous.turns);
    page.about("Turns that ended, per outcome and reason").counters(
        "plimsoll_agent_profiles_total",
        ["outcome", "reason"],
        continuous.outcomes.iter().map(|((outcome, reason), n)| ([*outcome, *reason], *n)),
    );
    page.about("Turns that run or are being stored")
        .gauge("plimsoll_agent_profiles_active", continuous.running + continuous.storing);
    page.about("Processes that are profiled all the time")
        .gauge("plimsoll_agent_profiles_processes", continuous.watched);
    page.about("Bytes of stored profiles").gauge("plimsoll_agent_profiles_bytes", stored.bytes);
    page.about("Segments of profiles found damaged or of another version, at most in one reading")
        .gauge("plimsoll_agent_profiles_unread_segments", stored.unread_segments);
}

fn add_captures(page: &Page, captures: &CaptureStats) {
    page.about("Orders of captures; each has one outcome unless it is active")
        .counter("plimsoll_agent_captures_ordered_total", captures.ordered);
    page.about("Orders of captures that ended, per outcome and reason").counters(
        "plimsoll_agent_captures_total",
        ["outcome", "reason"],
        captures.outcomes.iter().map(|((outcome, reason), n)| ([*outcome, *reason], *n)),
    );
    page.about("Orders of captures that wait or run")
        .gauge("plimsoll_agent_captures_active", captures.active);
    page.about("Payloads that were no request of a capture")
        .counter("plimsoll_agent_captures_undecodable_total", captures.undecodable);
}

fn add_history(page: &Page, history: &HistoryStats) {
    let earliest = history.earliest.map_or(0.0, |at| seconds(at.0));
    page.about("Size of the history on disk").gauge("plimsoll_agent_history_bytes", history.bytes);
    page.about("End of the earliest interval in the history, in seconds since 1970; 0 without one")
        .gauge("plimsoll_agent_history_earliest_timestamp_seconds", earliest);
    page.about("Messages written to the history")
        .counter("plimsoll_agent_history_messages_total", history.written);
    page.about("Messages that the history does not have, per reason")
        .by("reason")
        .counters("plimsoll_agent_history_dropped_total", &history.dropped);
    page.about("Requests of the history, per outcome")
        .by("outcome")
        .counters("plimsoll_agent_history_requests_total", &history.requests);
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::Operation;

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
        let limit = |name, limit_ns| LatencyLimit {
            operation: Operation::new(name).unwrap(),
            limit_ns,
            allowed_ppm: 1,
        };
        add_limits(&page, &[limit("a", 18_000_000), limit("a", 25_000_001), limit("b", 1_000)]);
        let text = page.render();
        let rows: Vec<_> = text.lines().filter(|row| row.starts_with("plimsoll_agent_l")).collect();
        let row = |name, limit| {
            format!("plimsoll_agent_limit_info{{limit_seconds=\"{limit}\",operation=\"{name}\"}} 1")
        };
        assert_eq!(rows, [row("b", "0.000001"), row("a", "0.018"), row("a", "0.025000001")]);
    }
}
