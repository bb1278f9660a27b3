//! OpenTelemetry in: what a body of OTLP says, as points and latencies.

pub mod glob;
pub mod rules;

/// What a body tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `ExportMetricsServiceRequest`.
    Metrics,
    /// `ExportTraceServiceRequest`.
    Traces,
}

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

/// What became of a body that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Points or spans that were not taken; the rest of the body was.
    pub refused: u64,
    /// Why the first of them was not, and what would help.
    pub message: Option<String>,
}

/// A body that cannot be read: nothing of it is taken. Says what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);
