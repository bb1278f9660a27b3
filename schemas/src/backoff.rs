//! Pauses between retries: they double up to a maximum and vary, so that processes that failed
//! together do not retry together. Pure: the caller counts its retries and supplies random bits.

use std::time::Duration;

use crate::random::share;

/// How the pauses of one kind of retry grow and vary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    jitter_min: f64,
    jitter_max: f64,
}

impl Backoff {
    /// Spans that double from `first` to `max`; pauses without jitter.
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, jitter_min: 1.0, jitter_max: 1.0 }
    }

    /// The same with pauses that lie between these multiples of their span.
    pub const fn with_jitter(self, jitter_min: f64, jitter_max: f64) -> Self {
        Self { jitter_min, jitter_max, ..self }
    }

    /// The span after `earlier` retries in a row.
    pub fn span(&self, earlier: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(earlier)).min(self.max)
    }

    /// The pause after `earlier` retries in a row: a part of its span by 64 random bits.
    pub fn pause(&self, earlier: u32, random_bits: u64) -> Duration {
        let span = self.span(earlier);
        let jitter = (self.jitter_max - self.jitter_min) * share(random_bits);
        span.mul_f64(self.jitter_min) + span.mul_f64(jitter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(120));

    #[test]
    fn spans_double_up_to_their_max() {
        let spans = [0, 1, 4, 5, 99, u32::MAX].map(|earlier| BACKOFF.span(earlier).as_secs());
        assert_eq!(spans, [5, 10, 80, 120, 120, 120]);
    }

    proptest! {
        #[test]
        fn pauses_vary_within_their_jitter(earlier in 0..40_u32, bits: u64) {
            let (span, rounding) = (BACKOFF.span(earlier), Duration::from_nanos(2));
            prop_assert_eq!(BACKOFF.pause(earlier, bits), span);
            let pause = BACKOFF.with_jitter(0.5, 1.25).pause(earlier, bits);
            prop_assert!(pause + rounding >= span / 2 && pause <= span * 5 / 4 + rounding);
        }
    }
}
