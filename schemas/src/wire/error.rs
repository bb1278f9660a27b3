//! Why bytes from the bus were refused; each variant has a stable reason for the counter.

use thiserror::Error;

use crate::histogram::codec::CodecError;
use crate::ids::IdError;

/// The schema number that this version writes and reads.
pub const SCHEMA: u16 = 1;

/// A message that cannot be merged.
#[derive(Debug, Error, PartialEq)]
pub enum WireError {
    /// Larger than any message of this version.
    #[error("{bytes} bytes, more than {max}")]
    TooLarge {
        /// Size of the payload.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// Not MessagePack of the expected shape.
    #[error("not a snapshot: {0}")]
    Shape(String),
    /// A version that this reader does not support.
    #[error("schema {0} is not {schema}", schema = SCHEMA)]
    Schema(u16),
    /// Bytes after the end of the map.
    #[error("{0} bytes after the end")]
    Trailing(usize),
    /// The payload names another node than the subject.
    #[error("payload of node {payload} under the subject of node {subject}")]
    Node {
        /// Node in the payload.
        payload: String,
        /// Node in the subject.
        subject: String,
    },
    /// The payload's kind differs from the subject's.
    #[error("payload of kind {payload} under a subject of kind {subject}")]
    Kind {
        /// Kind in the payload.
        payload: String,
        /// Kind in the subject.
        subject: &'static str,
    },
    /// A header or body field out of its bounds.
    #[error("{field} is out of bounds")]
    Bounds {
        /// The field at fault.
        field: &'static str,
    },
    /// An invalid name.
    #[error(transparent)]
    Name(#[from] IdError),
    /// A number that is not finite.
    #[error("{field} is not a finite number")]
    NotFinite {
        /// The field at fault.
        field: &'static str,
    },
    /// The HDR bytes are no histogram of ours.
    #[error("histogram of {series}: {source}")]
    Histogram {
        /// The series of the histogram.
        series: String,
        /// What is wrong with it.
        source: CodecError,
    },
    /// The exact figures contradict the bucket counts.
    #[error("histogram of {series}: {figure} contradicts the bucket counts")]
    Contradiction {
        /// The series of the histogram.
        series: String,
        /// `count`, `min`, `max`, `sum` or `over`.
        figure: &'static str,
    },
    /// The same series twice in one message.
    #[error("series {0} occurs twice in one message")]
    DuplicateSeries(String),
}

impl WireError {
    /// A bounded label for counters.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Shape(_) => "shape",
            Self::Schema(_) => "schema",
            Self::Trailing(_) => "trailing",
            Self::Node { .. } => "node",
            Self::Kind { .. } => "kind",
            Self::Bounds { .. } => "bounds",
            Self::Name(_) => "name",
            Self::NotFinite { .. } => "not_finite",
            Self::Histogram { .. } => "histogram",
            Self::Contradiction { .. } => "contradiction",
            Self::DuplicateSeries(_) => "duplicate_series",
        }
    }
}
