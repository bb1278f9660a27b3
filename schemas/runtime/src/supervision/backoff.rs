//! How long a task that ended rests before it is started again. Pure: takes how long the task ran
//! and a seed.
//!
//! DESIGN N48, A52.

use std::time::Duration;

use plimsoll_schemas::backoff::Backoff;
use plimsoll_schemas::random::SplitMix64;

use crate::limits::{RESTART_PAUSE_MAX, RESTART_PAUSE_MIN, RESTART_RESET_AFTER};

const PAUSES: Backoff = Backoff::new(RESTART_PAUSE_MIN, RESTART_PAUSE_MAX).with_jitter(0.75, 1.25);

/// The pauses of one task.
#[derive(Clone, Debug)]
pub struct RestartBackoff {
    restarts_in_a_row: u32,
    random: SplitMix64,
}

impl RestartBackoff {
    /// Of a task that was never restarted. Tasks that fail for the same cause need different seeds.
    pub fn new(seed: u64) -> Self {
        Self { restarts_in_a_row: 0, random: SplitMix64(seed) }
    }

    /// The task ended after it had run for so long. Returns the pause before its next start: within
    /// 25 % of a span that doubles from [`RESTART_PAUSE_MIN`] to [`RESTART_PAUSE_MAX`].
    pub fn on_ended(&mut self, ran_for: Duration) -> Duration {
        if ran_for >= RESTART_RESET_AFTER {
            self.restarts_in_a_row = 0;
        }
        let pause = PAUSES.pause(self.restarts_in_a_row, self.random.bits());
        self.restarts_in_a_row = self.restarts_in_a_row.saturating_add(1);
        pause
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
