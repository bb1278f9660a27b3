//! A latency distribution: exact count, sum, min and max beside HDR bucket counts.
//!
//! There is one bucket [`layout`] in the whole mesh, so merging adds counts and never loses
//! anything. A quantile read from a [`Histogram`] is off by at most the width of one bucket (0.1 %
//! of the value, or 512 ns below 1 ms), and is returned with that bucket's ends. Samples of which
//! only a producer's wide bucket is known ([`Histogram::record_within`]) are stored with the
//! uncertainty that this leaves, a [`BucketUncertainty`]; their quantiles are returned with the
//! bounds that are certain. [`codec`] turns the counts into standard HdrHistogram V2 bytes and
//! reads hostile ones safely.
//!
//! Files, from the bottom up: `layout`, `error`, `exact`; `header`, `numbers`, `writer`, `payload`,
//! `checked` for bytes; `row`, `cells`, `counts` for buckets; `over` and `uncertainty` for what is
//! stored beside them; `decoded` checks all of it together; [`Packed`] stores, [`Histogram`]
//! records, [`PackedCounts`] has the buckets alone.

mod cells;
mod checked;
pub mod codec;
mod counts;
mod decoded;
mod distribution;
mod error;
mod exact;
mod header;
pub mod layout;
mod mutable;
mod numbers;
mod over;
mod packed;
mod packed_counts;
mod payload;
mod quantile;
mod row;
mod stored;
#[cfg(test)]
mod tests;
mod uncertainty;
mod writer;

pub use counts::Counts;
pub use distribution::Distribution;
pub use error::DistributionError;
pub use exact::ExactFigures;
pub use mutable::{Histogram, ProducerBucket};
pub use over::{Over, Overs};
pub use packed::Packed;
pub use packed_counts::PackedCounts;
pub use quantile::{Quantile, rank};
pub use uncertainty::{BucketUncertainty, UncertaintySummary};
