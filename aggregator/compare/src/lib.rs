//! Comparison of the latencies of two runs: how far each quantile shifted, with intervals that
//! hold for samples that depend on their neighbours, and a verdict that noise does not cause.
//!
//! [`compare`] takes two [`Side`]s, which any source may fill, and returns a [`Comparison`];
//! [`compare_runs`] takes several runs a side. [`baseline`] is the file in which a side is kept;
//! [`history`] makes one of what an aggregator answers. The crate has no input or output, no clock,
//! and the same input always has the same result.
//!
//! Files, from the bottom up: `normal`, `verdict`, `side`, `runs`, `history`; `correlation` and
//! `blocks` group slots; `resample`, `grid` and `statistic` resample runs and blocks; `interval`,
//! `change`, `rate`, `figures` and `comparison` judge; `table` and `plot` show, the latter with the
//! parts of pictures in [`svg`], which reports share.

pub mod baseline;
mod blocks;
mod change;
mod comparison;
mod correlation;
mod figures;
mod grid;
pub mod history;
mod interval;
pub mod limits;
mod normal;
pub mod plot;
mod rate;
mod resample;
mod runs;
mod side;
mod statistic;
pub mod svg;
pub mod table;
mod verdict;

pub use change::Change;
pub use comparison::{
    Compared, Comparison, Extent, Options, ShareShift, Shift, compare, compare_runs,
};
pub use figures::{RunFigures, RunQuantile};
pub use rate::{ComparedRate, RunRate};
pub use runs::Named;
pub use side::{BucketLayout, Measured, MeasuredRate, RateSlot, Side, Slot};
pub use verdict::Verdict;
