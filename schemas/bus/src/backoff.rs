//! Growing pauses with jitter between attempts at anything but connects, which `reconnects.rs` has.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use crate::limits::{RETRY_DELAY_MAX, RETRY_DELAY_MIN};

/// The pause before attempt number `attempt` (the first is 1): between half and all of a span
/// that doubles from `RETRY_DELAY_MIN` to `RETRY_DELAY_MAX`.
pub(crate) fn pause(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(16);
    let span = RETRY_DELAY_MIN.saturating_mul(1 << doublings).min(RETRY_DELAY_MAX);
    span / 2 + span.mul_f64(fraction() / 2.0)
}

/// A number in [0, 1).
fn fraction() -> f64 {
    share(random_bits())
}

/// Bits as a number in [0, 1).
pub(crate) fn share(bits: u32) -> f64 {
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

/// The standard library keys every hasher differently, which is all the randomness that jitter
/// needs.
pub(crate) fn random_bits() -> u32 {
    let high_bits = RandomState::new().build_hasher().finish() >> 32;
    u32::try_from(high_bits).unwrap_or(0)
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
