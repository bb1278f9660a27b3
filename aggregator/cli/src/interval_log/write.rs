//! Writes a side as a log that all HdrHistogram tools read, in the buckets of the mesh.

use std::io::{Error, Write};
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};
use plimsoll_compare::{Side, Slot};
use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::histogram::layout::{DIGITS, LOW_NS, MAX_NS, lowest};
use plimsoll_schemas::ids::Operation;

use super::tag::tag;

/// The greatest values are written in milliseconds, for people; histograms have nanoseconds.
const MAX_DIVISOR: f64 = 1e6;

/// Writes all slots in the order of their time, which the format rounds to milliseconds.
///
/// # Errors
/// When the writer fails.
pub fn write(side: &Side, mut to: impl Write) -> Result<(), Error> {
    let mut slots: Vec<(&Operation, &Slot)> = side
        .operations
        .iter()
        .flat_map(|(name, measured)| measured.slots.iter().map(move |slot| (name, slot)))
        .collect();

    // In the order of time, as recorders write them; a side has its slots in any order.
    slots.sort_by_key(|(_, slot)| slot.start_ns);
    let start = slots.first().map_or(Duration::ZERO, |(_, slot)| of_ns(slot.start_ns));
    let mut serializer = V2DeflateSerializer::new();

    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Latencies of Plimsoll]")
        .add_comment("[Unit: ns]")
        .with_start_time(UNIX_EPOCH + start)
        .with_max_value_divisor(MAX_DIVISOR)
        .begin_log_with(&mut to, &mut serializer)?;

    for (operation, slot) in slots {
        let tag = tag(operation, slot.node.as_ref());
        let histogram = histogram(&slot.samples)?;
        let (start, length) = (of_ns(slot.start_ns), of_ns(slot.length_ns));

        log.write_histogram(&histogram, start, length, Tag::new(&tag)).map_err(
            |error| match error {
                IntervalLogWriterError::IoError(error) => error,
                IntervalLogWriterError::SerializeError(error) => Error::other(error),
            },
        )?;
    }

    Ok(())
}

fn of_ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn histogram(samples: &Packed) -> Result<Histogram<u64>, Error> {
    let mut histogram = Histogram::new_with_bounds(LOW_NS, MAX_NS, DIGITS).map_err(Error::other)?;
    for (index, n) in samples.buckets() {
        histogram.record_n(lowest(index), n).map_err(Error::other)?;
    }
    Ok(histogram)
}
