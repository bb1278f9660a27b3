//! A refusal in words: which metric or span, why, and what would help. Read by whoever looks
//! after the producer, so it says what to change there or here.

use crate::limits::{OTLP_MESSAGE_BYTES_MAX, POINT_BUCKETS_MAX};

use super::figures::Kind;
use crate::core::intake::reject::Reject;

/// Bytes of a name that are repeated.
const NAME_BYTES: usize = 128;

/// Why a point of a metric was not taken.
pub(super) fn of_point(reason: Reject, name: &str, kind: Kind, unit: &str) -> String {
    let what = kind.as_str();
    let why = match reason {
        Reject::Unit if unit.is_empty() => format!(
            "this {what} says no unit of time; set the instrument's unit to s, ms, us or ns, or \
             otlp.unit here"
        ),
        Reject::Unit => format!(
            "a {what} in {unit:?} holds no latencies; set the instrument's unit to s, ms, us or \
             ns, or drop it with a view"
        ),
        Reject::Temporality => {
            format!("this {what} says no temporality; set it to delta or cumulative")
        }
        Reject::Number => format!("this {what} has no finite value"),
        other => general(other),
    };
    bounded(name, "metric", &why)
}

/// Why a span was not taken.
pub(super) fn of_span(reason: Reject, name: &str) -> String {
    let why = match reason {
        Reject::Negative => "the span ends before it begins; is the clock set back?".to_owned(),
        Reject::Timestamp => "the span says no begin or no end".to_owned(),
        Reject::Shape => "the span has no id of 16 and 8 bytes".to_owned(),
        Reject::Name => "the span's name is no operation; set otlp.span.operation here".to_owned(),
        other => general(other),
    };
    bounded(name, "span", &why)
}

fn general(reason: Reject) -> String {
    match reason {
        Reject::Name => "the name is no operation of at most 128 bytes; rename it with a view, or \
                         with otlp.operations here"
            .to_owned(),
        Reject::TooLong => "the name is too long; rename it with a view".to_owned(),
        Reject::Negative => "a latency is below zero".to_owned(),
        Reject::SeriesCap => "there are too many series; raise interval.series_max here, or drop \
                              attributes with labels.drop"
            .to_owned(),
        Reject::SamplesCap => "there are more samples than an interval counts".to_owned(),
        Reject::Duplicate => {
            "this time was taken before: it was sent twice, or two processes call \
                              themselves the same; give each a service.instance.id of its own"
                .to_owned()
        }
        Reject::OutOfOrder => "it holds before what was taken last; is the clock set back, or do \
                               two processes call themselves the same?"
            .to_owned(),
        Reject::Timestamp => "it says no time, or begins after it ends".to_owned(),
        Reject::Bounds => format!(
            "its bounds do not ascend, are not finite, or are more than {POINT_BUCKETS_MAX}"
        ),
        Reject::Counts => "its counts do not add up, or went down since its start; two processes \
                           that call themselves the same need a service.instance.id each"
            .to_owned(),
        other => format!("refused: {}", other.as_str()),
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
