//! The messages of OTLP that are read: numbers, names in JSON and kinds of their fields, as in
//! opentelemetry-proto 1. Exemplars, events, links, metadata and whatever a later version adds
//! are not here: they are passed over.

use FieldKind::{Bool, Bytes, Double, Enum, Fixed64, Id, Int64, Sfixed64, Sint32, Text, Uint};

#[derive(Debug)]
pub(super) struct Message {
    /// What an error calls it.
    pub(super) name: &'static str,
    /// True for what a request is a list of: points and spans.
    pub(super) is_item: bool,
    pub(super) fields: &'static [Field],
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// Its name in JSON.
    pub(super) name: &'static str,
    pub(super) kind: FieldKind,
    /// True for a list.
    pub(super) is_many: bool,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldKind {
    Message(&'static Message),
    Text,
    /// Base64 in JSON.
    Bytes,
    Id,
    Double,
    Fixed64,
    Sfixed64,
    /// `uint32` and `uint64`.
    Uint,
    Int64,
    Sint32,
    Bool,
    /// A number in JSON too.
    Enum,
}

impl Message {
    pub(super) fn field(&self, number: u32) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.number == number)
    }

    pub(super) fn named(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

const fn group(name: &'static str, fields: &'static [Field]) -> Message {
    Message { name, is_item: false, fields }
}

const fn item(name: &'static str, fields: &'static [Field]) -> Message {
    Message { name, is_item: true, fields }
}

const fn one(number: u32, name: &'static str, kind: FieldKind) -> Field {
    Field { number, name, kind, is_many: false }
}

const fn many(number: u32, name: &'static str, kind: FieldKind) -> Field {
    Field { number, name, kind, is_many: true }
}

const fn message(number: u32, name: &'static str, of: &'static Message) -> Field {
    one(number, name, FieldKind::Message(of))
}

const fn list(number: u32, name: &'static str, of: &'static Message) -> Field {
    many(number, name, FieldKind::Message(of))
}

/// `ExportMetricsServiceRequest`.
pub(super) static METRICS: Message =
    group("metrics request", &[list(1, "resourceMetrics", &RESOURCE_METRICS)]);
/// `ExportTraceServiceRequest`.
pub(super) static TRACES: Message =
    group("trace request", &[list(1, "resourceSpans", &RESOURCE_SPANS)]);

static RESOURCE_METRICS: Message = group(
    "resource metrics",
    &[message(1, "resource", &RESOURCE), list(2, "scopeMetrics", &SCOPE_METRICS)],
);
static SCOPE_METRICS: Message =
    group("scope metrics", &[message(1, "scope", &SCOPE), list(2, "metrics", &METRIC)]);
static RESOURCE: Message = group("resource", &[list(1, "attributes", &KEY_VALUE)]);
static SCOPE: Message = group(
    "scope",
    &[one(1, "name", Text), one(2, "version", Text), list(3, "attributes", &KEY_VALUE)],
);

static KEY_VALUE: Message =
    group("attribute", &[one(1, "key", Text), message(2, "value", &ANY_VALUE)]);
static ANY_VALUE: Message = group(
    "value",
    &[
        one(1, "stringValue", Text),
        one(2, "boolValue", Bool),
        one(3, "intValue", Int64),
        one(4, "doubleValue", Double),
        message(5, "arrayValue", &ARRAY),
        message(6, "kvlistValue", &KEY_VALUES),
        one(7, "bytesValue", Bytes),
    ],
);
static ARRAY: Message = group("array", &[list(1, "values", &ANY_VALUE)]);
static KEY_VALUES: Message = group("map", &[list(1, "values", &KEY_VALUE)]);

static METRIC: Message = group(
    "metric",
    &[
        one(1, "name", Text),
        one(3, "unit", Text),
        message(5, "gauge", &GAUGE),
        message(7, "sum", &SUM),
        message(9, "histogram", &HISTOGRAM),
        message(10, "exponentialHistogram", &EXPONENTIAL),
        message(11, "summary", &SUMMARY),
    ],
);
static GAUGE: Message = group("gauge", &[list(1, "dataPoints", &NUMBER_POINT)]);
static SUM: Message = group(
    "sum",
    &[
        list(1, "dataPoints", &NUMBER_POINT),
        one(2, "aggregationTemporality", Enum),
        one(3, "isMonotonic", Bool),
    ],
);
static HISTOGRAM: Message = group(
    "histogram",
    &[list(1, "dataPoints", &HISTOGRAM_POINT), one(2, "aggregationTemporality", Enum)],
);
static EXPONENTIAL: Message = group(
    "exponential histogram",
    &[list(1, "dataPoints", &EXPONENTIAL_POINT), one(2, "aggregationTemporality", Enum)],
);
static SUMMARY: Message = group("summary", &[list(1, "dataPoints", &SUMMARY_POINT)]);

static NUMBER_POINT: Message = item(
    "number point",
    &[
        one(2, "startTimeUnixNano", Fixed64),
        one(3, "timeUnixNano", Fixed64),
        one(4, "asDouble", Double),
        one(6, "asInt", Sfixed64),
        list(7, "attributes", &KEY_VALUE),
        one(8, "flags", Uint),
    ],
);
static HISTOGRAM_POINT: Message = item(
    "histogram point",
    &[
        one(2, "startTimeUnixNano", Fixed64),
        one(3, "timeUnixNano", Fixed64),
        one(4, "count", Fixed64),
        one(5, "sum", Double),
        many(6, "bucketCounts", Fixed64),
        many(7, "explicitBounds", Double),
        list(9, "attributes", &KEY_VALUE),
        one(10, "flags", Uint),
        one(11, "min", Double),
        one(12, "max", Double),
    ],
);
static EXPONENTIAL_POINT: Message = item(
    "exponential histogram point",
    &[
        list(1, "attributes", &KEY_VALUE),
        one(2, "startTimeUnixNano", Fixed64),
        one(3, "timeUnixNano", Fixed64),
        one(4, "count", Fixed64),
        one(5, "sum", Double),
        one(6, "scale", Sint32),
        one(7, "zeroCount", Fixed64),
        message(8, "positive", &BUCKETS),
        message(9, "negative", &BUCKETS),
        one(10, "flags", Uint),
        one(12, "min", Double),
        one(13, "max", Double),
        one(14, "zeroThreshold", Double),
    ],
);
static BUCKETS: Message =
    group("buckets", &[one(1, "offset", Sint32), many(2, "bucketCounts", Uint)]);
static SUMMARY_POINT: Message = item(
    "summary point",
    &[
        one(2, "startTimeUnixNano", Fixed64),
        one(3, "timeUnixNano", Fixed64),
        one(4, "count", Fixed64),
        one(5, "sum", Double),
        list(6, "quantileValues", &QUANTILE),
        list(7, "attributes", &KEY_VALUE),
        one(8, "flags", Uint),
    ],
);
static QUANTILE: Message =
    group("quantile", &[one(1, "quantile", Double), one(2, "value", Double)]);

static RESOURCE_SPANS: Message = group(
    "resource spans",
    &[message(1, "resource", &RESOURCE), list(2, "scopeSpans", &SCOPE_SPANS)],
);
static SCOPE_SPANS: Message = group("scope spans", &[list(2, "spans", &SPAN)]);
static SPAN: Message = item(
    "span",
    &[
        one(1, "traceId", Id),
        one(2, "spanId", Id),
        one(5, "name", Text),
        one(7, "startTimeUnixNano", Fixed64),
        one(8, "endTimeUnixNano", Fixed64),
        list(9, "attributes", &KEY_VALUE),
        message(15, "status", &STATUS),
    ],
);
static STATUS: Message = group("status", &[one(3, "code", Enum)]);
