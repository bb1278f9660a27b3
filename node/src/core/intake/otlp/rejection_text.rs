//! The text of a rejection for the operator of a producer: which metric or span, why, and what to
//! change there or in this node's configuration.

use crate::limits::{OTLP_MESSAGE_BYTES_MAX, POINT_BUCKETS_MAX};

use super::stats::MetricKind;
use crate::core::intake::reject::Reject;

/// Bytes of a name that are quoted.
const NAME_BYTES: usize = 128;

/// Why a point was rejected.
pub(super) fn of_point(reason: Reject, name: &str, kind: MetricKind, unit: &str) -> String {
    let what = kind.as_str();
    let why = match reason {
        Reject::Unit if unit.is_empty() => format!(
            "this {what} has no unit; set the instrument's unit to s, ms, us, ns, By or 1, or \
             otlp.unit here"
        ),
        Reject::Unit => format!(
            "a {what} in {unit:?} has no known unit, or its name ends with another one; set the \
             instrument's unit to s, ms, us, ns, By or 1, or drop it with a view"
        ),
        Reject::Temporality => {
            format!("this {what} has no temporality; set it to delta or cumulative")
        }
        Reject::Number => format!("this {what} has no finite value"),
        other => general(other),
    };

    bounded(name, "metric", &why)
}

/// Why a span was rejected.
pub(super) fn of_span(reason: Reject, name: &str) -> String {
    let why = match reason {
        Reject::Negative => "the span ends before it starts; was the clock set back?".to_owned(),
        Reject::Timestamp => "the span has no start or no end".to_owned(),
        Reject::Shape => "the trace id must have 16 bytes and the span id 8".to_owned(),
        Reject::Name => {
            "the span's name is not a valid operation; set otlp.span.operation here".to_owned()
        }
        other => general(other),
    };
    bounded(name, "span", &why)
}

fn general(reason: Reject) -> String {
    match reason {
        Reject::Name => "the name is not a valid operation of at most 128 bytes; rename it with a \
                         view, or with otlp.operations here"
            .to_owned(),
        Reject::Reserved => "the mesh records its own latencies under this name; rename it with a \
                             view, or with otlp.operations here"
            .to_owned(),
        Reject::TooLong => "the name is too long; rename it with a view".to_owned(),
        Reject::Negative => "a latency is below zero".to_owned(),
        Reject::SeriesCap => "there are too many series; raise interval.series_max here, or drop \
                              attributes with labels.drop"
            .to_owned(),
        Reject::SamplesCap => "there are more samples than an interval counts".to_owned(),
        Reject::Duplicate => {
            "this time was recorded before: it was sent twice, or two processes share an \
             identity; give each its own service.instance.id"
                .to_owned()
        }
        Reject::OutOfOrder => {
            "it is older than the last recorded point; was the clock set back, or do \
                               two processes share an identity?"
                .to_owned()
        }
        Reject::Timestamp => "it has no time, or starts after it ends".to_owned(),
        Reject::Bounds => format!(
            "its bounds do not ascend, are not finite, or are more than {POINT_BUCKETS_MAX}"
        ),
        Reject::Counts => {
            "its counts do not add up, or decreased without a restart; two processes \
                           that share an identity need a service.instance.id each"
                .to_owned()
        }
        Reject::Unit => {
            "its name ends with :ps, :bytes or :count, which is no latency; rename it, or \
                         set otlp.span.operation here"
                .to_owned()
        }
        other => format!("rejected: {}", other.as_str()),
    }
}

fn bounded(name: &str, what: &str, why: &str) -> String {
    let name = match name {
        "" => "without a name",
        name => &name[..name.floor_char_boundary(NAME_BYTES)],
    };
    let mut text = format!("{what} {name}: {why}");
    text.truncate(text.floor_char_boundary(OTLP_MESSAGE_BYTES_MAX));
    text
}
