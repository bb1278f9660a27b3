//! When each epoch is due: an open loop, so that a slow epoch makes no later one's load smaller.
//!
//! An epoch that is late starts at once; later ones start at their planned times.

use std::time::Duration;

/// A schedule with the same distance between all epochs.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    seconds_apart: f64,
}

impl Pace {
    /// This many epochs a second; 0 means that all are due at once.
    pub fn per_second(rate: f64) -> Self {
        Self { seconds_apart: if rate > 0.0 { rate.recip() } else { 0.0 } }
    }

    /// When the epoch with this number, counted from 0, is due, from the job's start.
    pub fn due(self, epoch: u64) -> Duration {
        let seconds = epoch as f64 * self.seconds_apart;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn epochs_are_due_at_multiples_of_their_distance() {
        let pace = Pace::per_second(20.0);
        assert_eq!([0, 1, 30].map(|n| pace.due(n)), [0, 50, 1_500].map(Duration::from_millis));
    }

    #[test]
    fn at_no_rate_every_epoch_is_due_at_once() {
        assert_eq!(Pace::per_second(0.0).due(u64::MAX), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn no_epoch_is_due_before_the_one_before_it(rate in 0.0..1e12, epoch in 0..u64::MAX) {
            let pace = Pace::per_second(rate);
            prop_assert!(pace.due(epoch) <= pace.due(epoch + 1));
        }
    }
}
