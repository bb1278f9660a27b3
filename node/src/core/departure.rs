//! The way out of a running node: from the first request to end to the last step, each with a
//! bound of its own, so that neither a sender nor a broker can keep a node from ending.
//!
//! Knows nothing of sockets or messages; the driver does what a step asks and says how it went.

use std::ops::Add;

use crate::limits::{CLOSE_WAIT, DRAIN_WAIT, EMPTY_BYTES_MAX, EMPTY_LOOK_EVERY, EMPTY_WAIT};
use plimsoll_schemas::time::Mono;

/// How far a node is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Nobody has asked it to end.
    Running,
    /// It reads what the jobs had sent before; the sockets are still open.
    Emptying,
    /// It waits for the broker to acknowledge what it holds.
    Draining,
    /// It waits for the connection to close.
    Closing,
    /// Nothing is left to do.
    Ended,
}

/// What one look into the sockets brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Datagrams, empty ones too, frames and bodies.
    pub datagrams: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Add for Taken {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { datagrams: self.datagrams + other.datagrams, bytes: self.bytes + other.bytes }
    }
}

/// The current step and when it is over at the latest.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    step: Step,
    until: Mono,
    /// When the sockets are read once more while they are being emptied.
    next_look: Mono,
    bytes_left: usize,
}

impl Default for Departure {
    fn default() -> Self {
        let (step, until, next_look) = (Step::Running, Mono(u64::MAX), Mono(0));
        Self { step, until, next_look, bytes_left: EMPTY_BYTES_MAX }
    }
}

impl Departure {
    /// Where the node is.
    #[must_use]
    pub fn step(&self) -> Step {
        self.step
    }

    /// When [`Self::on_deadline`] moves on whatever else happens; while sockets are read, when they
    /// are read again.
    #[must_use]
    pub fn next_deadline(&self) -> Mono {
        if self.step == Step::Emptying { self.next_look } else { self.until }
    }

    /// Somebody asks the node to end; asked again, it ends at once and leaves behind what it holds.
    pub fn on_asked(&mut self, now: Mono) {
        if self.step == Step::Running {
            (self.step, self.until) = (Step::Emptying, now.plus(EMPTY_WAIT));
        } else {
            self.step = Step::Ended;
        }
    }

    /// The sockets were read once more while they are being emptied. `awaited`: what was begun
    /// before is still on its way, though nothing of it is there.
    pub fn on_taken(&mut self, now: Mono, taken: Taken, awaited: bool) {
        self.bytes_left = self.bytes_left.saturating_sub(taken.bytes);
        // Bytes alone are a part of a frame, of which more may follow.
        let nothing = taken == Taken::default();
        self.next_look = if nothing { now.plus(EMPTY_LOOK_EVERY) } else { now };
        let is_empty = nothing && !awaited || self.bytes_left == 0;
        if self.step == Step::Emptying && (is_empty || now >= self.until) {
            (self.step, self.until) = (Step::Draining, now.plus(DRAIN_WAIT));
        }
    }

    /// The connection can bring no more acknowledgements.
    pub fn on_cut_off(&mut self, now: Mono) {
        if self.step < Step::Closing {
            (self.step, self.until) = (Step::Closing, now.plus(CLOSE_WAIT));
        }
    }

    /// The connection is closed.
    pub fn on_closed(&mut self) {
        self.step = Step::Ended;
    }

    /// Lets time pass; `drained` tells whether everything held was acknowledged.
    pub fn on_deadline(&mut self, now: Mono, drained: bool) {
        match self.step {
            Step::Draining if drained || now >= self.until => self.on_cut_off(now),
            Step::Closing if now >= self.until => self.step = Step::Ended,
            Step::Running | Step::Emptying | Step::Draining | Step::Closing | Step::Ended => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::limits::BYTES_PER_WAKE;
    use proptest::prelude::*;

    use super::*;

    const FLOOD: Taken = Taken { datagrams: 9, bytes: 2 * BYTES_PER_WAKE };

    fn asked() -> Departure {
        let mut departure = Departure::default();
        departure.on_asked(Mono(0));
        departure
    }

    #[test]
    fn a_sender_that_never_stops_is_not_waited_for() {
        let mut departure = asked();
        let looks = (0..10_000).take_while(|_| {
            departure.on_taken(Mono(1), FLOOD, false);
            departure.step() == Step::Emptying
        });
        assert_eq!(looks.count() + 1, EMPTY_BYTES_MAX / FLOOD.bytes);
        let mut slow = asked();
        slow.on_taken(Mono(0).plus(EMPTY_WAIT), Taken { datagrams: 1, bytes: 0 }, false);
        assert_eq!(slow.step(), Step::Draining);
    }

    #[test]
    fn sockets_that_are_empty_are_not_read_again() {
        let mut departure = asked();
        departure.on_taken(Mono(1), FLOOD, false);
        assert_eq!(departure.step(), Step::Emptying);
        departure.on_taken(Mono(2), Taken { datagrams: 0, bytes: 9 }, false);
        assert_eq!(departure.step(), Step::Emptying, "a part of a frame came");
        departure.on_taken(Mono(2), Taken::default(), false);
        assert_eq!(departure.step(), Step::Draining);
    }

    #[test]
    fn bodies_on_their_way_are_waited_for_without_haste_and_not_for_ever() {
        let mut departure = asked();
        departure.on_taken(Mono(1), Taken::default(), true);
        assert_eq!(departure.step(), Step::Emptying);
        assert_eq!(departure.next_deadline(), Mono(1).plus(EMPTY_LOOK_EVERY));
        departure.on_taken(Mono(2), Taken { datagrams: 1, bytes: 9 }, true);
        assert_eq!(departure.next_deadline(), Mono(2), "more may be there already");
        let mut late = departure;
        departure.on_taken(Mono(3), Taken::default(), false);
        assert_eq!(departure.step(), Step::Draining);
        late.on_taken(Mono(0).plus(EMPTY_WAIT), Taken::default(), true);
        assert_eq!(late.step(), Step::Draining);
    }

    #[test]
    fn a_drained_node_closes_at_once_and_ends_when_closed() {
        let mut departure = asked();
        departure.on_taken(Mono(1), Taken::default(), false);
        departure.on_deadline(Mono(2), false);
        assert_eq!(departure.step(), Step::Draining);
        departure.on_deadline(Mono(3), true);
        assert_eq!(departure.step(), Step::Closing);
        departure.on_closed();
        assert_eq!(departure.step(), Step::Ended);
    }

    #[test]
    fn asking_again_ends_any_step_at_once() {
        let steps: [fn(&mut Departure); 3] = [
            |_| {},
            |departure| departure.on_taken(Mono(0), Taken::default(), false),
            |departure| departure.on_cut_off(Mono(0)),
        ];
        for (advance, step) in steps.iter().zip([Step::Emptying, Step::Draining, Step::Closing]) {
            let mut departure = asked();
            advance(&mut departure);
            assert_eq!(departure.step(), step);
            departure.on_asked(Mono(0));
            assert_eq!(departure.step(), Step::Ended);
        }
    }

    proptest! {
        #[test]
        fn a_silent_broker_and_a_loud_sender_never_hold_a_node_beyond_its_bounds(
            spans_ms in prop::collection::vec(1..900_u64, 1..60),
        ) {
            let (mut departure, mut now) = (asked(), Mono(0));
            let bound = EMPTY_WAIT + DRAIN_WAIT + CLOSE_WAIT + 3 * Duration::from_millis(900);
            for span in spans_ms.iter().cycle() {
                now = now.plus(Duration::from_millis(*span));
                prop_assert!(now <= Mono(0).plus(bound), "{:?} at {now:?}", departure.step());
                departure.on_taken(now, Taken { datagrams: 1, bytes: 0 }, false);
                departure.on_deadline(now, false);
                if departure.step() == Step::Ended {
                    break;
                }
                prop_assert!(departure.next_deadline() > now || departure.step() == Step::Emptying);
            }
        }
    }
}
