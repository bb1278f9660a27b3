//! What `plimsoll top` may hold, and how often it reads and draws.

use std::time::Duration;

use ratatui::layout::Size;

/// Pause between an answer and the next request.
pub(super) const READ_EVERY: Duration = Duration::from_secs(1);
/// A page that took long to read is requested this many times its own duration later, so that an
/// aggregator with many nodes spends little on a screen.
pub(super) const PAUSE_FACTOR: u32 = 4;
/// First pause after a failed request; it doubles up to [`RETRY_MAX`].
pub(super) const RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest pause after a failed request.
pub(super) const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long requests fail before the last page counts as stale: as long as a node may be silent.
pub(super) const STALE_AFTER: Duration = Duration::from_secs(10);
/// Interval at which times on the screen advance, and at which processes of `plimsoll up` are
/// polled.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// Longest wait of the input thread before it checks whether it should end.
pub(super) const INPUT_POLL: Duration = Duration::from_millis(100);
/// Longest wait for that thread at the end.
pub(super) const INPUT_END: Duration = Duration::from_secs(1);
/// Keys that wait to be handled; a paste of more is dropped.
pub(super) const KEYS_MAX: usize = 256;
/// Characters of the filter.
pub(super) const FILTER_CHARS_MAX: usize = 64;
/// Size of a frame without a terminal.
pub(super) const SIZE: Size = Size::new(80, 24);
