//! Reads of data shards: their latency, size and rows, and the slow ones.
//!
//! DESIGN N54.

use plimsoll_clock::Stopwatch;

use crate::distribution::Distribution;
use crate::number::Counter;
use crate::operation::Operation;
use crate::shard_log::{ReadOutcome, ShardSummary};
use crate::switches::Profiler;
use crate::{process, recording};

/// What reads of shards record into; the names are those of the Python client.
struct ShardSeries {
    read: Operation,
    bytes: Counter,
    rows: Counter,
    file_size: Distribution,
    rows_processed: Distribution,
    slow: Counter,
    errors: Counter,
}

impl ShardSeries {
    /// Made for each read, which takes far longer: a fork may leave a lazy static half made.
    fn new() -> Self {
        Self {
            read: Operation::new("shard_read"),
            bytes: Counter::new("shard_read.bytes"),
            rows: Counter::new("shard_read.rows"),
            file_size: Distribution::new("profiler_shard_file_size:bytes"),
            rows_processed: Distribution::new("profiler_shard_rows_processed:count"),
            slow: Counter::new("shard_read.slow"),
            errors: Counter::new("shard_read.errors"),
        }
    }
}

/// A read that has begun; see [`start_read`].
#[derive(Debug)]
#[must_use = "a read that is dropped counts as failed"]
pub struct ShardRead {
    /// Absent once there is nothing to record.
    begun: Option<(String, Stopwatch)>,
}

/// Begins the read of a shard: until [`ShardRead::end`], or until it is dropped, as by `?`, which
/// counts in `shard_read.errors`.
pub fn start_read(shard: &str) -> ShardRead {
    let is_on = recording::is_on(Profiler::Shards);
    ShardRead { begun: is_on.then(|| (shard.to_owned(), Stopwatch::start())) }
}

impl ShardRead {
    /// Ends the read: a latency `shard_read`, and the counters `shard_read.bytes` and
    /// `shard_read.rows`, and samples of `profiler_shard_file_size:bytes` and
    /// `profiler_shard_rows_processed:count`; a slow read also counts in `shard_read.slow`.
    pub fn end(mut self, bytes: u64, rows: u64) {
        self.record(ReadOutcome { bytes, rows, is_failed: false });
    }

    fn record(&mut self, outcome: ReadOutcome) {
        let Some((shard, begun)) = self.begun.take() else { return };
        let took = begun.elapsed();
        let series = ShardSeries::new();
        series.read.record(took);
        series.bytes.add(outcome.bytes);
        series.rows.add(outcome.rows);
        series.errors.add(outcome.is_failed.into());
        // Of a read that failed neither is known.
        if !outcome.is_failed {
            series.file_size.record(outcome.bytes);
            series.rows_processed.record(outcome.rows);
        }
        let is_slow = process::state().shards.add(&shard, took, outcome);
        series.slow.add(is_slow.into());
    }
}

impl Drop for ShardRead {
    fn drop(&mut self) {
        self.record(ReadOutcome { is_failed: true, ..ReadOutcome::default() });
    }
}

/// The reads of this process so far.
#[must_use]
pub fn shard_summary() -> ShardSummary {
    process::state().shards.summary()
}
