//! When samples are due: at fixed instants, whatever a sample takes.
//!
//! One that cannot be taken in its own interval is missed and counted. It is neither made up for,
//! which would be a burst, nor does it move those after it, which would be a drift.

use std::time::Duration;

use plimsoll_schemas::time::nanos;

/// Instants at equal distances from a start. Times are nanoseconds since then.
#[derive(Debug)]
pub struct Schedule {
    period_ns: u64,
    ticks: u64,
    next: u64,
    missed: u64,
}

impl Schedule {
    /// All whole periods of `length`.
    pub fn new(period: Duration, length: Duration) -> Self {
        let period_ns = nanos(period).max(1);
        Self { period_ns, ticks: nanos(length) / period_ns, next: 0, missed: 0 }
    }

    /// The next instant that is not over at `now`; `None` after the last.
    pub fn next(&mut self, now_ns: u64) -> Option<u64> {
        let current = (now_ns / self.period_ns).min(self.ticks);
        // A tick counts for its whole interval: the current one is late, not missed.
        if current > self.next {
            self.missed += current - self.next;
            self.next = current;
        }
        if self.next >= self.ticks {
            return None;
        }
        self.next += 1;
        Some((self.next - 1) * self.period_ns)
    }

    pub fn missed(&self) -> u64 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schedule() -> Schedule {
        Schedule::new(Duration::from_nanos(10), Duration::from_nanos(100))
    }

    #[test]
    fn samples_that_are_quick_are_all_taken() {
        let mut schedule = schedule();
        let due: Vec<u64> =
            std::iter::successors(schedule.next(0), |last| schedule.next(last + 3)).collect();
        assert_eq!(due, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
        assert_eq!(schedule.missed(), 0);
    }

    #[test]
    fn a_slow_sample_costs_the_ticks_it_covers() {
        let mut schedule = schedule();
        assert_eq!(schedule.next(0), Some(0));
        assert_eq!(schedule.next(35), Some(30));
        assert_eq!((schedule.next(36), schedule.missed()), (Some(40), 2));
        assert_eq!((schedule.next(1_000), schedule.missed()), (None, 7));
    }

    proptest! {
        #[test]
        fn every_tick_is_taken_or_missed(spent in prop::collection::vec(0_u64..60, 1..60)) {
            let mut schedule = schedule();
            let (mut now, mut taken, mut last) = (0, 0, None);
            for span in spent.into_iter().chain([1_000]) {
                let Some(due) = schedule.next(now) else { break };
                prop_assert!(last < Some(due) && due % 10 == 0);
                (taken, last) = (taken + 1, Some(due));
                now = due.max(now) + span;
            }
            while schedule.next(now).is_some() {
                taken += 1;
                now += 10;
            }
            prop_assert_eq!(taken + schedule.missed(), 10);
        }
    }
}
