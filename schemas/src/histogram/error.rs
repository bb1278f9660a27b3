//! Why bytes of a distribution are rejected.

use thiserror::Error;

/// Why V2 bytes were refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CodecError {
    /// Shorter than the fixed header.
    #[error("{0} bytes are too few for a V2 histogram header of 40")]
    Short(usize),
    /// Another format, or a compressed histogram.
    #[error("cookie {0:#010x} is not an uncompressed V2 histogram")]
    Cookie(u32),
    /// The payload's stated length is not the number of bytes that follow.
    #[error("header states {stated} payload bytes, but {present} follow")]
    Length {
        /// Length in the header.
        stated: u64,
        /// Bytes that follow.
        present: usize,
    },
    /// Any header field that differs from the one layout of the mesh.
    #[error("{field} differs from the mesh's layout (1 us to 1 h in ns, 3 digits)")]
    Layout {
        /// The field at fault.
        field: &'static str,
    },
    /// The payload ends inside a number.
    #[error("payload ends inside a number")]
    Truncated,
    /// Counts run past the last bucket.
    #[error("counts run past the last bucket")]
    OutOfRange,
    /// More samples than one histogram may hold.
    #[error("more samples than one histogram may hold")]
    TooMany,
}

/// Why exact figures and V2 bytes from outside were refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DistributionError {
    /// The bytes are not a histogram of the mesh.
    #[error(transparent)]
    Bytes(#[from] CodecError),
    /// An exact figure, named here, contradicts the buckets.
    #[error("{0} contradicts the buckets")]
    Contradiction(&'static str),
}
