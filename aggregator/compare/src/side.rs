//! One of the two sides of a comparison: the samples of each operation by node and time slot.
//!
//! It is plain data, so that any source can fill it: interval logs and baselines today, ranges of
//! a running aggregator later.

use std::collections::BTreeMap;

use plimsoll_schemas::histogram::{Packed, layout};
use plimsoll_schemas::ids::{NodeName, Operation};
use serde::{Deserialize, Serialize};

/// The buckets in which samples were counted before they came here. Sides with different ones are
/// not compared: their quantiles differ by up to a bucket without any change of latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketLayout {
    /// Nanoseconds in one unit of a value.
    pub unit_ns: u64,
    /// The lowest value, in units, that differs from zero.
    pub low: u64,
    pub digits: u8,
}

impl BucketLayout {
    /// The layout of the mesh.
    pub const MESH: Self = Self { unit_ns: 1, low: layout::LOW_NS, digits: layout::DIGITS };
}

impl std::fmt::Display for BucketLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { unit_ns, low, digits } = self;
        write!(f, "{digits} digits from {low} up, in units of {unit_ns} ns")
    }
}

/// The samples of one operation on one node over a short time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The node; `None` if the source does not name one.
    pub node: Option<NodeName>,
    /// Its beginning, in nanoseconds since 1970 or since the beginning of the run.
    pub start_ns: u64,
    /// Its length in nanoseconds.
    pub length_ns: u64,
    pub samples: Packed,
}

/// One operation on one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The buckets in which it was recorded.
    pub layout: BucketLayout,
    /// Its slots, in any order.
    pub slots: Vec<Slot>,
}

/// What a counter grew by in one slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSlot {
    pub amount: f64,
    /// The time by which it is divided, in seconds.
    pub seconds: f64,
}

/// One counter on one side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredRate {
    /// The operation whose time divides; wall time without one.
    pub operation: Option<String>,
    /// In the order of time, without gaps.
    pub slots: Vec<RateSlot>,
}

/// One side of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    pub operations: BTreeMap<Operation, Measured>,
    /// Counters; none of a side that was read from a log or a report.
    pub rates: BTreeMap<Operation, MeasuredRate>,
}

impl Measured {
    pub fn new(layout: BucketLayout) -> Self {
        Self { layout, slots: Vec::new() }
    }

    /// The number of samples.
    pub fn samples(&self) -> u64 {
        self.slots.iter().fold(0, |sum, slot| sum.saturating_add(slot.samples.exact().count))
    }
}
