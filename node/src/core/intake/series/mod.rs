//! The series of the open interval and what each collected.
//!
//! `Interval` owns the slots, `SeriesCache` finds the slot of a line by its bytes,
//! [`LabelRules`] decide which tags become labels. Takes parsed values only; refuses to parse
//! text, and never rejects a latency or a counter because of too many series: those are folded
//! into the series [`OVERFLOW`].

mod cache;
mod interval;
mod labels;
mod limits;
mod slot;
mod sources;

pub(super) use cache::{CachedSeries, SeriesCache};
pub use interval::OVERFLOW;
pub(super) use interval::{Interval, RecordCounts, SlotRef};
pub(super) use labels::LineLabelStats;
pub use labels::{CONTAINER, LabelRules, LabelStats};
pub(super) use slot::SeriesType;
