//! What a producer's wide buckets leave open: the least and the most that its samples may be.
//!
//! Owns the two ends of each such sample beside the place where it is counted. Refuses to guess
//! inside a bucket: every answer is a bound, and no closer one is right. [`BucketUncertainty`] is
//! the form that grows and answers; [`UncertaintySummary`] is its form in messages and checkpoints,
//! [`PackedUncertainty`] the one of which many are kept.

mod bounds;
mod summary;

pub use bounds::BucketUncertainty;
pub(super) use bounds::Within;
pub(super) use summary::PackedUncertainty;
pub use summary::UncertaintySummary;
