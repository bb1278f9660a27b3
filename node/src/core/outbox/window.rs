//! How many bytes may be on their way to the broker in the normal lane.
//!
//! What is on its way cannot be overtaken. On a slow link megabytes of backlog would lie in the
//! buffers between, and a message of the emergency lane would arrive minutes after them. So the
//! window grows while acknowledgements return soon and shrinks while they are late, as TCP's does.
//!
//! DESIGN N46.

use std::time::Duration;

use crate::limits::{ACK_LATE, ACK_SOON, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, WINDOW_BYTES_START};
use plimsoll_schemas::limits::wire::MESSAGE_BYTES_MAX;
use plimsoll_schemas::time::Mono;

/// The window.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendWindow {
    bytes: usize,
    /// When it last shrank: answers to what was sent before are no new reason.
    shrunk_at: Option<Mono>,
    /// True from then on until it has grown to the size of a full message.
    is_slow: bool,
}

impl SendWindow {
    /// As at the start of a connection.
    pub(super) fn new() -> Self {
        Self { bytes: WINDOW_BYTES_START, shrunk_at: None, is_slow: false }
    }

    /// Its size.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The longest body of a message: on a link that has proved slow a long message is split, so
    /// that no single one takes longer than the window.
    pub(super) fn body_bytes(&self) -> usize {
        if self.is_slow { self.bytes } else { usize::MAX }
    }

    /// A message of `bytes` that was sent at `sent` is acknowledged; `was_full`: the window kept
    /// others waiting.
    pub(super) fn on_acknowledged(&mut self, now: Mono, sent: Mono, bytes: usize, was_full: bool) {
        let took = now.since(sent);
        if took <= ACK_SOON && was_full {
            self.bytes = self.bytes.saturating_add(bytes).min(WINDOW_BYTES_MAX);
            self.is_slow &= self.bytes < MESSAGE_BYTES_MAX;
        }
        if took >= ACK_LATE {
            self.shrink(now, sent);
        }
    }

    /// What was on its way is lost with its connection: the window opens anew, since the link may
    /// have become slow.
    pub(super) fn on_lost(&mut self) {
        self.bytes = self.bytes.min(WINDOW_BYTES_MIN);
    }

    /// A message that was sent at `sent` is not acknowledged in time.
    pub(super) fn on_overdue(&mut self, now: Mono, sent: Mono) {
        self.shrink(now, sent);
    }

    fn shrink(&mut self, now: Mono, sent: Mono) {
        if self.shrunk_at.is_none_or(|shrunk_at| sent >= shrunk_at) {
            self.bytes = (self.bytes / 2).max(WINDOW_BYTES_MIN);
            (self.shrunk_at, self.is_slow) = (Some(now), true);
        }
    }
}

/// How long an attempt waits for its acknowledgement after `overdue` earlier ones: twice as long
/// each time, so that a link that is merely slow is not filled with repetitions.
pub(super) fn acknowledgement_wait(first: Duration, overdue: u32, most: Duration) -> Duration {
    first.saturating_mul(1 << overdue.min(16)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Mono {
        Mono(milliseconds * 1_000_000)
    }

    #[test]
    fn it_doubles_with_each_window_that_is_acknowledged_soon_and_only_when_it_was_full() {
        let mut window = SendWindow::new();
        window.on_acknowledged(at(5), at(0), WINDOW_BYTES_START, false);
        assert_eq!(window.bytes(), WINDOW_BYTES_START);
        window.on_acknowledged(at(5), at(0), WINDOW_BYTES_START, true);
        assert_eq!(window.bytes(), 2 * WINDOW_BYTES_START);
        window.on_acknowledged(at(700), at(0), 5_000, true);
        assert_eq!(window.bytes(), 2 * WINDOW_BYTES_START, "neither soon nor late");
        window.on_lost();
        assert_eq!(window.bytes(), WINDOW_BYTES_MIN);
        (0..99).for_each(|_| window.on_acknowledged(at(5), at(0), 1 << 20, true));
        assert_eq!(window.bytes(), WINDOW_BYTES_MAX);
    }

    #[test]
    fn it_halves_once_for_all_that_was_sent_before_and_never_closes() {
        let mut window = SendWindow::new();
        (0..9).for_each(|_| window.on_acknowledged(at(5), at(0), 1 << 20, true));
        let before = window.bytes();
        window.on_acknowledged(at(3_000), at(10), 9, true);
        window.on_acknowledged(at(3_100), at(2_999), 9, true);
        window.on_overdue(at(6_000), at(900));
        assert_eq!(window.bytes(), before / 2 + 9);
        for second in 1..40 {
            window.on_overdue(at(second * 10_000), at(second * 10_000 - 5_000));
        }
        assert_eq!((window.bytes(), window.body_bytes()), (WINDOW_BYTES_MIN, WINDOW_BYTES_MIN));
        let mut now = 1_000_000;
        while window.bytes() < MESSAGE_BYTES_MAX {
            assert_eq!(window.body_bytes(), window.bytes());
            now += 10;
            window.on_acknowledged(at(now + 5), at(now), 9_000, true);
        }
        assert_eq!(window.body_bytes(), usize::MAX, "it is not slow any more");
    }

    #[test]
    fn waits_double_up_to_their_bound() {
        let (first, most) = (Duration::from_secs(5), Duration::from_secs(120));
        let waits = [0, 1, 4, 5, 99].map(|n| acknowledgement_wait(first, n, most).as_secs());
        assert_eq!(waits, [5, 10, 80, 120, 120]);
    }
}
