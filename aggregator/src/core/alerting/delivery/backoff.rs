//! When a post to a receiver may be retried: pauses grow, have jitter, and honour `Retry-After`.

use std::time::Duration;

use crate::limits::notifications::{RETRY_AFTER_MAX, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN};
use plimsoll_schemas::time::Mono;

/// Chance out of a seed (splitmix64), so that two aggregators do not come back together.
#[derive(Clone, Debug, Default)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number in [0, 1).
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let high = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0);
        f64::from(high) / (f64::from(u32::MAX) + 1.0)
    }
}

/// How often a receiver failed in a row, and when it is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    next_at: Mono,
}

impl Backoff {
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

    /// Waits between half and all of a span that doubles. Waits at least as long as the receiver's
    /// `Retry-After`, up to `RETRY_AFTER_MAX`.
    pub(super) fn on_failure(
        &mut self,
        now: Mono,
        retry_after: Option<Duration>,
        jitter: &mut Jitter,
    ) {
        let span = RETRY_PAUSE_MIN.saturating_mul(1 << self.failures.min(16)).min(RETRY_PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        let pause = span / 2 + span.mul_f64(jitter.fraction() / 2.0);
        let retry_after = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        self.next_at = now.plus(pause.max(retry_after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(seed: u64, retry_after: Option<Duration>) -> Vec<Duration> {
        let (mut pace, mut jitter) = (Backoff::default(), Jitter::new(seed));
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
