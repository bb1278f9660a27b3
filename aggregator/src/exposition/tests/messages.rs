//! `io.prometheus.client` messages as `prost` decodes them: numbers and types of their fields are
//! those of Prometheus' `metrics.proto`.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricFamily {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) help: String,
    #[prost(int32, tag = "3")]
    pub(super) kind: i32,
    #[prost(message, repeated, tag = "4")]
    pub(super) metric: Vec<Metric>,
    #[prost(string, tag = "5")]
    pub(super) unit: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub(super) label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    pub(super) gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    pub(super) counter: Option<Number>,
    #[prost(message, optional, tag = "5")]
    pub(super) untyped: Option<Number>,
    #[prost(message, optional, tag = "7")]
    pub(super) histogram: Option<NativeHistogram>,
}

impl Metric {
    pub(super) fn value(&self) -> Option<f64> {
        let numbers = [&self.gauge, &self.counter, &self.untyped];
        numbers.into_iter().flatten().next().map(|number| number.value)
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LabelPair {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Number {
    #[prost(double, tag = "1")]
    pub(super) value: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NativeHistogram {
    #[prost(uint64, tag = "1")]
    pub(super) sample_count: u64,
    #[prost(double, tag = "2")]
    pub(super) sample_sum: f64,
    #[prost(message, repeated, tag = "3")]
    pub(super) bucket: Vec<Bucket>,
    #[prost(sint32, tag = "5")]
    pub(super) schema: i32,
    #[prost(double, tag = "6")]
    pub(super) zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    pub(super) zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    pub(super) positive_span: Vec<Span>,
    #[prost(sint64, repeated, tag = "13")]
    pub(super) positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bucket {
    #[prost(uint64, tag = "1")]
    pub(super) cumulative_count: u64,
    #[prost(double, tag = "2")]
    pub(super) upper_bound: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Span {
    #[prost(sint32, tag = "1")]
    pub(super) offset: i32,
    #[prost(uint32, tag = "2")]
    pub(super) length: u32,
}
