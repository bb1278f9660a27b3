//! Why a request is rejected, as status and text of both protocols.
//!
//! What an SDK may send again, and what it must not, follows from the code: only where nothing
//! was recorded and another attempt may end better is it one of those that mean "again".

use std::borrow::Cow;

use crate::limits::{OTLP_BODY_BYTES_MAX, OTLP_BODY_TIMEOUT};
use axum::http::StatusCode;

/// Why nothing of a request was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no such path or method.
    Unknown,
    /// The path takes another method.
    Method,
    /// The body is in no format that is read here.
    ContentType,
    /// The body is compressed in a way that is not read here.
    ContentEncoding,
    /// The body is beyond its bound, as it is sent or inflated.
    TooLarge,
    /// The body cannot be read.
    Malformed(String),
    /// The body does not follow gRPC.
    Framing(&'static str),
    /// The body did not come in time.
    TimedOut,
    HungUp,
    /// All budget for bodies is taken.
    Busy,
    Leaving,
    /// The spool takes too long to note what is recorded.
    SlowSpool,
}

impl Refusal {
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Unknown | Self::Method => "unknown",
            Self::ContentType | Self::ContentEncoding => "unsupported",
            Self::TooLarge => "too_large",
            Self::Malformed(_) | Self::Framing(_) => "malformed",
            Self::TimedOut => "late",
            Self::HungUp => "hung_up",
            Self::Busy => "busy",
            Self::Leaving => "leaving",
            Self::SlowSpool => "slow_spool",
        }
    }

    /// True when the same request may be taken later.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Busy | Self::Leaving | Self::SlowSpool)
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentType | Self::ContentEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Malformed(_) | Self::Framing(_) | Self::HungUp => StatusCode::BAD_REQUEST,
            Self::TimedOut => StatusCode::REQUEST_TIMEOUT,
            Self::Busy | Self::Leaving | Self::SlowSpool => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The code of `google.rpc.Code`, which is gRPC's.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::HungUp => 1,
            Self::Malformed(_) | Self::ContentType => 3,
            Self::TimedOut => 4,
            Self::TooLarge => 8,
            Self::Unknown | Self::Method | Self::ContentEncoding => 12,
            Self::Framing(_) => 13,
            Self::Busy | Self::Leaving | Self::SlowSpool => 14,
        }
    }

    /// What was wrong and what would help.
    pub(super) fn words(&self) -> Cow<'static, str> {
        match self {
            Self::Unknown => "unknown path: this node accepts OTLP metrics and traces only".into(),
            Self::Method => "method not allowed: use POST".into(),
            Self::ContentType => {
                "content-type must be application/x-protobuf or application/json".into()
            }
            Self::ContentEncoding => "content-encoding must be gzip or identity".into(),
            Self::TooLarge => format!(
                "the body has more than {OTLP_BODY_BYTES_MAX} bytes; export smaller batches"
            )
            .into(),
            Self::Malformed(words) => words.clone().into(),
            Self::Framing(words) => (*words).into(),
            Self::TimedOut => {
                format!("the body was not complete within {} s", OTLP_BODY_TIMEOUT.as_secs()).into()
            }
            Self::HungUp => "the body is incomplete".into(),
            Self::Busy => "no memory for the body at the moment; retry".into(),
            Self::Leaving => "this node is shutting down; retry".into(),
            Self::SlowSpool => "the node's spool is slow; check its disk, and retry".into(),
        }
    }
}
