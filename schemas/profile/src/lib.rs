//! Profiles as stacks with counts: one vocabulary for the sampler that makes them, the aggregator
//! that keeps and subtracts them, and the pages that show them.
//!
//! [`Profile`] is the model. [`pprof`] are its files, read as hostile. [`merge`] adds profiles,
//! [`subtract`] compares a culprit with a peer, [`functions()`] ranks, [`Redactor`] hides names.
//! [`flame`] makes the tree of either, [`svg`] its picture and [`html`] its page. [`folded`],
//! [`speedscope`], [`trace_events`] and [`summary`] are for other programs; [`series`] are files of
//! many profiles over time. [`limits`] bounds all of them. The crate has no input or output and no
//! clock; the same profile always has the same bytes, tree and picture.
//!
//! Files, from the bottom up: `name`, `stack`, `labels`, `profile`; `functions`, `merge`,
//! `difference`, `redact`; `pprof`, `folded`, `series`, `speedscope`, `summary`; `flame`,
//! `trace_events`, `colour`, `shown`, `svg`, `html`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod colour;
mod difference;
pub mod flame;
pub mod folded;
mod functions;
pub mod html;
mod labels;
pub mod limits;
mod merge;
mod name;
pub mod pprof;
mod profile;
mod redact;
pub mod series;
mod shown;
pub mod speedscope;
mod stack;
pub mod summary;
pub mod svg;
#[cfg(test)]
mod tests;
pub mod trace_events;

pub use colour::ColourBy;
pub use difference::{Difference, FunctionDifference, MixError, Sides, subtract};
pub use functions::{FunctionTotal, functions};
pub use labels::{SampleLabels, ThreadState};
pub use merge::merge;
pub use name::Name;
pub use profile::{Profile, Sample, ValueType};
pub use redact::{Redaction, Redactor};
pub use stack::{Frame, Stack, TRUNCATED, WAITING_FOR_GIL};
