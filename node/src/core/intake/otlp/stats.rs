//! Statistics of OTLP requests for the node's own metrics; they only grow.

use super::request::Signal;
use crate::core::intake::series::LabelStats;

/// The type of a metric in OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Gauge,
    Sum,
    /// Buckets with explicit bounds.
    Histogram,
    Exponential,
    Summary,
}

impl MetricKind {
    pub const ALL: [Self; 5] =
        [Self::Gauge, Self::Sum, Self::Histogram, Self::Exponential, Self::Summary];

    /// Its name as a label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Sum => "sum",
            Self::Histogram => "histogram",
            Self::Exponential => "exponential_histogram",
            Self::Summary => "summary",
        }
    }
}

/// OTLP requests so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtlpStats {
    /// Bodies of metrics that were read.
    pub metrics: u64,
    /// Bodies of traces that were read.
    pub traces: u64,
    /// Malformed bodies, of metrics and of traces.
    pub malformed: [u64; 2],
    /// Points recorded, in the order of [`MetricKind::ALL`].
    pub points: [u64; MetricKind::ALL.len()],
    /// Points without a recorded value.
    pub without_value: u64,
    pub points_rejected: u64,
    /// Spans recorded as latencies.
    pub spans_matched: u64,
    /// Spans that no rule matches.
    pub spans_unmatched: u64,
    /// Spans that were recorded before.
    pub spans_repeated: u64,
    pub spans_rejected: u64,
    /// Attributes that did not become labels unchanged; of metrics once for each stream.
    pub labels: LabelStats,
    /// Attributes that cannot be labels: lists, maps, bytes; likewise.
    pub nested: u64,
}

impl OtlpStats {
    pub(crate) fn on_body(&mut self, signal: Signal, is_readable: bool) {
        *match (signal, is_readable) {
            (Signal::Metrics, true) => &mut self.metrics,
            (Signal::Traces, true) => &mut self.traces,
            (Signal::Metrics, false) => &mut self.malformed[0],
            (Signal::Traces, false) => &mut self.malformed[1],
        } += 1;
    }
}
