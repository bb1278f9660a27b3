//! One point of a metric as another system tells it: OTLP, or a page of Prometheus' text format.
//!
//! Says what was told and nothing more: readers of each format make it, and whoever records it
//! decides what it adds. Borrowed, so that reading a point allocates nothing.

use plimsoll_schemas::ids::Series;
use plimsoll_schemas::time::Wall;

use super::reject::Reject;
use super::units::TimeUnit;

/// What one stream of a metric had to say at one time.
#[derive(Clone, Copy)]
pub struct Point<'a> {
    /// Which stream: hashed from who tells it, the metric's name and kind, and all attributes,
    /// also those that become no label. Two producers of one metric are two streams.
    pub stream: u64,
    /// Name and labels by rule; asked for when the stream has no place in the open interval, so
    /// once for as long as it adds something in each.
    pub series: &'a dyn Fn() -> Result<Series, Reject>,
    /// Since when it is counted; zero where nobody says. Means nothing for a gauge.
    pub start: Wall,
    /// When it held.
    pub time: Wall,
    /// What it counts.
    pub temporality: Temporality,
    /// The figures.
    pub value: Value<'a>,
}

/// Since when a point counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// Since the point before it.
    Delta,
    /// Since the producer began, or began anew.
    Cumulative,
}

/// The figures of a point.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Latencies, counted in buckets.
    Latencies(Latencies<'a>),
    /// A sum: an amount to add where it is monotonic, else a gauge.
    Sum {
        /// The sum.
        value: f64,
        /// True where it only grows.
        monotonic: bool,
    },
    /// The value now.
    Gauge(f64),
}

/// A distribution in the buckets of its producer.
#[derive(Clone, Copy, Debug)]
pub struct Latencies<'a> {
    /// In which all its values stand.
    pub unit: TimeUnit,
    /// All samples.
    pub count: u64,
    /// Their sum.
    pub sum: Option<f64>,
    /// The smallest, since [`Point::start`].
    pub min: Option<f64>,
    /// The largest, since [`Point::start`].
    pub max: Option<f64>,
    /// Where they lie.
    pub buckets: Buckets<'a>,
}

/// Buckets as their producer laid them out.
#[derive(Clone, Copy, Debug)]
pub enum Buckets<'a> {
    /// Bucket `i` holds what is over `bounds[i - 1]` and at most `bounds[i]`; the last what is
    /// over all bounds.
    Explicit {
        /// Ascending.
        bounds: &'a [f64],
        /// One more than bounds, or none where only the count is known.
        counts: &'a [u64],
    },
    /// Bucket `i` of `positive` holds what is over `base^(offset + i)` and at most the next power,
    /// where `base = 2^(2^-scale)`.
    Exponential {
        /// Doublings of the resolution.
        scale: i32,
        /// Samples of at most `zero_threshold`.
        zero: u64,
        /// What counts as zero.
        zero_threshold: f64,
        /// Where `positive` begins.
        offset: i32,
        /// Samples over zero.
        positive: &'a [u64],
        /// Samples below zero, which no latency is.
        negative: u64,
    },
}
