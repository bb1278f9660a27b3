//! When a post to a receiver may be retried: pauses grow, have jitter, and honour `Retry-After`.

use std::time::Duration;

use crate::limits::notifications::{RETRY_AFTER_MAX, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN};
use plimsoll_schemas::backoff::Backoff;
use plimsoll_schemas::random::SplitMix64;
use plimsoll_schemas::time::Mono;

/// Between half and all of a span.
const PAUSES: Backoff = Backoff::new(RETRY_PAUSE_MIN, RETRY_PAUSE_MAX).with_jitter(0.5, 1.0);

/// How often a receiver failed in a row, and when it is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RetryState {
    failures: u32,
    next_at: Mono,
}

impl RetryState {
    /// When the receiver may be tried.
    pub(super) fn next_at(&self) -> Mono {
        self.next_at
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    pub(super) fn on_answer(&mut self) {
        *self = Self::default();
    }

    /// Waits at least as long as the receiver's `Retry-After`, up to `RETRY_AFTER_MAX`.
    pub(super) fn on_failure(
        &mut self,
        now: Mono,
        retry_after: Option<Duration>,
        jitter: &mut SplitMix64,
    ) {
        let pause = PAUSES.pause(self.failures, jitter.bits());
        self.failures = self.failures.saturating_add(1);
        let retry_after = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        self.next_at = now.plus(pause.max(retry_after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(seed: u64, retry_after: Option<Duration>) -> Vec<Duration> {
        let (mut pace, mut jitter) = (RetryState::default(), SplitMix64(seed));
        let mut pause = || {
            pace.on_failure(Mono(7), retry_after, &mut jitter);
            pace.next_at().since(Mono(7))
        };
        (0..20).map(|_| pause()).collect()
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_differ_between_two_seeds() {
        for (place, pause) in pauses(1, None).into_iter().enumerate() {
            let span = RETRY_PAUSE_MIN.saturating_mul(1 << place).min(RETRY_PAUSE_MAX);
            assert!(pause >= span / 2 && pause <= span, "{place}: {pause:?}");
        }
        assert_ne!(pauses(1, None), pauses(2, None));
        assert_eq!(pauses(1, None), pauses(1, None));
    }

    #[test]
    fn retry_after_is_obeyed_up_to_its_bound() {
        let retry_after = Duration::from_secs(100);
        assert!(pauses(1, Some(retry_after)).iter().all(|pause| *pause == retry_after));
        let retry_after = Duration::from_secs(100_000);
        assert!(pauses(1, Some(retry_after)).iter().all(|pause| *pause == RETRY_AFTER_MAX));
    }
}
