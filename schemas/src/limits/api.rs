//! Limits of the HTTP API that an aggregator and its clients must agree on.

/// Bytes of an answer about the past. A point with its samples by bucket takes some 10 KiB in
/// MessagePack for 100 000 samples, and 60 KiB at most unless its buckets hold thousands each; so
/// that 3 600 points fit. In JSON it takes twenty times as much.
pub const HISTORY_ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
