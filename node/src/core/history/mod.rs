//! The node's own past, as bytes and as decisions: records of sealed messages, which segments of
//! them there are, and what a request for a range gets from them. `io::history` owns the files.
//!
//! ```text
//! segment   first bytes, then records in the order in which messages were sealed
//! record    bytes of the message u32 | CRC-32 of the rest u32 | end of the interval u64 |
//!           its length u64 | kind u8 | message      (little endian, times in nanoseconds)
//! name      <number>-<end of the earliest interval>-<end of the latest>.segment; open.segment
//! ```
//!
//! DESIGN N66.

mod answer;
mod record;
mod segments;

pub use answer::Answering;
pub use record::{Record, SEGMENT_BEGIN, scan};
pub use segments::{HistoryBounds, IntervalEnds, Plan, Segment, Segments};
