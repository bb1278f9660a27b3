//! Metrics of ingest: what was lost on the way, dropped or rejected.

use plimsoll_runtime::page::Page;
use plimsoll_schemas::wire::EventSource;

use crate::core::intake::IntakeStats;
use crate::core::intake::otlp::{MetricKind, OtlpStats};

pub(super) fn add(page: &Page, intake: &IntakeStats) {
    page.about("Numbered clients").gauge("plimsoll_agent_numbered_clients", intake.clients);
    page.about("Datagrams that numbered clients sent and no socket received")
        .counter("plimsoll_agent_client_lost_datagrams_total", intake.client_lost_datagrams);
    page.about("Frames of Rust clients received")
        .counter("plimsoll_agent_frames_total", intake.frames);
    page.about("Rejected frames, per reason")
        .by("reason")
        .counters("plimsoll_agent_rejected_frames_total", &intake.frames_rejected);
    page.about("Values with a timestamp of their own")
        .counter("plimsoll_agent_timestamped_values_total", intake.timestamped);
    page.about("Tags with characters or lengths that a label cannot have, replaced or cut")
        .counter("plimsoll_agent_sanitized_labels_total", intake.labels.sanitized);
    page.about("Tags dropped instead of becoming labels, per reason, once for each value")
        .by("reason")
        .counters("plimsoll_agent_dropped_labels_total", intake.labels.dropped());
    add_events(page, intake);
    add_suspect_units(page, intake);
    add_points(page, intake);
}

fn add_events(page: &Page, intake: &IntakeStats) {
    let accepted = |source| intake.events.get(&source).copied().unwrap_or_default();
    let sources = [EventSource::Event, EventSource::ServiceCheck];
    page.about("Events and service checks accepted, per source").by("source").counters(
        "plimsoll_agent_events_total",
        sources.map(|source| (source.as_str(), accepted(source))),
    );
    page.about("Event texts truncated to the length limit")
        .counter("plimsoll_agent_truncated_event_texts_total", intake.events_cut);
}

fn add_suspect_units(page: &Page, intake: &IntakeStats) {
    let suspects = &intake.suspect_units;
    page.about("Operations of ms timers with values that look like seconds")
        .gauge("plimsoll_agent_suspect_unit_operations", suspects.len());
    page.about("Operations of ms timers with values that look like seconds, always 1")
        .by("operation")
        .gauges(
            "plimsoll_agent_suspect_unit_info",
            suspects.iter().map(|operation| (operation, true)),
        );
}

fn add_points(page: &Page, intake: &IntakeStats) {
    let points = &intake.points;
    page.about("Data points accepted from OTLP and Prometheus text")
        .counter("plimsoll_agent_points_total", points.recorded);
    page.about("First cumulative points of a stream, which only set its baseline")
        .counter("plimsoll_agent_point_baselines_total", points.baselines);
    page.about("Restarts of the processes that produce cumulative points")
        .counter("plimsoll_agent_producer_restarts_total", points.restarts);
    page.about("Streams of points evicted to make room for others")
        .counter("plimsoll_agent_evicted_point_streams_total", points.evicted);
    page.about("Streams of points in memory").gauge("plimsoll_agent_point_streams", points.streams);
}

pub(super) fn add_otlp(page: &Page, otlp: &OtlpStats) {
    let [metrics, traces] = otlp.malformed;

    page.about("OTLP bodies accepted, per signal").by("signal").counters(
        "plimsoll_agent_otlp_bodies_total",
        [("metrics", otlp.metrics), ("traces", otlp.traces)],
    );

    page.about("OTLP bodies rejected as malformed, per signal").by("signal").counters(
        "plimsoll_agent_otlp_malformed_bodies_total",
        [("metrics", metrics), ("traces", traces)],
    );

    page.about("OTLP data points accepted, per kind; quantiles of summaries become gauges")
        .by("kind")
        .counters(
            "plimsoll_agent_otlp_points_total",
            MetricKind::ALL.map(|kind| (kind.as_str(), otlp.points[kind as usize])),
        );

    page.about("OTLP data points not accepted, per outcome").by("outcome").counters(
        "plimsoll_agent_otlp_rejected_points_total",
        [("refused", otlp.points_rejected), ("without_value", otlp.without_value)],
    );

    let spans = [
        ("matched", otlp.spans_matched),
        ("unmatched", otlp.spans_unmatched),
        ("repeated", otlp.spans_repeated),
        ("refused", otlp.spans_rejected),
    ];

    page.about("Spans, per outcome; only matched spans are recorded as latencies")
        .by("outcome")
        .counters("plimsoll_agent_otlp_spans_total", spans);
    let dropped = otlp.labels.dropped().into_iter().chain([("nested", otlp.nested)]);
    page.about("Attributes dropped instead of becoming labels, per reason; for metrics once for each stream")
        .by("reason")
        .counters("plimsoll_agent_otlp_dropped_attributes_total", dropped);
}
