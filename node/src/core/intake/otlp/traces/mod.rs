//! Reads an `ExportTraceServiceRequest` as latencies: each span that a rule matches is one sample,
//! exact to the nanosecond and recorded once. Other spans are only counted.

use std::borrow::Cow;

use crate::limits::OTLP_NAME_BYTES_MAX;
use plimsoll_schemas::ids::Series;

use super::attributes::{AttributeList, Attributes, Pairs, hash, join};
use super::context::Context;
use super::names::to_operation;
use super::protobuf::{Wire, fields, messages};
use super::recent_spans::RecentSpans;
use super::rejection_text;
use super::report::OtlpReport;
use super::rules::SpanRule;
use super::stats::OtlpStats;
use crate::core::intake::recorder::Recorder;
use crate::core::intake::reject::Reject;

/// The label of a span that failed, and its value.
const OUTCOME: (&str, &str) = ("outcome", "error");
/// The status code of a span that failed.
const ERROR: u64 = 2;
const TRACE_ID_BYTES: usize = 16;
const SPAN_ID_BYTES: usize = 8;

/// One span of a body.
#[derive(Clone, Copy)]
struct Span<'a> {
    trace_id: &'a [u8],
    id: &'a [u8],
    name: &'a str,
    /// Nanoseconds since 1970; zero if unknown.
    start: u64,
    end: u64,
    failed: bool,
    attributes: Attributes<'a>,
    resource: &'a AttributeList<'a>,
}

/// The reader of traces; it has the ids of recent spans.
#[derive(Default)]
pub(super) struct SpanReader {
    recent: RecentSpans,
}

impl SpanReader {
    /// Records a body that was checked.
    pub(super) fn on_traces(
        &mut self,
        context: &Context,
        recorder: &mut Recorder,
        body: &[u8],
        report: &mut OtlpReport,
    ) {
        for resource_spans in messages(body, 1) {
            let resource = messages(resource_spans, 1).last().unwrap_or_default();
            let resource = Attributes::new(resource, 1).list();
            for span in messages(resource_spans, 2).flat_map(|scope| messages(scope, 2)) {
                let span = Span::read(span, &resource);
                if let Err(reason) = self.on_span(context, recorder, &span, &mut report.stats) {
                    report.stats.spans_rejected += 1;
                    recorder.reject(reason);
                    report.on_rejected(reason, |reason| rejection_text::of_span(reason, span.name));
                }
            }
        }
    }

    fn on_span(
        &mut self,
        context: &Context,
        recorder: &mut Recorder,
        span: &Span<'_>,
        stats: &mut OtlpStats,
    ) -> Result<(), Reject> {
        let Some(rule) = context.otlp.spans.iter().find(|rule| matches(rule, span)) else {
            stats.spans_unmatched += 1;
            return Ok(());
        };

        let latency_ns = span.latency_ns()?;
        let state = &context.state;
        let id = join(state, &[span.trace_id, span.id].map(|id| hash(state, id)));

        // A producer that got no answer sends its spans again.
        if self.recent.contains(id) {
            stats.spans_repeated += 1;
            return Ok(());
        }

        let operation = match &rule.operation {
            Some(operation) => operation.clone(),
            None => to_operation(span.name)?,
        };

        let mut pairs = Pairs::default();
        pairs.add_named(&rule.labels, |key| span.attribute(key));
        if span.failed {
            pairs.add(OUTCOME.0, OUTCOME.1);
        }
        pairs.add_named(&context.otlp.resource_labels, |key| span.resource.get(key));
        let (labels, dropped) = context.labels.keep(pairs.iter());
        stats.labels.add(dropped.unwrap_or_default(), 1);
        recorder.on_latency(Series { operation, labels }, latency_ns)?;
        stats.spans_matched += 1;
        // Only now: a span that found no room may be sent again.
        self.recent.insert(id);
        Ok(())
    }
}

impl<'a> Span<'a> {
    fn read(span: &'a [u8], resource: &'a AttributeList<'a>) -> Self {
        let mut read = Self {
            trace_id: &[],
            id: &[],
            name: "",
            start: 0,
            end: 0,
            failed: false,
            attributes: Attributes::new(span, 9),
            resource,
        };

        for field in fields(span) {
            match field {
                (1, Wire::Bytes(id)) => read.trace_id = id,
                (2, Wire::Bytes(id)) => read.id = id,
                (5, Wire::Bytes(name)) => read.name = str::from_utf8(name).unwrap_or_default(),
                (7, Wire::Fixed64(nanos)) => read.start = nanos,
                (8, Wire::Fixed64(nanos)) => read.end = nanos,
                (15, Wire::Bytes(status)) => {
                    read.failed = fields(status).any(|field| field == (3, Wire::Varint(ERROR)));
                }
                _ => {}
            }
        }

        read
    }

    /// The text of an attribute of the span, or else of its resource.
    fn attribute(&self, key: &str) -> Option<Cow<'a, str>> {
        self.attributes.get(key).or_else(|| self.resource.get(key))
    }

    /// Its duration, if its times and its ids are valid.
    fn latency_ns(&self) -> Result<u64, Reject> {
        let has_id = |id: &[u8], len| id.len() == len && id.iter().any(|byte| *byte != 0);
        if !has_id(self.trace_id, TRACE_ID_BYTES) || !has_id(self.id, SPAN_ID_BYTES) {
            return Err(Reject::Shape);
        }
        if self.start == 0 || self.end == 0 {
            return Err(Reject::Timestamp);
        }
        self.end.checked_sub(self.start).ok_or(Reject::Negative)
    }
}

/// Whether a rule applies to a span.
fn matches(rule: &SpanRule, span: &Span<'_>) -> bool {
    let has_attribute = |(key, value): &(String, String)| {
        span.attribute(key).is_some_and(|found| found == value.as_str())
    };
    span.name.len() <= OTLP_NAME_BYTES_MAX
        && rule.name.matches(span.name)
        && rule.attributes.iter().all(has_attribute)
}

#[cfg(test)]
mod tests;
