//! Limits of the HTTP pages.

use std::time::Duration;

/// Exponential buckets in one native histogram, as Prometheus recommends; about 400 bytes of
/// protobuf.
pub const NATIVE_BUCKETS_MAX: usize = 160;
/// Age up to which a read view serves further requests, so that many clients cost the driver as
/// much as one.
pub const VIEW_AGE_MAX: Duration = Duration::from_millis(25);
