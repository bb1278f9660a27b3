//! pprof files: gzip-compressed Protocol Buffers, as `go tool pprof` and most viewers read them.
//!
//! [`encode`] writes what [`decode`] reads back unchanged. [`decode`] takes files of other tools
//! too, and any bytes: what is malformed or too large is an error, and nothing is allocated because
//! a file states a length.
//!
//! DESIGN S87, S89.

mod decode;
mod encode;
mod messages;
#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::encode;

use thiserror::Error;

/// Why bytes are no profile, or a profile no file.
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

fn within(what: &'static str, n: usize, max: usize) -> Result<(), PprofError> {
    if n > max { Err(PprofError::TooLarge { what, max }) } else { Ok(()) }
}
