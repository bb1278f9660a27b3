//! What a node may take from pages of Prometheus text.

use std::time::Duration;

/// Targets of one node.
pub const TARGETS_MAX: usize = 16;
/// Bytes of one page; node_exporter's has about 150 KB, a large application's 1 MB.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of a page for which there is always room, whatever other targets send.
pub const PAGE_BYTES_RESERVED: usize = 256 * 1024;
/// Bytes beyond those of all pages that are on their way at one time, so that sixteen large ones
/// at once do not make a small agent large.
pub const PAGES_BYTES_MAX: usize = 2 * PAGE_BYTES_MAX;
/// Pages that wait for the driver.
pub const PAGES_QUEUE_MAX: usize = 2;
/// Bytes of an answer's head.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Labels of one row of a page, those included that the rules leave out.
pub const ROW_LABELS_MAX: usize = 64;
/// Families of one page whose type or unit is remembered while it is read.
pub const FAMILIES_MAX: usize = 8_192;
/// Buckets of one histogram of a page.
pub const BUCKETS_MAX: usize = 512;
/// Series that one page may bring unless the configuration sets another number: a quarter of what
/// an interval has room for, so that no page evicts what the jobs send.
pub const SERIES_MAX: usize = super::SERIES_MAX / 4;
/// Series that a configuration may allow one page.
pub const SERIES_MAX_MAX: usize = 10_000;
/// Series of one target that are remembered as seen before.
pub const SERIES_KNOWN_MAX: usize = 2 * SERIES_MAX_MAX;
/// Families of one target that are remembered because a line of theirs could not be read; such
/// lines are counted, and with more families no series counts as new.
pub const FAMILIES_MALFORMED_MAX: usize = 256;
/// Labels that a configuration adds to a target's series.
pub const TARGET_LABELS_MAX: usize = 8;
/// Patterns of names that a configuration allows of one target.
pub const ALLOW_MAX: usize = 64;
/// Bytes of a target's address.
pub const URL_BYTES_MAX: usize = 512;
/// Time between two samples of a target, unless configured.
pub const EVERY: Duration = Duration::from_secs(5);
/// By how much a process may be younger than it reports: its start is reported to the second.
pub const START_ROUNDING: Duration = Duration::from_secs(1);
