//! Steps of the wall clock, such as NTP's first correction or an operator's.
//!
//! An aggregator takes the time between the end of a message's interval and its sending from two
//! readings of this node's clock. A step between the two would count as age, so samples would be
//! placed an hour in the past after a step of an hour forward. So what waits is placed by the clock
//! that sends it.
//!
//! DESIGN N51.

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::CLOCK_STEPS_MAX;
use plimsoll_schemas::time::{Mono, Now, Wall, nanos};

/// Difference of the two clocks' progress between two readings from which on it is a step. Smaller
/// ones are slews, and pauses of the process between reading one clock and the other; no window of
/// an aggregator shows them.
const STEP_MIN: Duration = Duration::from_millis(500);

/// The latest steps of the wall clock.
#[derive(Debug, Default)]
pub(super) struct ClockSteps {
    /// The latest reading; `None` before the first.
    latest: Option<Now>,
    /// When each was noticed, and by how many nanoseconds the clock was set forward.
    steps: VecDeque<(Mono, i128)>,
}

impl ClockSteps {
    /// Compares both clocks with the reading before.
    pub(super) fn on_reading(&mut self, now: Now) {
        let Some(before) = self.latest.replace(now) else { return };
        let expected = before.wall.plus(now.mono.since(before.mono));
        let forward = i128::from(now.wall.0) - i128::from(expected.0);
        if forward.unsigned_abs() < u128::from(nanos(STEP_MIN)) {
            return;
        }
        self.steps.push_back((now.mono, forward));
        if self.steps.len() > CLOCK_STEPS_MAX {
            self.steps.pop_front();
        }
    }

    /// `wall`, which the clock showed at `read`, as the clock counts now.
    pub(super) fn by_present_clock(&self, wall: Wall, read: Mono) -> Wall {
        let since = self.steps.iter().filter(|(noticed, _)| *noticed > read);
        let forward: i128 = since.map(|(_, forward)| forward).sum();
        let wall = i128::from(wall.0) + forward;
        Wall(u64::try_from(wall.max(0)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// The second `n` of a clock that was set forward by so much.
    fn at(n: u64, forward: Duration) -> Now {
        let start = Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) };
        let now = start.after(Duration::from_secs(n));
        Now { wall: now.wall.plus(forward), ..now }
    }

    #[test]
    fn what_was_read_before_a_step_is_moved_by_it_and_what_came_after_is_not() {
        let mut steps = ClockSteps::default();
        let (before, after) = (at(1, Duration::ZERO), at(2, HOUR));
        [at(0, Duration::ZERO), before, after].into_iter().for_each(|now| steps.on_reading(now));
        assert_eq!(steps.by_present_clock(before.wall, before.mono), before.wall.plus(HOUR));
        assert_eq!(steps.by_present_clock(after.wall, after.mono), after.wall);
        // And back again.
        steps.on_reading(at(3, Duration::ZERO));
        assert_eq!(steps.by_present_clock(before.wall, before.mono), before.wall);
        assert_eq!(steps.by_present_clock(after.wall, after.mono), after.wall.minus(HOUR));
    }

    #[test]
    fn a_slew_is_no_step_however_long_it_lasts() {
        let mut steps = ClockSteps::default();
        for second in 0..10_000 {
            steps.on_reading(at(second, Duration::from_micros(500 * second)));
        }
        assert_eq!(steps.by_present_clock(Wall(7), Mono(0)), Wall(7));
    }

    #[test]
    fn steps_are_bounded_and_no_time_leaves_its_type() {
        let mut steps = ClockSteps::default();
        for second in 0..10 * CLOCK_STEPS_MAX as u64 {
            steps.on_reading(at(second, if second % 2 == 0 { HOUR } else { Duration::ZERO }));
        }
        assert_eq!(steps.steps.len(), CLOCK_STEPS_MAX);
        let mut steps = ClockSteps::default();
        let of = |wall| Now { mono: Mono(0), wall: Wall(wall) };
        steps.on_reading(of(0));
        steps.on_reading(Now { mono: Mono(1), ..of(u64::MAX) });
        assert_eq!(steps.by_present_clock(Wall(9), Mono(0)), Wall(u64::MAX));
        steps.on_reading(Now { mono: Mono(2), ..of(0) });
        steps.on_reading(Now { mono: Mono(3), ..of(0) });
        assert_eq!(steps.by_present_clock(Wall(9), Mono(1)), Wall(0));
    }
}
