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
/// Rows of nodes on `/api/v1/backpressure`, half a KiB each.
pub const OUTBOXES_MAX: usize = 100;
/// Streams of pages that are open at once: some people on call with some tabs each, and half of
/// the connections of one address left for what the pages ask. Each costs the driver one question
/// a second.
pub const STREAMS_MAX: usize = 64;
/// Streams of one client address while more than half of all are open; before that it may have any
/// number, since all pages behind a proxy have its address. So one address holds half of them at
/// most, and the other half is enough for four more with as many as this.
pub const STREAMS_SHARE: usize = 8;
/// Time between two events of a stream: rules are judged as often.
pub const PULSE_EVERY: Duration = Duration::from_secs(1);
/// When a client without a stream may ask for one again.
pub const STREAM_RETRY_SECONDS: &str = "10";
