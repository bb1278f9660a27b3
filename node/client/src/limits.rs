//! What a client library may hold in the process of a job.

use std::time::Duration;

/// Series of latencies; one more folds into `other`, counted.
pub(crate) const OPERATIONS_MAX: usize = 1_024;
/// Counters, and gauges, each; one more folds into `other`, counted.
pub(crate) const NUMBERS_MAX: usize = 1_024;
/// Labels of every series of a process, beside the 16 of a series itself and those of its rank.
pub(crate) const DEFAULT_LABELS_MAX: usize = 8;
/// Digits of a rank: one of ten million processes.
pub(crate) const RANK_DIGITS_MAX: usize = 7;
/// Characters that a warning repeats of a rank that is none.
pub(crate) const RANK_SHOWN_CHARS_MAX: usize = 40;
/// Different phases of one step, what is outside of them included: 0.5 KiB on the stack.
pub(crate) const PHASES_MAX: usize = 32;
/// Earlier reads of shards from which a read is judged slow.
pub(crate) const SLOW_READ_AFTER: u64 = 10;
/// A read is slow if it takes longer than this many times the mean of those before it.
pub(crate) const SLOW_READ_FACTOR: u64 = 2;
/// Slowest reads that the summary of shards keeps, with their names.
pub(crate) const SLOWEST_READS_MAX: usize = 10;
/// Bytes of a shard's name in that summary.
pub(crate) const SHARD_NAME_BYTES_MAX: usize = 256;
/// Time between two flushes. A killed job is to lose at most its last 50 ms; that leaves ten to
/// send a frame and to get its answer.
pub(crate) const FLUSH_EVERY: Duration = Duration::from_millis(40);
/// Shortest such time that a caller may set.
pub(crate) const FLUSH_EVERY_MIN: Duration = Duration::from_millis(10);
/// Longest such time that a caller may set.
pub(crate) const FLUSH_EVERY_MAX: Duration = Duration::from_secs(60);
/// Stack of the flushing thread, in bytes.
pub(crate) const FLUSHER_STACK_BYTES: usize = 256 * 1024;
/// Attempts to read a distribution that is being written to before the next flush takes it.
pub(crate) const TAKE_ATTEMPTS_MAX: usize = 64;
/// Samples that the expected interval may add for one sample; this bounds the cost of that
/// record.
pub(crate) const CORRECTIONS_MAX: u64 = 10_000;
/// Bytes of all distributions in one frame, by the most that they can take.
pub(crate) const FRAME_BYTES_SPLIT: usize = 256 * 1024;
/// Wait for the node to take or to answer bytes before the flush goes on without it.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_millis(500);
/// Connections closed in answer to one and the same frame before it is dropped.
pub(crate) const ATTEMPTS_MAX: u32 = 3;
/// Pause before a frame is tried again; it doubles.
pub(crate) const RETRY_PAUSE_MIN: Duration = Duration::from_millis(20);
/// Longest such pause.
pub(crate) const RETRY_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Wait at the process's exit for the node to answer for what it was sent.
pub(crate) const EXIT_WAIT: Duration = Duration::from_secs(2);
