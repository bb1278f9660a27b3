//! Growing pauses with jitter between attempts at anything but connects, which `reconnects.rs` has.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use plimsoll_schemas::backoff::Backoff;

use crate::limits::{RETRY_DELAY_MAX, RETRY_DELAY_MIN};

const RETRIES: Backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX).with_jitter(0.5, 1.0);

/// The pause before attempt number `attempt` (the first is 1): between half and all of a span
/// that doubles from `RETRY_DELAY_MIN` to `RETRY_DELAY_MAX`.
pub(crate) fn pause(attempt: u32) -> Duration {
    RETRIES.pause(attempt.saturating_sub(1), random_bits())
}

/// The standard library keys every hasher differently, which is all the randomness that jitter
/// needs.
pub(crate) fn random_bits() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pauses_grow_from_the_least_to_the_most() {
        for (attempt, span) in [(0, 25), (1, 25), (2, 50), (4, 200), (8, 2_000), (u32::MAX, 2_000)]
        {
            let pause = pause(attempt);
            let span = Duration::from_millis(span);
            assert!(pause >= span / 2 && pause <= span, "attempt {attempt}: {pause:?}");
        }
    }

    #[test]
    fn pauses_of_two_nodes_differ() {
        let pauses: HashSet<Duration> = (0..100).map(|_| pause(20)).collect();
        assert!(pauses.len() > 90, "{} of 100 differ", pauses.len());
    }
}
