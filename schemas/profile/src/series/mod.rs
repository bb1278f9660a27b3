//! Profiles of the past: a segment is a file to which profiles are appended one by one, all of
//! which share one table each of texts, frames, stacks and labels.
//!
//! A record has what is new in the tables, then a count for each stack with its labels. Stacks are
//! a tree: an entry is a frame below another entry. [`Writer`] makes records, [`Sum`] adds those of
//! a range up by the numbers of their stacks, so that no text is read twice. Segments are read as
//! hostile: up to the first record that is torn or damaged, and one of another version not at all.
//!
//! DESIGN S93.

mod limits;
mod record;
mod sum;
#[cfg(test)]
mod tests;
mod writer;

pub use record::{RecordHead, SEGMENT_BEGIN, heads};
pub use sum::{Past, PastQuery, Sum, encode_within};
pub use writer::{Writer, WriterError};
