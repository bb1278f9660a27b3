//! One point of a metric as another system reports it: OTLP, or Prometheus text.
//!
//! The reader of each format makes it, and [`Points`](super::Points) decides what it adds.
//! Borrowed, so that reading a point allocates nothing.

use plimsoll_schemas::ids::Series;
use plimsoll_schemas::time::Wall;

use crate::core::intake::lines::ValueUnit;
use crate::core::intake::reject::Reject;

/// The value of one stream of a metric at one time.
#[derive(Clone, Copy)]
pub struct Point<'a> {
    /// Identifies the stream: a hash of its producer, the metric's name and type, and all
    /// attributes, including those that become no label. Two producers of a metric are two
    /// streams.
    pub stream: u64,
    /// Name and labels by the rules; called when the stream has no slot in the open interval, so
    /// once for a stream that is active in each.
    pub series: &'a dyn Fn() -> Result<Series, Reject>,
    /// Since when it is counted; zero if unknown. Not used for a gauge.
    pub start: Wall,
    pub time: Wall,
    pub temporality: Temporality,
    pub value: Value<'a>,
}

/// Since when a point counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// Since the point before it.
    Delta,
    /// Since the producer started or restarted.
    Cumulative,
}

#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Latencies, counted in buckets.
    Latencies(Latencies<'a>),
    /// A sum: an amount to add if it is monotonic, else a gauge.
    Sum {
        value: f64,
        /// True if it only grows.
        monotonic: bool,
    },
    Gauge(f64),
}

/// A distribution in the buckets of its producer.
#[derive(Clone, Copy, Debug)]
pub struct Latencies<'a> {
    /// The unit of all its values.
    pub unit: ValueUnit,
    pub count: u64,
    pub sum: Option<f64>,
    /// The smallest, since [`Point::start`].
    pub min: Option<f64>,
    /// The largest, since [`Point::start`].
    pub max: Option<f64>,
    pub buckets: Buckets<'a>,
}

/// Buckets as their producer defined them.
#[derive(Clone, Copy, Debug)]
pub enum Buckets<'a> {
    /// Bucket `i` holds what is over `bounds[i - 1]` and at most `bounds[i]`; the last what is
    /// over all bounds.
    Explicit {
        bounds: &'a [f64],
        /// One more than bounds, or none if only the count is known.
        counts: &'a [u64],
    },
    /// Bucket `i` of `positive` holds what is over `base^(offset + i)` and at most the next power,
    /// where `base = 2^(2^-scale)`.
    Exponential {
        /// Doublings of the resolution.
        scale: i32,
        /// Samples of at most `zero_threshold`.
        zero: u64,
        /// The greatest value that counts as zero.
        zero_threshold: f64,
        /// The number of the first bucket of `positive`.
        offset: i32,
        positive: &'a [u64],
        /// Samples below zero, which is invalid for a latency.
        negative: u64,
    },
}
