//! A machine's clocks: neither shows the virtual time. The monotonic one drifts and restarts with
//! each process; the wall clock is off, drifts, and jumps.

use std::time::Duration;

use plimsoll_schemas::time::{Mono, Now, Wall};

use super::schedule::Time;

/// Where every run's calendar begins (September 2020).
const EPOCH: i64 = 1_600_000_000_000_000_000;
const MILLION: u64 = 1_000_000;

/// The clocks of one machine.
#[derive(Clone, Debug)]
pub struct Clocks {
    drift_ppm: i64,
    /// How far the wall clock is ahead, in nanoseconds.
    ahead: i64,
}

impl Clocks {
    /// Clocks that gain `drift_ppm` microseconds each second and begin `ahead` nanoseconds off.
    pub fn new(drift_ppm: i64, ahead: i64) -> Self {
        Self { drift_ppm, ahead }
    }

    /// The wall clock is set by this many nanoseconds.
    pub fn jump(&mut self, by: i64) {
        self.ahead += by;
    }

    /// What a process that began at `born` reads.
    pub fn now(&self, born: Time, at: Time) -> Now {
        let wall = EPOCH + signed(self.shown(at)) + self.ahead;
        Now {
            mono: Mono(self.shown(at.saturating_sub(born))),
            wall: Wall(u64::try_from(wall).unwrap_or(0)),
        }
    }

    /// The first virtual time at which that process reads `mono`; the end of time if it is out of
    /// range.
    pub fn when(&self, born: Time, mono: Mono) -> Time {
        let span = (u128::from(mono.0) * u128::from(MILLION)).div_ceil(u128::from(self.pace()));
        u64::try_from(span).map_or(Time::MAX, |span| born.saturating_add(span))
    }

    fn shown(&self, span: Time) -> u64 {
        let shown = u128::from(span) * u128::from(self.pace()) / u128::from(MILLION);
        u64::try_from(shown).unwrap_or(u64::MAX)
    }

    /// What the clock shows after a million nanoseconds.
    fn pace(&self) -> u64 {
        MILLION.saturating_add_signed(self.drift_ppm).max(1)
    }
}

fn signed(span: Time) -> i64 {
    i64::try_from(span).unwrap_or(i64::MAX)
}

/// A span of virtual time for code that takes durations.
pub fn duration(span: Time) -> Duration {
    Duration::from_nanos(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_reached_at_its_time_and_not_before() {
        for drift in [-900, -1, 0, 1, 900] {
            let clocks = Clocks::new(drift, -5_000_000_000);
            for mono in [0, 1, 999_999, 1_000_000, 7_123_456_789, 86_400_000_000_000] {
                let at = clocks.when(77, Mono(mono));
                assert!(clocks.now(77, at).mono >= Mono(mono), "{drift} {mono}");
                assert!(at == 77 || clocks.now(77, at - 1).mono < Mono(mono), "{drift} {mono}");
            }
        }
        assert_eq!(Clocks::new(0, 0).when(1, Mono(u64::MAX)), Time::MAX);
    }

    #[test]
    fn a_jump_moves_the_calendar_and_not_the_deadlines() {
        let mut clocks = Clocks::new(0, 0);
        let before = clocks.now(0, 10);
        clocks.jump(-3);
        let after = clocks.now(0, 11);
        assert_eq!((after.mono, after.wall), (Mono(11), Wall(before.wall.0 - 2)));
    }
}
