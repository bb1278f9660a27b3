//! Profiles as stacks with counts: one vocabulary for the sampler that makes them, the aggregator
//! that keeps and subtracts them, and the pages that show them.
//!
//! [`Profile`] is the model. [`pprof`] are its files, read as hostile, and [`folded`] its stacks as
//! text. [`merge`] adds profiles, [`subtract`] compares a culprit with a peer, and [`flame`] and
//! [`svg`] make the picture of either. [`limits`] bounds all of them. The crate has no input or
//! output and no clock; the same profile always has the same bytes, tree and picture.
//!
//! Files, from the bottom up: `name`, `stack`, `labels`, `profile`; `merge`, `difference`;
//! `pprof`, `folded`; `flame`, `svg`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod difference;
pub mod flame;
pub mod folded;
mod labels;
pub mod limits;
mod merge;
mod name;
pub mod pprof;
mod profile;
mod stack;
pub mod svg;
#[cfg(test)]
mod tests;

pub use difference::{Difference, FunctionDifference, MixError, Sides, subtract};
pub use labels::{SampleLabels, ThreadState};
pub use merge::merge;
pub use name::Name;
pub use profile::{Profile, Sample, ValueType};
pub use stack::{Frame, Stack, WAITING_FOR_GIL};
