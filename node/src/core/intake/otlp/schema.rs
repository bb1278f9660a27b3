//! The messages of OTLP that are read: numbers, names in JSON and kinds of their fields, as in
//! opentelemetry-proto 1. Exemplars, events, links, metadata and whatever a later version adds
//! are not here: they are passed over.

use FieldKind::Message as Of;
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

/// Makes a static of each message: its name here, whether requests are lists of it (`item`) or not
/// (`group`), what an error calls it, and its fields: number, name in JSON, `one` or `many`, kind.
macro_rules! messages {
    ($($message:ident: $role:ident $name:literal {
        $($number:literal $field:ident $shape:ident $kind:expr),* $(,)?
    })*) => {
        $(pub(super) static $message: Message =
            $role($name, &[$($shape($number, stringify!($field), $kind)),*]);)*
    };
}

// `METRICS` is `ExportMetricsServiceRequest`, `TRACES` is `ExportTraceServiceRequest`.
messages! {
    METRICS: group "metrics request" { 1 resourceMetrics many Of(&RESOURCE_METRICS) }
    TRACES: group "trace request" { 1 resourceSpans many Of(&RESOURCE_SPANS) }

    RESOURCE_METRICS: group "resource metrics" {
        1 resource one Of(&RESOURCE), 2 scopeMetrics many Of(&SCOPE_METRICS),
    }
    SCOPE_METRICS: group "scope metrics" { 1 scope one Of(&SCOPE), 2 metrics many Of(&METRIC) }
    RESOURCE: group "resource" { 1 attributes many Of(&KEY_VALUE) }
    SCOPE: group "scope" { 1 name one Text, 2 version one Text, 3 attributes many Of(&KEY_VALUE) }

    KEY_VALUE: group "attribute" { 1 key one Text, 2 value one Of(&ANY_VALUE) }
    ANY_VALUE: group "value" {
        1 stringValue one Text, 2 boolValue one Bool, 3 intValue one Int64,
        4 doubleValue one Double, 5 arrayValue one Of(&ARRAY), 6 kvlistValue one Of(&KEY_VALUES),
        7 bytesValue one Bytes,
    }
    ARRAY: group "array" { 1 values many Of(&ANY_VALUE) }
    KEY_VALUES: group "map" { 1 values many Of(&KEY_VALUE) }

    METRIC: group "metric" {
        1 name one Text, 3 unit one Text,
        5 gauge one Of(&GAUGE), 7 sum one Of(&SUM), 9 histogram one Of(&HISTOGRAM),
        10 exponentialHistogram one Of(&EXPONENTIAL), 11 summary one Of(&SUMMARY),
    }
    GAUGE: group "gauge" { 1 dataPoints many Of(&NUMBER_POINT) }
    SUM: group "sum" {
        1 dataPoints many Of(&NUMBER_POINT), 2 aggregationTemporality one Enum,
        3 isMonotonic one Bool,
    }
    HISTOGRAM: group "histogram" {
        1 dataPoints many Of(&HISTOGRAM_POINT), 2 aggregationTemporality one Enum,
    }
    EXPONENTIAL: group "exponential histogram" {
        1 dataPoints many Of(&EXPONENTIAL_POINT), 2 aggregationTemporality one Enum,
    }
    SUMMARY: group "summary" { 1 dataPoints many Of(&SUMMARY_POINT) }

    NUMBER_POINT: item "number point" {
        2 startTimeUnixNano one Fixed64, 3 timeUnixNano one Fixed64, 4 asDouble one Double,
        6 asInt one Sfixed64, 7 attributes many Of(&KEY_VALUE), 8 flags one Uint,
    }
    HISTOGRAM_POINT: item "histogram point" {
        2 startTimeUnixNano one Fixed64, 3 timeUnixNano one Fixed64, 4 count one Fixed64,
        5 sum one Double, 6 bucketCounts many Fixed64, 7 explicitBounds many Double,
        9 attributes many Of(&KEY_VALUE), 10 flags one Uint, 11 min one Double, 12 max one Double,
    }
    EXPONENTIAL_POINT: item "exponential histogram point" {
        1 attributes many Of(&KEY_VALUE), 2 startTimeUnixNano one Fixed64,
        3 timeUnixNano one Fixed64, 4 count one Fixed64, 5 sum one Double, 6 scale one Sint32,
        7 zeroCount one Fixed64, 8 positive one Of(&BUCKETS), 9 negative one Of(&BUCKETS),
        10 flags one Uint, 12 min one Double, 13 max one Double, 14 zeroThreshold one Double,
    }
    BUCKETS: group "buckets" { 1 offset one Sint32, 2 bucketCounts many Uint }
    SUMMARY_POINT: item "summary point" {
        2 startTimeUnixNano one Fixed64, 3 timeUnixNano one Fixed64, 4 count one Fixed64,
        5 sum one Double, 6 quantileValues many Of(&QUANTILE), 7 attributes many Of(&KEY_VALUE),
        8 flags one Uint,
    }
    QUANTILE: group "quantile" { 1 quantile one Double, 2 value one Double }

    RESOURCE_SPANS: group "resource spans" {
        1 resource one Of(&RESOURCE), 2 scopeSpans many Of(&SCOPE_SPANS),
    }
    SCOPE_SPANS: group "scope spans" { 2 spans many Of(&SPAN) }
    SPAN: item "span" {
        1 traceId one Id, 2 spanId one Id, 5 name one Text, 7 startTimeUnixNano one Fixed64,
        8 endTimeUnixNano one Fixed64, 9 attributes many Of(&KEY_VALUE), 15 status one Of(&STATUS),
    }
    STATUS: group "status" { 3 code one Enum }
}
