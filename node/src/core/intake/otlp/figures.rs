//! Counts of what came as OTLP, for the node's own metrics. They only ever grow.

use super::Signal;
use crate::core::intake::labels::LabelFigures;

/// What a metric is, in OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Values now.
    Gauge,
    /// Sums.
    Sum,
    /// Buckets with bounds.
    Histogram,
    /// Buckets of powers.
    Exponential,
    /// Quantiles.
    Summary,
}

impl Kind {
    /// Each of them.
    pub const ALL: [Self; 5] =
        [Self::Gauge, Self::Sum, Self::Histogram, Self::Exponential, Self::Summary];

    /// Its name as a label.
    #[must_use]
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

/// What came as OTLP so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtlpFigures {
    /// Bodies that could be read.
    pub metrics: u64,
    /// Likewise, of traces.
    pub traces: u64,
    /// Bodies that could not, of metrics and of traces.
    pub malformed: [u64; 2],
    /// Points taken, in the order of [`Kind::ALL`].
    pub points: [u64; Kind::ALL.len()],
    /// Points that say that there is no value.
    pub without_value: u64,
    /// Points refused.
    pub points_refused: u64,
    /// Spans taken as latencies.
    pub spans_matched: u64,
    /// Spans that no rule fits.
    pub spans_unmatched: u64,
    /// Spans that were taken before.
    pub spans_repeated: u64,
    /// Spans refused.
    pub spans_refused: u64,
    /// Attributes that became no labels, or not as they were; of metrics once for each stream.
    pub labels: LabelFigures,
    /// Attributes that no label can hold: lists, maps, bytes; likewise.
    pub nested: u64,
}

impl OtlpFigures {
    /// Counts one body.
    pub(super) fn on_body(&mut self, signal: Signal, is_readable: bool) {
        *match (signal, is_readable) {
            (Signal::Metrics, true) => &mut self.metrics,
            (Signal::Traces, true) => &mut self.traces,
            (Signal::Metrics, false) => &mut self.malformed[0],
            (Signal::Traces, false) => &mut self.malformed[1],
        } += 1;
    }
}
