//! Advice: where the time of a range of the past goes, and what is too much of it.
//!
//! Owns how sums become shares, what a rule of bottlenecks measures, and how it is judged. It reads
//! no history, keeps no state and moves no alert: a page gives it what it has read.
//!
//! Interface: [`Shares::of`] divides the time, [`bottlenecks`] judges it beside [`Counters`] and
//! [`MachineReadings`]. A rule on another kind of figure is a further `Measure`, read from a
//! further field of [`Inputs`].
//!
//! DESIGN A185, A186.

mod judge;
mod measures;
mod shares;
#[cfg(test)]
mod tests;

pub use judge::bottlenecks;
pub use measures::{
    CounterGrowth, Counters, FunctionTime, Inputs, MachineReading, MachineReadings, ProfileShares,
};
pub use shares::{MIXED, OperationSamples, Shares};
