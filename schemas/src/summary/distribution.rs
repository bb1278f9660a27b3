//! The samples of a point by bucket: in JSON a list of buckets; in MessagePack an HdrHistogram of
//! V2, less than a twentieth of the bytes.
//!
//! DESIGN A89.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_bytes::ByteBuf;

use crate::histogram::{Histogram, PackedCounts, layout};
use crate::time::nanos;
use crate::unit::Unit;

/// The samples of a point by bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketCounts {
    /// Of their values. An answer in JSON has shown values and does not state it: it is read as if
    /// they were seconds, which they are in answers of versions that have no other unit.
    pub unit: Unit,
    /// How many are in which bucket.
    pub counts: PackedCounts,
}

/// Samples of one bucket: over `lower` less one nanosecond and up to `upper`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BucketCount {
    /// The smallest value of the bucket.
    pub lower: f64,
    /// The largest value of the bucket.
    pub upper: f64,
    /// Samples in it.
    pub count: u64,
}

impl BucketCount {
    /// All buckets with samples, ascending.
    pub fn all(counts: &PackedCounts, unit: Unit) -> impl Iterator<Item = Self> {
        counts.buckets().map(move |(index, count)| Self {
            lower: unit.shown(layout::lowest(index)),
            upper: unit.shown(layout::highest(index)),
            count,
        })
    }

    /// Counts of buckets, each by its upper end; `None` if that of one is no latency.
    fn counts(buckets: &[Self]) -> Option<PackedCounts> {
        let mut histogram = Histogram::default();
        for bucket in buckets {
            let upper = Duration::try_from_secs_f64(bucket.upper).ok()?;
            histogram.record_n(nanos(upper), bucket.count);
        }
        Some(PackedCounts::from(&histogram))
    }
}

pub(super) fn serialize<S: Serializer>(
    given: &Option<BucketCounts>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match given {
        None => serializer.serialize_none(),
        Some(BucketCounts { unit, counts }) if serializer.is_human_readable() => {
            serializer.collect_seq(BucketCount::all(counts, *unit))
        }
        Some(BucketCounts { counts, .. }) => serializer.serialize_bytes(&counts.to_v2()),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BucketCounts>, D::Error> {
    let of_ns = |counts| BucketCounts { unit: Unit::Nanoseconds, counts };
    if deserializer.is_human_readable() {
        let buckets: Option<Vec<BucketCount>> = Option::deserialize(deserializer)?;
        let counts = |buckets: Vec<_>| {
            let wrong = || D::Error::custom("the upper end of a bucket is no latency");
            BucketCount::counts(&buckets).map(of_ns).ok_or_else(wrong)
        };
        return buckets.map(counts).transpose();
    }
    let bytes: Option<ByteBuf> = Option::deserialize(deserializer)?;
    let read = bytes.map(|bytes| PackedCounts::from_v2(&bytes).map(of_ns));
    read.transpose().map_err(|error| D::Error::custom(format!("a distribution: {error}")))
}
