//! Metrics of what comes in: what was lost on the way, what was left out, what was refused.

use plimsoll_runtime::page::Page;
use plimsoll_schemas::wire::EventSource;

use super::by;
use crate::core::intake::IntakeStats;
use crate::core::intake::Reject;
use crate::core::intake::otlp::{MetricKind, OtlpStats};

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
pub(super) fn add(page: &Page, intake: &IntakeStats) {
    let unsupported = intake.rejected.get(&Reject::Unsupported).copied().unwrap_or(0);
    let counters = [
        (
            "plimsoll_agent_client_lost_datagrams_total",
            "Datagrams that clients sent and no socket brought",
            intake.client_lost_datagrams,
        ),
        ("plimsoll_agent_frames_total", "Frames of clients read", intake.frames),
        ("plimsoll_agent_labels_mended_total", "Tags that did not fit", intake.labels.sanitized),
        (
            "plimsoll_agent_timestamped_values_total",
            "Values that said when they held",
            intake.timestamped,
        ),
        (
            "plimsoll_agent_event_texts_cut_total",
            "Texts of events cut to their bound",
            intake.events_cut,
        ),
        ("plimsoll_agent_points_total", "Points of other systems taken", intake.points.recorded),
        (
            "plimsoll_agent_point_baselines_total",
            "Points that only say from where to count on",
            intake.points.baselines,
        ),
        (
            "plimsoll_agent_point_restarts_total",
            "Processes behind points that began anew",
            intake.points.restarts,
        ),
        (
            "plimsoll_agent_streams_forgotten_total",
            "Streams of points that gave way to others",
            intake.points.evicted,
        ),
        ("plimsoll_agent_unsupported_total", "Sets, which are not taken", unsupported),
    ];
    for (name, help, value) in counters {
        page.counter(name, help, value as f64);
    }
    let help = "Clients that number what they send";
    page.gauge("plimsoll_agent_clients", help, intake.clients as f64);
    let help = "Streams of points known";
    page.gauge("plimsoll_agent_streams", help, intake.points.streams as f64);
    let refused = intake.frames_rejected.iter().map(|(reason, n)| (*reason, *n));
    let help = "Frames that could not be read, by reason";
    by(page, "plimsoll_agent_frames_refused_total", help, &["reason"], refused);
    let events = [EventSource::Event, EventSource::ServiceCheck]
        .map(|source| (source.as_str(), intake.events.get(&source).copied().unwrap_or(0)));
    let help = "Events and service checks taken";
    by(page, "plimsoll_agent_events_total", help, &["source"], events);
    let help = "Tags that became no labels, by reason, once for each value";
    let dropped = intake.labels.dropped();
    by(page, "plimsoll_agent_labels_dropped_total", help, &["reason"], dropped);
}

pub(super) fn add_otlp(page: &Page, otlp: &OtlpStats) {
    let [metrics, traces] = otlp.malformed;
    let bodies = [("metrics", otlp.metrics), ("traces", otlp.traces)];
    let help = "Bodies of OTLP read, by what they tell of";
    by(page, "plimsoll_agent_otlp_bodies_total", help, &["signal"], bodies);
    let help = "Bodies of OTLP that could not be read; nothing of them was taken";
    let malformed = [("metrics", metrics), ("traces", traces)];
    by(page, "plimsoll_agent_otlp_malformed_total", help, &["signal"], malformed);
    let help =
        "Points of OTLP taken, by kind; a summary's quantiles are gauges that cannot be merged";
    let points = MetricKind::ALL.map(|kind| (kind.as_str(), otlp.points[kind as usize]));
    by(page, "plimsoll_agent_otlp_points_total", help, &["kind"], points);
    let left = [("refused", otlp.points_rejected), ("without_value", otlp.without_value)];
    let help = "Points of OTLP not taken";
    by(page, "plimsoll_agent_otlp_points_left_total", help, &["outcome"], left);
    let spans = [
        ("matched", otlp.spans_matched),
        ("unmatched", otlp.spans_unmatched),
        ("repeated", otlp.spans_repeated),
        ("refused", otlp.spans_rejected),
    ];
    let help = "Spans by what became of them; only matched ones are latencies";
    by(page, "plimsoll_agent_otlp_spans_total", help, &["outcome"], spans);
    let dropped = otlp.labels.dropped().into_iter().chain([("nested", otlp.nested)]);
    let help = "Attributes that became no labels, by reason; of metrics once for each stream";
    by(page, "plimsoll_agent_otlp_attributes_left_out_total", help, &["reason"], dropped);
}
