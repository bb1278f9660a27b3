//! What an aggregator may show.

use std::time::Duration;

/// Exponential buckets in use in one native histogram. Prometheus and its peers advise no more;
/// in protobuf they take about 400 bytes.
pub const NATIVE_BUCKETS_MAX: usize = 160;
/// A look at the state younger than this answers the next question too, so that many who ask
/// cost the driver as much as one.
pub const VIEW_AGE_MAX: Duration = Duration::from_millis(25);
