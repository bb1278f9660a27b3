//! Interval logs (`.hlog`), the format in which HdrHistogram tools keep latencies over time: each
//! line has the histogram of one operation over one interval.
//!
//! The tag of a line is its operation, or `operation;node=NAME`. A line without a tag belongs to
//! the operation `untagged`. Values are nanoseconds unless a comment `#[Unit: us]` or the caller
//! states another unit. The file is hostile: every length is bounded, and each error has its line.
//!
//! DESIGN A80.

mod histogram;
mod read;
mod tag;
#[cfg(test)]
mod tests;
mod unit;
mod write;

pub use histogram::HistogramError;
pub use read::{LineError, Log, LogError, read};
pub use unit::Unit;
pub use write::write;
