//! Bounds of a report.

/// Operations: as many as a fleet has at an aggregator, of which some may be of its past.
pub(super) const OPERATIONS_MAX: usize = 512;
/// Operations whose plots an HTML page has, some 150 KB each; a browser shows more only slowly.
pub(super) const OPERATIONS_DRAWN_MAX: usize = 40;
/// Columns of what is shown over time, one more where the range does not begin with a column.
pub(super) const COLUMNS_MAX: f64 = 119.0;
/// Bands of latencies of a heatmap.
pub(super) const BANDS_MAX: usize = 40;
/// Limits, and quantiles, of one request to an aggregator.
pub(super) const QUERY_LIST_MAX: usize = 32;
/// Slots of an operation, for comparisons: the points of one comparison with an aggregator.
pub(super) const SLOTS_MAX: f64 = 1_900.0;
/// Slots of one request: at 500 buckets of 60 bytes each, some 6 MB.
pub(super) const REQUEST_SLOTS: f64 = 200.0;
/// Buckets of all slots together, at some 12 bytes each: 48 MB of JSON.
pub(super) const BUCKETS_MAX: usize = 4_000_000;
/// Epochs that are listed one by one.
pub(super) const EPOCHS_MAX: u64 = 10_000;
/// Alerts, changes of alerts, and events.
pub(super) const ROWS_MAX: usize = 200;
/// Nodes of each table.
pub(super) const NODES_MAX: usize = 100;
/// Nodes that are asked for their own past of one operation: a few milliseconds each.
pub(super) const NODES_ASKED_MAX: usize = 32;
/// Operations of which nodes are asked: those with the most samples over their limits.
pub(super) const OPERATIONS_ASKED_MAX: usize = 8;
/// Counters and gauges of a report, each with one answer.
pub(super) const METRICS_MAX: usize = 100;
/// Pages of readings that are asked for, of 64 nodes and some 1.6 MB each.
pub(super) const HARDWARE_PAGES_MAX: usize = 64;
/// Readings of one machine.
pub(super) const READINGS_MAX: usize = 40;
/// Bytes of a drill's report. One of a fleet of 10 000 nodes has some 2 MB.
pub(super) const DRILL_BYTES_MAX: u64 = 16 << 20;
/// Expectations of a drill that are shown.
pub(super) const EXPECTATIONS_MAX: usize = 500;
