//! OpenTelemetry: reads OTLP request bodies as points and latencies.
//!
//! Owns the statistics and warnings of all requests, and the ids of recent spans. `json` converts
//! JSON to the same message in Protocol Buffers, `protobuf` checks all of it, so that a malformed
//! body changes nothing; then `metrics` reads its points, each a `data_point`, and `traces`
//! reads spans by `rules`. `attributes` identify streams and become labels; `schema` has the
//! field numbers. Whatever cannot be recorded is rejected with a text for its producer.
//!
//! Does not decide what a point adds: the recorder does.
//!
//! DESIGN N25.

mod attributes;
mod context;
mod data_point;
mod json;
mod metrics;
mod names;
mod protobuf;
mod recent_spans;
mod rejection_text;
mod report;
mod request;
mod rules;
mod schema;
mod stats;
mod traces;

use crate::limits::OTLP_POINTS_MAX;
use foldhash::fast::FixedState;
use plimsoll_schemas::time::Now;

use super::lines::Units;
use super::recorder::Recorder;
use super::series::LabelRules;
use context::Context;
use metrics::MetricReader;
pub(crate) use protobuf::push_varint;
use report::OtlpReport;
pub use request::{Encoding, Malformed, Outcome, Signal};
pub use rules::{LabelOf, OtlpRules, RESOURCE_LABELS, SpanRule};
pub use stats::{MetricKind, OtlpStats};
use traces::SpanReader;

/// The reader of OTLP requests.
pub(super) struct Otlp {
    context: Context,
    metrics: MetricReader,
    spans: SpanReader,
    report: OtlpReport,
}

impl Otlp {
    /// A reader without requests. `seed` is a number that a sender does not choose.
    pub(super) fn new(labels: LabelRules, units: Units, otlp: OtlpRules, seed: u64) -> Self {
        Self {
            context: Context { labels, units, otlp, state: FixedState::with_seed(seed) },
            metrics: MetricReader::default(),
            spans: SpanReader::default(),
            report: OtlpReport::default(),
        }
    }

    /// Records a body in `recorder`, or rejects all of its items without one.
    ///
    /// # Errors
    /// When it is malformed; then nothing of it is recorded.
    pub(super) fn on_body(
        &mut self,
        recorder: Option<&mut Recorder>,
        now: Now,
        signal: Signal,
        encoding: Encoding,
        body: &[u8],
    ) -> Result<Outcome, Malformed> {
        let message = match signal {
            Signal::Metrics => &schema::METRICS,
            Signal::Traces => &schema::TRACES,
        };

        let converted;
        let read = match encoding {
            Encoding::Protobuf => Ok(body),
            Encoding::Json => match json::to_protobuf(message, body) {
                Ok(bytes) => {
                    converted = bytes;
                    Ok(&converted[..])
                }
                Err(malformed) => Err(malformed),
            },
        };

        // All of a body is checked before anything of it counts, so that a malformed one changes
        // nothing and can be sent again as it is (N25).
        let checked = read.and_then(|body| Ok((body, items(message, body)?)));
        self.report.stats.on_body(signal, checked.is_ok());
        let (body, items) = checked?;

        let Some(recorder) = recorder else {
            let message = "the node is shutting down; retry with its successor";
            return Ok(Outcome { refused: items, message: Some(message.to_owned()) });
        };

        let Self { context, metrics, spans, report } = self;

        match signal {
            Signal::Metrics => metrics.on_metrics(context, recorder, now, body, report),
            Signal::Traces => spans.on_traces(context, recorder, body, report),
        }

        Ok(report.take_outcome())
    }

    /// Warnings for the operator, once for each reason.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        self.report.take_warnings()
    }

    /// Statistics of all requests so far.
    pub(super) fn stats(&self) -> OtlpStats {
        self.report.stats.clone()
    }
}

/// The number of points or spans of a body.
fn items(message: &'static schema::Message, body: &[u8]) -> Result<u64, Malformed> {
    let items =
        protobuf::check(message, body).map_err(|fault| Malformed::new(fault.of, &fault.what))?;
    if items > OTLP_POINTS_MAX {
        let what =
            format!("{items} points or spans, more than {OTLP_POINTS_MAX}; send fewer at once");
        return Err(Malformed::new(message.name, &what));
    }
    Ok(items as u64)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod writer;
