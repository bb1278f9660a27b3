//! Limits of the HTTP pages.

use std::time::Duration;

/// Exponential buckets in one native histogram, as Prometheus recommends; about 400 bytes of
/// protobuf.
pub const NATIVE_BUCKETS_MAX: usize = 160;
/// Age up to which a read view serves further requests, so that many clients cost the driver as
/// much as one.
pub const VIEW_AGE_MAX: Duration = Duration::from_millis(25);
/// Nodes whose rows and text are rendered as one part of the page of all nodes: with three
/// operations each, 2 MiB of text and some more of rows.
pub const NODES_PART: usize = 256;
