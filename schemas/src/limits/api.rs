//! Limits of the HTTP API that an aggregator and its clients must agree on.

/// Bytes of an answer about the past. In MessagePack a point with its samples by bucket takes 5 KiB
/// for 100 000 samples, and 48 KiB with a thousand in each of all buckets: 3 600 points fit. In
/// JSON it takes up to 40 times as much.
pub const HISTORY_ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Groups of one roll-up that have values of their own: a run has one for each of its operations.
pub const ROLLUP_GROUPS_MAX: usize = 256;
/// The operation, and each value of a group, that takes the samples of what finds no room.
pub const OVERFLOW: &str = "other";
/// Metrics of one query: their names fill 8 KiB at most, which is what an address may have.
pub const QUERY_METRICS_MAX: usize = 32;
