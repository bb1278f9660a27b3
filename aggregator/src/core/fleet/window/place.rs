//! When samples were taken, as the aggregator sees it: clocks of nodes may say anything.

use crate::limits::CLOCK_AHEAD_MAX;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::time::Wall;

/// Where a snapshot's time lies as seen from the aggregator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeliness {
    /// Within every window.
    InTime,
    /// Too old for at least the shortest window.
    Late,
    /// Further ahead than clocks may differ; taken as now.
    Ahead,
}

/// When samples were taken, and from where they are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Windows that end before this are never shown again; the present, or, while the past is
    /// caught up with, what has been judged of it.
    pub shown: Wall,
    /// When the samples arrived.
    pub now: Wall,
    /// When they were taken, no later than `now`.
    pub taken: Wall,
}

/// Judges a snapshot's time, and gives the time under which it is booked.
#[must_use]
pub fn place(now: Wall, taken: Wall) -> (Wall, Timeliness) {
    if taken > now.plus(CLOCK_AHEAD_MAX) {
        return (now, Timeliness::Ahead);
    }
    let late = now.since(taken) >= Window::TenSeconds.span();
    (taken.min(now), if late { Timeliness::Late } else { Timeliness::InTime })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_ahead_is_taken_as_now_and_said_so() {
        let seconds = Duration::from_secs;
        let now = Wall(1_700_000_000_000_000_000);
        let far = now.plus(seconds(3_600));
        assert_eq!(place(now, far), (now, Timeliness::Ahead));
        assert_eq!(place(now, now.plus(seconds(1))), (now, Timeliness::InTime));
        let past = now.minus(seconds(10));
        assert_eq!(place(now, past), (past, Timeliness::Late));
        assert_eq!(place(now, Wall(0)), (Wall(0), Timeliness::Late));
    }
}
