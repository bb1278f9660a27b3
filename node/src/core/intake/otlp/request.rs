//! One OTLP request: what it carries, how it is encoded, and what its producer gets as an answer.

use crate::limits::OTLP_MESSAGE_BYTES_MAX;

/// The content of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `ExportMetricsServiceRequest`.
    Metrics,
    /// `ExportTraceServiceRequest`.
    Traces,
}

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

/// The outcome of a body that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Points or spans that were rejected; the rest of the body was recorded.
    pub refused: u64,
    /// Why the first of them was rejected, and a fix.
    pub message: Option<String>,
}

/// A body that cannot be read, and why; nothing of it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl Malformed {
    pub(super) fn new(message_name: &str, fault: &dyn ToString) -> Self {
        let mut text = format!("{message_name}: {}", fault.to_string());
        text.truncate(text.floor_char_boundary(OTLP_MESSAGE_BYTES_MAX));
        Self(text)
    }
}
