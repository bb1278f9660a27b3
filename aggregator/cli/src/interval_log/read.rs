//! Reads a log line by line.

use std::collections::btree_map::Entry;
use std::io::{BufRead, Read};
use std::time::Duration;

use hdrhistogram::serialization::interval_log::{
    IntervalLogHistogram, IntervalLogIterator, LogEntry,
};
use plimsoll_compare::{BucketLayout, Measured, Side, Slot};
use plimsoll_schemas::ids::{IdError, Operation};
use thiserror::Error;

use super::histogram::{HistogramError, parse};
use super::tag;
use super::unit::Unit;

/// The largest histogram that is read, as Base64, and what stands before it.
const LINE_BYTES_MAX: u64 = 2 << 20;
/// Eleven days of one operation and one node at one line a second.
const LINES_MAX: usize = 1_000_000;
/// What all histograms together may take.
const MEMORY_BYTES_MAX: usize = 1 << 30;
/// A time so much before the start of the log counts from that start, as in all other readers.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
const UNIT: &[u8] = b"#[Unit: ";

/// The content of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Its histograms by operation, node and interval.
    pub side: Side,
    /// Samples above an hour, which count as one hour.
    pub clamped: u64,
}

/// What is wrong with a log, and where.
#[derive(Debug, Error)]
#[error("line {line}: {cause}")]
pub struct LogError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub cause: LineError,
}

/// What is wrong with a line.
#[derive(Debug, Error)]
pub enum LineError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// Longer than any line with a histogram.
    #[error("more than {LINE_BYTES_MAX} bytes: this is not an interval log")]
    TooLong,
    /// More lines than are read.
    #[error("more than {LINES_MAX} lines: split the log")]
    TooMany,
    /// More histograms than fit.
    #[error("more than {MEMORY_BYTES_MAX} bytes of histograms: split the log")]
    TooLarge,
    /// Not of the form of a log.
    #[error(
        "expected `Tag=OPERATION,START,LENGTH,MAX,HISTOGRAM` with times such as 1.000, or a \
         comment that begins with #"
    )]
    Form,
    /// A tag that names no operation or no node.
    #[error("tag: {0}; a tag is OPERATION or OPERATION;node=NAME")]
    Tag(#[from] IdError),
    /// A unit that is not supported.
    #[error("{0}")]
    Unit(String),
    /// A unit after values that had another one.
    #[error("the unit must be stated before the first histogram")]
    LateUnit,
    /// A time that does not fit.
    #[error("its time is more than 584 years after 1970")]
    Time,
    /// A histogram that cannot be read.
    #[error(transparent)]
    Histogram(#[from] HistogramError),
    /// Buckets that differ within one operation.
    #[error("{operation} has buckets of {found} here and of {before} in earlier lines")]
    Layout {
        operation: Operation,
        /// Those of this line.
        found: BucketLayout,
        before: BucketLayout,
    },
}

/// Reads a log. `unit` overrides the unit that it states; nanoseconds without either.
///
/// # Errors
/// Names the first line that cannot be read.
pub fn read(mut source: impl BufRead, unit: Option<Unit>) -> Result<Log, LogError> {
    let mut reader = LogReader { given: unit, ..LogReader::default() };
    let mut bytes = Vec::new();
    for line in 1.. {
        let is_read = next(&mut source, &mut bytes, line).and_then(|is_read| {
            if is_read { reader.on_line(&bytes).map(|()| true) } else { Ok(false) }
        });
        match is_read {
            Ok(true) => {}
            Ok(false) => break,
            Err(cause) => return Err(LogError { line, cause }),
        }
    }
    Ok(reader.log)
}

/// Reads the next line with its end; false after the last one.
fn next(source: &mut impl BufRead, bytes: &mut Vec<u8>, line: usize) -> Result<bool, LineError> {
    bytes.clear();
    // One byte more than is permitted separates a line that is too long from one at the limit.
    source.take(LINE_BYTES_MAX + 1).read_until(b'\n', bytes)?;

    if bytes.is_empty() {
        return Ok(false);
    }
    if bytes.len() as u64 > LINE_BYTES_MAX {
        return Err(LineError::TooLong);
    }
    if line > LINES_MAX {
        return Err(LineError::TooMany);
    }

    // The library takes a last line without its end for one that is cut off.
    if !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    Ok(true)
}

#[derive(Default)]
struct LogReader {
    log: Log,
    given: Option<Unit>,
    stated: Option<Unit>,
    start: Duration,
    /// What is added to times; decided by the first histogram.
    offset: Option<Duration>,
    base: Option<Duration>,
    memory_bytes: usize,
}

impl LogReader {
    fn on_line(&mut self, line: &[u8]) -> Result<(), LineError> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        if let Some(unit) = line.strip_prefix(UNIT) {
            return self.on_unit(unit);
        }

        match IntervalLogIterator::new(line).next() {
            None => Ok(()),
            Some(Ok(LogEntry::StartTime(start))) => {
                self.start = start;
                Ok(())
            }
            Some(Ok(LogEntry::BaseTime(base))) => {
                self.base = Some(base);
                Ok(())
            }
            Some(Ok(LogEntry::Interval(interval))) => self.on_interval(&interval),
            Some(Err(_)) => Err(LineError::Form),
        }
    }

    fn on_unit(&mut self, rest: &[u8]) -> Result<(), LineError> {
        // Values before and after would be in two units, in one log.
        if self.offset.is_some() {
            return Err(LineError::LateUnit);
        }
        let text = String::from_utf8_lossy(rest);
        let unit = text.split(']').next().unwrap_or_default().trim();
        self.stated = Some(unit.parse().map_err(LineError::Unit)?);
        Ok(())
    }

    fn on_interval(&mut self, interval: &IntervalLogHistogram<'_>) -> Result<(), LineError> {
        let (operation, node) = tag::parse(interval.tag().map(|tag| tag.as_str()))?;
        let unit = self.given.or(self.stated).unwrap_or(Unit::Nanoseconds);
        let parsed = parse(interval.encoded_histogram(), unit.ns())?;
        let start = self.absolute(interval.start_timestamp()).ok_or(LineError::Time)?;
        let (start_ns, length_ns) = (ns(start)?, ns(interval.duration())?);
        self.memory_bytes += size_of::<Slot>() + parsed.samples.heap_bytes();
        if self.memory_bytes > MEMORY_BYTES_MAX {
            return Err(LineError::TooLarge);
        }
        self.log.clamped = self.log.clamped.saturating_add(parsed.clamped);
        let slot = Slot { node, start_ns, length_ns, samples: parsed.samples };
        self.add(operation, parsed.layout, slot)
    }

    /// Times count from the base time; without one, from the start if they are far before it.
    fn absolute(&mut self, stamp: Duration) -> Option<Duration> {
        let is_relative = stamp.checked_add(YEAR).is_some_and(|later| later < self.start);
        let start = if is_relative { self.start } else { Duration::ZERO };
        // Decided by the first interval for all: with two
        // origins, slots of one log would be in a wrong order.
        let offset = *self.offset.get_or_insert(self.base.unwrap_or(start));
        offset.checked_add(stamp)
    }

    fn add(
        &mut self,
        operation: Operation,
        layout: BucketLayout,
        slot: Slot,
    ) -> Result<(), LineError> {
        match self.log.side.operations.entry(operation) {
            Entry::Occupied(known) if known.get().layout != layout => Err(LineError::Layout {
                operation: known.key().clone(),
                found: layout,
                before: known.get().layout,
            }),
            entry => {
                entry.or_insert_with(|| Measured::new(layout)).slots.push(slot);
                Ok(())
            }
        }
    }
}

fn ns(time: Duration) -> Result<u64, LineError> {
    u64::try_from(time.as_nanos()).map_err(|_| LineError::Time)
}
