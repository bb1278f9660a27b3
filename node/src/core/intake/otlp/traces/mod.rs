//! `ExportTraceServiceRequest` as latencies: the spans that a rule names, once each. A span is
//! one sample, known to the nanosecond; whatever no rule names is counted and no more.

use std::borrow::Cow;

use crate::limits::OTLP_NAME_BYTES_MAX;
use plimsoll_schemas::ids::Series;

use super::attributes::{Attributes, Listed, Pairs, hash, join};
use super::protobuf::{Wire, fields, messages};
use super::rules::SpanRule;
use super::{Otlp, Outcome, fit_operation, words};
use crate::core::intake::Intake;
use crate::core::intake::reject::Reject;

/// The label that says how a span ended, and what it says of one that failed.
const OUTCOME: (&str, &str) = ("outcome", "error");
/// The status code of a span that failed.
const ERROR: u64 = 2;
const TRACE_ID_BYTES: usize = 16;
const SPAN_ID_BYTES: usize = 8;

/// One span, as it stands in the body.
#[derive(Clone, Copy)]
struct Span<'a> {
    trace_id: &'a [u8],
    id: &'a [u8],
    name: &'a str,
    /// Nanoseconds since 1970; zero where nobody says.
    start: u64,
    end: u64,
    failed: bool,
    attributes: Attributes<'a>,
    resource: &'a Listed<'a>,
}

impl Otlp {
    /// Takes a body that was checked.
    pub(super) fn on_traces(&mut self, intake: &mut Intake, body: &[u8]) -> Outcome {
        let mut outcome = Outcome::default();
        for resource_spans in messages(body, 1) {
            let resource = messages(resource_spans, 1).last().unwrap_or_default();
            let resource = Attributes::new(resource, 1).list();
            for span in messages(resource_spans, 2).flat_map(|scope| messages(scope, 2)) {
                let span = Span::read(span, &resource);
                let taken = self.on_span(intake, &span);
                if let Err(reason) = taken {
                    self.figures.spans_refused += 1;
                    intake.reject(reason);
                }
                self.on_item(&mut outcome, taken, |reason| words::of_span(reason, span.name));
            }
        }
        outcome
    }

    fn on_span(&mut self, intake: &mut Intake, span: &Span<'_>) -> Result<(), Reject> {
        let Some(rule) = self.rules.otlp.spans.iter().find(|rule| rule.fits(span)) else {
            self.figures.spans_unmatched += 1;
            return Ok(());
        };
        let latency_ns = span.latency_ns()?;
        let id = join(&self.state, &[span.trace_id, span.id].map(|id| hash(&self.state, id)));
        if self.seen.holds(id) {
            self.figures.spans_repeated += 1;
            return Ok(());
        }
        let operation = match &rule.operation {
            Some(operation) => operation.clone(),
            None => fit_operation(span.name)?,
        };
        let mut pairs = Pairs::default();
        pairs.add_named(&rule.labels, |key| span.said(key));
        if span.failed {
            pairs.add(OUTCOME.0, OUTCOME.1);
        }
        pairs.add_named(&self.rules.otlp.resource_labels, |key| span.resource.get(key));
        let (labels, figures) = self.rules.labels.keep(pairs.iter());
        self.figures.labels.add(figures.unwrap_or_default(), 1);
        intake.on_latency(Series { operation, labels }, latency_ns)?;
        self.figures.spans_matched += 1;
        self.seen.remember(id);
        Ok(())
    }
}

impl Intake {
    /// One latency of a series, known exactly.
    fn on_latency(&mut self, series: Series, ns: u64) -> Result<(), Reject> {
        let admitted = self.interval.record_one(series, ns)?;
        self.figures.overflowed += u64::from(admitted.folded);
        self.on_admitted(admitted, 1);
        Ok(())
    }
}

impl<'a> Span<'a> {
    fn read(span: &'a [u8], resource: &'a Listed<'a>) -> Self {
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

    /// What it says of itself, or else its producer of all.
    fn said(&self, key: &str) -> Option<Cow<'a, str>> {
        self.attributes.get(key).or_else(|| self.resource.get(key))
    }

    /// What it took, where it says so and can be known again.
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

impl SpanRule {
    fn fits(&self, span: &Span<'_>) -> bool {
        let is_so = |(key, value): &(String, String)| {
            span.said(key).is_some_and(|said| said == value.as_str())
        };
        span.name.len() <= OTLP_NAME_BYTES_MAX
            && self.name.matches(span.name)
            && self.attributes.iter().all(is_so)
    }
}

#[cfg(test)]
mod tests;
