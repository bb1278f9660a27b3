//! Counts of requests and connections of both ports.

use std::collections::BTreeMap;

use plimsoll_runtime::http;

use super::refusal::Refusal;
use crate::core::intake::otlp::{Outcome, Signal};

#[derive(Clone, Debug)]
pub struct OtlpStats {
    /// Connections by port: `http`, `grpc`.
    pub connections: Vec<(&'static str, http::ServerStats)>,
    pub requests: RequestStats,
}

#[derive(Clone, Debug, Default)]
pub struct RequestStats {
    /// How many ended in which way.
    pub endings: BTreeMap<(RequestSource, RequestOutcome), u64>,
    /// Bytes of bodies that came in full.
    pub volumes: BTreeMap<RequestSource, BodyBytes>,
    /// Bytes that bodies take now.
    pub buffered_bytes: usize,
}

/// Protocol and signal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestSource {
    /// `http` or `grpc`.
    pub protocol: &'static str,
    /// `metrics`, `traces`, or `none` for an unknown path.
    pub signal: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestOutcome {
    /// All of it was taken.
    Taken,
    /// Some of its points or spans were refused.
    Partial,
    /// Nothing of it was taken, for this reason.
    Refused(&'static str),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyBytes {
    pub sent: u64,
    pub inflated: u64,
}

impl RequestSource {
    pub(super) fn of(protocol: &'static str, signal: Option<Signal>) -> Self {
        let signal = match signal {
            Some(Signal::Metrics) => "metrics",
            Some(Signal::Traces) => "traces",
            None => "none",
        };
        Self { protocol, signal }
    }
}

impl RequestOutcome {
    pub(super) fn of(outcome: &Result<Outcome, Refusal>) -> Self {
        match outcome {
            Ok(Outcome { refused: 0, .. }) => Self::Taken,
            Ok(_) => Self::Partial,
            Err(refusal) => Self::Refused(refusal.as_str()),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Partial => "partial",
            Self::Refused(reason) => reason,
        }
    }
}
