//! pprof files: gzip-compressed Protocol Buffers, as `go tool pprof` and most viewers read them.
//!
//! [`encode`] writes what [`decode`] reads back unchanged. [`decode`] takes files of other tools
//! too, and any bytes: what is malformed or too large is an error, and nothing is allocated because
//! a file states a length. [`encode_difference`] writes what is for other tools alone.
//!
//! DESIGN S87, S89.

mod decode;
mod encode;
mod error;
mod messages;
#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::{encode, encode_difference};
pub use error::PprofError;
