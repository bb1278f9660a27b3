//! Bounds of a comparison.

/// Runs of a side. Each is read and resampled: sixteen take some 30 MB and seconds, and a
/// seventeenth narrows an interval by 3 %.
pub const RUNS_MAX: usize = 16;
/// Runs of a side from which what runs differ by is known: of two, their variance is one number,
/// and the interval of a mean reaches thirteen standard errors to each side.
pub(crate) const RUNS_MIN: usize = 3;
/// Counters of one side.
pub(crate) const RATES_MAX: usize = 128;
/// Values of a label that are compared as arms: each with the first.
pub const ARMS_MAX: usize = 8;
