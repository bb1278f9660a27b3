//! How long a task that ended rests before it is started again. Pure: takes how long the task ran
//! and a seed.
//!
//! DESIGN N48, A52.

use std::time::Duration;

use crate::limits::{RESTART_PAUSE_MAX, RESTART_PAUSE_MIN, RESTART_RESET_AFTER};

/// Doublings after which the pause is at its greatest, whatever the limits are.
const DOUBLINGS_MAX: u32 = 16;

/// The pauses of one task.
#[derive(Clone, Debug)]
pub struct RestartBackoff {
    restarts_in_a_row: u32,
    /// State of the generator of jitter.
    random: u64,
}

impl RestartBackoff {
    /// Of a task that was never restarted. Tasks that fail for the same cause need different seeds.
    pub fn new(seed: u64) -> Self {
        Self { restarts_in_a_row: 0, random: seed }
    }

    /// The task ended after it had run for so long. Returns the pause before its next start: within
    /// 25 % of a span that doubles from [`RESTART_PAUSE_MIN`] to [`RESTART_PAUSE_MAX`].
    pub fn on_ended(&mut self, ran_for: Duration) -> Duration {
        if ran_for >= RESTART_RESET_AFTER {
            self.restarts_in_a_row = 0;
        }
        let doublings = self.restarts_in_a_row.min(DOUBLINGS_MAX);
        self.restarts_in_a_row = self.restarts_in_a_row.saturating_add(1);
        let span = RESTART_PAUSE_MIN.saturating_mul(1 << doublings).min(RESTART_PAUSE_MAX);
        span.mul_f64(0.75 + 0.5 * self.fraction())
    }

    /// A number in [0, 1), by SplitMix64.
    fn fraction(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let high_bits = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0);
        f64::from(high_bits) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The span around which a pause lies, written a second time.
    fn nominal_s(restarts_in_a_row: usize) -> f64 {
        [2.0, 4.0, 8.0, 16.0].get(restarts_in_a_row).copied().unwrap_or(30.0)
    }

    #[test]
    fn pauses_of_two_tasks_differ() {
        let pauses = [1, 2].map(|seed| RestartBackoff::new(seed).on_ended(Duration::ZERO));
        assert_ne!(pauses[0], pauses[1]);
    }

    proptest! {
        #[test]
        fn a_pause_doubles_from_two_to_thirty_seconds_within_a_quarter_until_the_task_ran_well(
            seed: u64, runs_s in prop::collection::vec(0_u64..120, 1..60),
        ) {
            let (mut backoff, mut in_a_row) = (RestartBackoff::new(seed), 0);
            for ran_s in runs_s {
                in_a_row = if ran_s >= 60 { 0 } else { in_a_row };
                let pause = backoff.on_ended(Duration::from_secs(ran_s)).as_secs_f64();
                let nominal = nominal_s(in_a_row);
                prop_assert!(
                    (0.75 * nominal..=1.25 * nominal).contains(&pause),
                    "{pause} s after {in_a_row} restarts in a row"
                );
                in_a_row += 1;
            }
        }
    }
}
