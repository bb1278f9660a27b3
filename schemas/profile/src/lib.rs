//! Profiles as stacks with counts: one vocabulary for the sampler that makes them, the aggregator
//! that keeps and subtracts them, and the pages that show them.
//!
//! [`Profile`] is the model. [`pprof`] and [`folded`] are its files, read as hostile. [`merge`]
//! adds profiles, [`subtract`] compares a culprit with a peer, and [`flame`] and [`svg`] make the
//! picture of either. [`limits`] bounds all of them. The crate has no input or output and no
//! clock; the same profile always has the same bytes, tree and picture.
//!
//! Files, from the bottom up: `name`, `stack`, `labels`, `facts`, `profile`; `merge`, `difference`;
//! `pprof`, `folded`; `flame`, `svg`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod difference;
mod facts;
pub mod flame;
pub mod folded;
#[cfg(test)]
mod generated;
mod labels;
pub mod limits;
mod merge;
mod name;
pub mod pprof;
mod profile;
mod stack;
pub mod svg;

pub use difference::{Difference, FunctionDifference, Sides, SubtractError, subtract};
pub use facts::CaptureFacts;
pub use labels::{SampleLabels, ThreadState};
pub use merge::{MergeError, merge};
pub use name::Name;
pub use profile::{Profile, Sample, ValueType};
pub use stack::{Frame, GC, NATIVE, Stack, TRUNCATED, UNKNOWN, WAITING_FOR_GIL};
