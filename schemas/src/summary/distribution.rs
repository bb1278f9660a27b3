//! The samples of a point by bucket: in JSON a list of buckets; in MessagePack an HdrHistogram of
//! V2, less than a twentieth of the bytes.
//!
//! DESIGN A89.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_bytes::ByteBuf;

use crate::histogram::{Histogram, PackedCounts, layout};
use crate::time::{nanos, seconds};

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
    pub fn all(counts: &PackedCounts) -> impl Iterator<Item = Self> {
        counts.buckets().map(|(index, count)| Self {
            lower: seconds(layout::lowest(index)),
            upper: seconds(layout::highest(index)),
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
    counts: &Option<PackedCounts>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match counts {
        None => serializer.serialize_none(),
        Some(counts) if serializer.is_human_readable() => {
            serializer.collect_seq(BucketCount::all(counts))
        }
        Some(counts) => serializer.serialize_bytes(&counts.to_v2()),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PackedCounts>, D::Error> {
    if deserializer.is_human_readable() {
        let buckets: Option<Vec<BucketCount>> = Option::deserialize(deserializer)?;
        let counts = |buckets: Vec<_>| {
            let wrong = || D::Error::custom("the upper end of a bucket is no latency");
            BucketCount::counts(&buckets).ok_or_else(wrong)
        };
        return buckets.map(counts).transpose();
    }
    let bytes: Option<ByteBuf> = Option::deserialize(deserializer)?;
    let read = bytes.map(|bytes| PackedCounts::from_v2(&bytes));
    read.transpose().map_err(|error| D::Error::custom(format!("a distribution: {error}")))
}
