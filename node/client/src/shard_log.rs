//! The log of the shard reads of a process: sums, which reads were slow, and the slowest.
//!
//! DESIGN N54.

use std::time::Duration;

use plimsoll_schemas::time::nanos;

use crate::limits::{SHARD_NAME_BYTES_MAX, SLOW_READ_AFTER, SLOW_READ_FACTOR, SLOWEST_READS_MAX};

/// The shard reads of this process so far, once they are switched on. A forked child starts at
/// zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardSummary {
    /// Reads that ended, failed ones included.
    pub reads: u64,
    /// Of those, reads that took more than twice the mean of at least ten reads before them.
    pub slow: u64,
    /// Of those, reads that failed.
    pub failed: u64,
    /// Time of all.
    pub total: Duration,
    /// Bytes of all.
    pub bytes: u64,
    /// Rows of all.
    pub rows: u64,
    /// The slowest ten, slowest first: the shard, cut to 256 bytes, and the time.
    pub slowest: Vec<(String, Duration)>,
}

/// The log of this process, behind the lock of the registry.
pub(crate) struct ShardLog(ShardSummary);

impl ShardLog {
    /// The sums so far.
    pub(crate) fn summary(&self) -> ShardSummary {
        self.0.clone()
    }

    pub(crate) const fn new() -> Self {
        Self(ShardSummary {
            reads: 0,
            slow: 0,
            failed: 0,
            total: Duration::ZERO,
            bytes: 0,
            rows: 0,
            slowest: Vec::new(),
        })
    }

    /// Adds a read, and returns whether it was slow.
    pub(crate) fn add(&mut self, shard: &str, took: Duration, outcome: ReadOutcome) -> bool {
        let Self(sum) = self;

        // took > factor * total / reads, without a division.
        let is_slow = sum.reads >= SLOW_READ_AFTER
            && u128::from(nanos(took)) * u128::from(sum.reads)
                > u128::from(SLOW_READ_FACTOR) * sum.total.as_nanos();

        sum.reads += 1;
        sum.slow += u64::from(is_slow);
        sum.failed += u64::from(outcome.is_failed);
        sum.total = sum.total.saturating_add(took);
        sum.bytes = sum.bytes.saturating_add(outcome.bytes);
        sum.rows = sum.rows.saturating_add(outcome.rows);
        let place = sum.slowest.partition_point(|(_, other)| *other >= took);

        if place < SLOWEST_READS_MAX {
            let end = shard.floor_char_boundary(SHARD_NAME_BYTES_MAX);
            sum.slowest.insert(place, (shard[..end].to_owned(), took));
            sum.slowest.truncate(SLOWEST_READS_MAX);
        }

        is_slow
    }
}

/// What a read brought.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReadOutcome {
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    pub(crate) is_failed: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn add(log: &mut ShardLog, ms: u32) -> bool {
        log.add(&format!("shard{ms}"), ms * MS, ReadOutcome { bytes: 2, rows: 1, is_failed: false })
    }

    #[test]
    fn a_read_is_slow_beyond_twice_the_mean_of_ten_reads() {
        let mut log = ShardLog::new();
        let early: Vec<_> = [10, 10, 10, 10, 10, 10, 10, 10, 10].map(|ms| add(&mut log, ms)).into();
        assert_eq!(early, [false; 9]);
        assert!(!add(&mut log, 10), "the tenth has nine before it");
        assert!(!add(&mut log, 20), "twice the mean is not beyond it");
        assert!(add(&mut log, 40));
        let ShardSummary { reads, slow, failed, total, bytes, rows, .. } = log.0;
        assert_eq!((reads, slow, failed, total), (12, 1, 0, 160 * MS));
        assert_eq!((bytes, rows), (24, 12));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let mut log = ShardLog::new();
        log.add(&"ß".repeat(200), MS, ReadOutcome { is_failed: true, ..ReadOutcome::default() });
        assert_eq!((log.0.slowest[0].0.len(), log.0.failed), (256, 1));
    }

    proptest! {
        #[test]
        fn the_slowest_are_those_of_a_sorted_list(
            times in proptest::collection::vec(0..100_u32, 0..40),
        ) {
            let mut log = ShardLog::new();
            for ms in &times {
                add(&mut log, *ms);
            }
            let mut sorted = times;
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            sorted.truncate(SLOWEST_READS_MAX);
            let slowest: Vec<_> = log.0.slowest.iter().map(|(_, took)| *took).collect();
            prop_assert_eq!(slowest, sorted.iter().map(|ms| *ms * MS).collect::<Vec<_>>());
        }
    }
}
