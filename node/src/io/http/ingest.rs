//! Metrics of ingest: what was lost on the way, dropped or rejected.

use plimsoll_runtime::page::{Family, Page};
use plimsoll_schemas::wire::EventSource;

use super::by_label::counters_by;
use crate::core::intake::IntakeStats;
use crate::core::intake::otlp::{MetricKind, OtlpStats};

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
pub(super) fn add(page: &Page, intake: &IntakeStats) {
    let counters = [
        (
            "plimsoll_agent_client_lost_datagrams_total",
            "Datagrams that numbered clients sent and no socket received",
            intake.client_lost_datagrams,
        ),
        ("plimsoll_agent_frames_total", "Frames of Rust clients received", intake.frames),
        (
            "plimsoll_agent_sanitized_labels_total",
            "Tags with characters or lengths that a label cannot have, replaced or cut",
            intake.labels.sanitized,
        ),
        (
            "plimsoll_agent_timestamped_values_total",
            "Values with a timestamp of their own",
            intake.timestamped,
        ),
        (
            "plimsoll_agent_truncated_event_texts_total",
            "Event texts truncated to the length limit",
            intake.events_cut,
        ),
        (
            "plimsoll_agent_points_total",
            "Data points accepted from OTLP and Prometheus text",
            intake.points.recorded,
        ),
        (
            "plimsoll_agent_point_baselines_total",
            "First cumulative points of a stream, which only set its baseline",
            intake.points.baselines,
        ),
        (
            "plimsoll_agent_producer_restarts_total",
            "Restarts of the processes that produce cumulative points",
            intake.points.restarts,
        ),
        (
            "plimsoll_agent_evicted_point_streams_total",
            "Streams of points evicted to make room for others",
            intake.points.evicted,
        ),
    ];
    for (name, help, value) in counters {
        page.counter(name, help, value as f64);
    }
    let help = "Numbered clients";
    page.gauge("plimsoll_agent_numbered_clients", help, intake.clients as f64);
    let help = "Operations of ms timers with values that look like seconds";
    let suspects = &intake.suspect_units;
    page.gauge("plimsoll_agent_suspect_unit_operations", help, suspects.len() as f64);
    let help = "Operations of ms timers with values that look like seconds, always 1";
    let rows: Vec<_> = suspects.iter().map(|operation| [operation.as_str()]).collect();
    let rows = rows.iter().map(|row| (&row[..], 1.0));
    let name = "plimsoll_agent_suspect_unit_info";
    page.gauges(Family { name, help, labels: &["operation"] }, rows);
    let help = "Streams of points in memory";
    page.gauge("plimsoll_agent_point_streams", help, intake.points.streams as f64);
    let refused = intake.frames_rejected.iter().map(|(reason, n)| (*reason, *n));
    let help = "Rejected frames, per reason";
    counters_by(page, "plimsoll_agent_rejected_frames_total", help, &["reason"], refused);
    let events = [EventSource::Event, EventSource::ServiceCheck]
        .map(|source| (source.as_str(), intake.events.get(&source).copied().unwrap_or(0)));
    let help = "Events and service checks accepted, per source";
    counters_by(page, "plimsoll_agent_events_total", help, &["source"], events);
    let help = "Tags dropped instead of becoming labels, per reason, once for each value";
    let dropped = intake.labels.dropped();
    counters_by(page, "plimsoll_agent_dropped_labels_total", help, &["reason"], dropped);
}

pub(super) fn add_otlp(page: &Page, otlp: &OtlpStats) {
    let [metrics, traces] = otlp.malformed;
    let bodies = [("metrics", otlp.metrics), ("traces", otlp.traces)];
    let help = "OTLP bodies accepted, per signal";
    counters_by(page, "plimsoll_agent_otlp_bodies_total", help, &["signal"], bodies);
    let help = "OTLP bodies rejected as malformed, per signal";
    let malformed = [("metrics", metrics), ("traces", traces)];
    counters_by(page, "plimsoll_agent_otlp_malformed_bodies_total", help, &["signal"], malformed);
    let help = "OTLP data points accepted, per kind; quantiles of summaries become gauges";
    let points = MetricKind::ALL.map(|kind| (kind.as_str(), otlp.points[kind as usize]));
    counters_by(page, "plimsoll_agent_otlp_points_total", help, &["kind"], points);
    let left = [("refused", otlp.points_rejected), ("without_value", otlp.without_value)];
    let help = "OTLP data points not accepted, per outcome";
    counters_by(page, "plimsoll_agent_otlp_rejected_points_total", help, &["outcome"], left);
    let spans = [
        ("matched", otlp.spans_matched),
        ("unmatched", otlp.spans_unmatched),
        ("repeated", otlp.spans_repeated),
        ("refused", otlp.spans_rejected),
    ];
    let help = "Spans, per outcome; only matched spans are recorded as latencies";
    counters_by(page, "plimsoll_agent_otlp_spans_total", help, &["outcome"], spans);
    let dropped = otlp.labels.dropped().into_iter().chain([("nested", otlp.nested)]);
    let help = "Attributes dropped instead of becoming labels, per reason; for metrics once for each stream";
    counters_by(page, "plimsoll_agent_otlp_dropped_attributes_total", help, &["reason"], dropped);
}
