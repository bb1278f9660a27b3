//! Thresholds of the checks.

use std::time::Duration;

/// Share of nodes that are off by as much, from which on the broker's clock is the suspect.
pub(super) const CLOCK_SHARE: f64 = 0.5;
/// Offset of a clock, in seconds: as the rule `clock_skew` that ships.
pub(super) const CLOCK_SECONDS: f64 = 5.0;
/// How long a lane should hold the fleet's messages at the current rate: a night without an
/// aggregator. Streams drop messages after a day in any case.
pub(super) const STREAM_HOLDS_MIN: Duration = Duration::from_secs(8 * 3_600);
/// Least time between the first and the last message of a stream from which a rate follows.
pub(super) const STREAM_RATE_MIN: Duration = Duration::from_secs(60);
/// Used share of a stream that refuses messages when it is full.
pub(super) const STREAM_USED_MAX: f64 = 0.8;
/// Free bytes of a disk below which writing soon fails.
pub(super) const DISK_FREE_MIN: u64 = 64 * 1024 * 1024;
/// Free share of a disk that leaves time to act.
pub(super) const DISK_FREE_SHARE: f64 = 0.1;
/// Nodes whose histories are asked for, the first by name: at worst 16 s.
pub(super) const HISTORIES_ASKED_MAX: usize = 64;
/// Of these, nodes in one request: the aggregator asks as many at a time, and waits 4 s for those
/// that do not answer. A request may take 5 s.
pub(super) const HISTORIES_AT_ONCE: usize = 16;
/// Names that one finding lists.
pub(super) const NAMES_MAX: usize = 10;
