//! Why bytes are no profile, or a profile no file.

use thiserror::Error;

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PprofError {
    /// More than a file may have.
    #[error("more than {max} {what}")]
    TooLarge {
        /// Of what: bytes, strings, samples.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// Damaged gzip.
    #[error("gzip: {0}")]
    Gzip(String),
    /// Not Protocol Buffers, or entries that do not belong together.
    #[error("{0}")]
    Malformed(String),
    /// A value below zero.
    #[error("a sample has the value {0}: open a profile, not a difference of two")]
    Negative(i64),
}

pub(super) fn within(what: &'static str, n: usize, max: usize) -> Result<(), PprofError> {
    if n > max { Err(PprofError::TooLarge { what, max }) } else { Ok(()) }
}
