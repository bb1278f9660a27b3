//! Comparison of the latencies of two runs: how far each quantile shifted, with intervals that
//! hold for samples that depend on their neighbours, and a verdict that noise does not cause.
//!
//! [`compare`] takes two [`Side`]s, which any source may fill, and returns a [`Comparison`].
//! [`baseline`] is the file in which a side is kept; [`history`] makes one of what an aggregator
//! answers. The crate has no input or output, no clock, and the same input always has the same
//! result.
//!
//! Files, from the bottom up: `rng`, `normal`, `verdict`, `side`, `history`; `correlation` and
//! `blocks` group slots; `grid` and `statistic` resample blocks; `interval`, `change`, `rate` and
//! `comparison` judge; `table` and `plot` show, the latter with the parts of pictures in [`svg`],
//! which reports share.

pub mod baseline;
mod blocks;
mod change;
mod comparison;
mod correlation;
mod grid;
pub mod history;
mod interval;
mod normal;
pub mod plot;
mod rate;
mod side;
mod statistic;
pub mod svg;
pub mod table;
mod verdict;

pub use change::Change;
pub use comparison::{Compared, Comparison, Extent, Options, ShareShift, Shift, compare};
pub use rate::ComparedRate;
pub use side::{BucketLayout, Measured, MeasuredRate, RateSlot, Side, Slot};
pub use verdict::Verdict;
