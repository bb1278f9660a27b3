//! The shutdown of a node, step by step, from the request to the end. Each step has a time bound,
//! so that neither a sender nor the broker can prevent the node from ending.
//!
//! Refuses to touch sockets and messages: the driver performs each step and reports its outcome.
//!
//! DESIGN N15.

use std::ops::Add;

use crate::limits::{CLOSE_WAIT, DRAIN_WAIT, EMPTY_BYTES_MAX, EMPTY_POLL_EVERY, EMPTY_WAIT};
use plimsoll_schemas::time::Mono;

/// A step of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Running,
    /// Reads what jobs sent before; the sockets are still open.
    Emptying,
    /// Waits until the broker has acknowledged everything held.
    Draining,
    /// Waits until the connection is closed.
    Closing,
    Ended,
}

/// The result of one poll of all sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketPoll {
    /// Datagrams (including empty ones), frames and bodies.
    pub datagrams: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Add for SocketPoll {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { datagrams: self.datagrams + other.datagrams, bytes: self.bytes + other.bytes }
    }
}

/// The current step and its deadline.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    step: Step,
    until: Mono,
    /// When the sockets are polled next while they are emptied.
    next_poll: Mono,
    bytes_left: usize,
}

impl Default for Departure {
    fn default() -> Self {
        let (step, until, next_poll) = (Step::Running, Mono(u64::MAX), Mono(0));
        Self { step, until, next_poll, bytes_left: EMPTY_BYTES_MAX }
    }
}

impl Departure {
    pub fn step(&self) -> Step {
        self.step
    }

    /// When [`Self::on_deadline`] ends the step; while sockets are emptied, when to poll them
    /// again.
    pub fn next_deadline(&self) -> Mono {
        if self.step == Step::Emptying { self.next_poll } else { self.until }
    }

    /// Shutdown is requested. A second request ends the node at once, with everything it still
    /// holds.
    pub fn on_shutdown_requested(&mut self, now: Mono) {
        if self.step == Step::Running {
            (self.step, self.until) = (Step::Emptying, now.plus(EMPTY_WAIT));
        } else {
            self.step = Step::Ended;
        }
    }

    /// The sockets were polled while they are emptied. `awaited`: an unfinished frame or body is
    /// still expected.
    pub fn on_polled(&mut self, now: Mono, poll: SocketPoll, awaited: bool) {
        self.bytes_left = self.bytes_left.saturating_sub(poll.bytes);
        // Bytes without a datagram are part of a frame, of which more may follow.
        let nothing = poll == SocketPoll::default();
        self.next_poll = if nothing { now.plus(EMPTY_POLL_EVERY) } else { now };
        let is_empty = nothing && !awaited || self.bytes_left == 0;
        if self.step == Step::Emptying && (is_empty || now >= self.until) {
            (self.step, self.until) = (Step::Draining, now.plus(DRAIN_WAIT));
        }
    }

    /// No more acknowledgements can arrive on the connection.
    pub fn on_connection_lost(&mut self, now: Mono) {
        if self.step < Step::Closing {
            (self.step, self.until) = (Step::Closing, now.plus(CLOSE_WAIT));
        }
    }

    pub fn on_closed(&mut self) {
        self.step = Step::Ended;
    }

    /// Advances time; `drained` if everything held was acknowledged.
    pub fn on_deadline(&mut self, now: Mono, drained: bool) {
        match self.step {
            Step::Draining if drained || now >= self.until => self.on_connection_lost(now),
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

    const FLOOD: SocketPoll = SocketPoll { datagrams: 9, bytes: 2 * BYTES_PER_WAKE };

    fn requested() -> Departure {
        let mut departure = Departure::default();
        departure.on_shutdown_requested(Mono(0));
        departure
    }

    #[test]
    fn a_sender_that_never_stops_is_not_waited_for() {
        let mut departure = requested();
        let polls = (0..10_000).take_while(|_| {
            departure.on_polled(Mono(1), FLOOD, false);
            departure.step() == Step::Emptying
        });
        assert_eq!(polls.count() + 1, EMPTY_BYTES_MAX / FLOOD.bytes);
        let mut slow = requested();
        slow.on_polled(Mono(0).plus(EMPTY_WAIT), SocketPoll { datagrams: 1, bytes: 0 }, false);
        assert_eq!(slow.step(), Step::Draining);
    }

    #[test]
    fn sockets_that_are_empty_are_not_read_again() {
        let mut departure = requested();
        departure.on_polled(Mono(1), FLOOD, false);
        assert_eq!(departure.step(), Step::Emptying);
        departure.on_polled(Mono(2), SocketPoll { datagrams: 0, bytes: 9 }, false);
        assert_eq!(departure.step(), Step::Emptying, "a part of a frame came");
        departure.on_polled(Mono(2), SocketPoll::default(), false);
        assert_eq!(departure.step(), Step::Draining);
    }

    #[test]
    fn bodies_on_their_way_are_waited_for_without_haste_and_not_for_ever() {
        let mut departure = requested();
        departure.on_polled(Mono(1), SocketPoll::default(), true);
        assert_eq!(departure.step(), Step::Emptying);
        assert_eq!(departure.next_deadline(), Mono(1).plus(EMPTY_POLL_EVERY));
        departure.on_polled(Mono(2), SocketPoll { datagrams: 1, bytes: 9 }, true);
        assert_eq!(departure.next_deadline(), Mono(2), "more may be there already");
        let mut late = departure;
        departure.on_polled(Mono(3), SocketPoll::default(), false);
        assert_eq!(departure.step(), Step::Draining);
        late.on_polled(Mono(0).plus(EMPTY_WAIT), SocketPoll::default(), true);
        assert_eq!(late.step(), Step::Draining);
    }

    #[test]
    fn a_drained_node_closes_at_once_and_ends_when_closed() {
        let mut departure = requested();
        departure.on_polled(Mono(1), SocketPoll::default(), false);
        departure.on_deadline(Mono(2), false);
        assert_eq!(departure.step(), Step::Draining);
        departure.on_deadline(Mono(3), true);
        assert_eq!(departure.step(), Step::Closing);
        departure.on_closed();
        assert_eq!(departure.step(), Step::Ended);
    }

    #[test]
    fn a_second_request_ends_any_step_at_once() {
        let steps: [fn(&mut Departure); 3] = [
            |_| {},
            |departure| departure.on_polled(Mono(0), SocketPoll::default(), false),
            |departure| departure.on_connection_lost(Mono(0)),
        ];
        for (advance, step) in steps.iter().zip([Step::Emptying, Step::Draining, Step::Closing]) {
            let mut departure = requested();
            advance(&mut departure);
            assert_eq!(departure.step(), step);
            departure.on_shutdown_requested(Mono(0));
            assert_eq!(departure.step(), Step::Ended);
        }
    }

    proptest! {
        #[test]
        fn a_silent_broker_and_a_loud_sender_never_hold_a_node_beyond_its_bounds(
            spans_ms in prop::collection::vec(1..900_u64, 1..60),
        ) {
            let (mut departure, mut now) = (requested(), Mono(0));
            let bound = EMPTY_WAIT + DRAIN_WAIT + CLOSE_WAIT + 3 * Duration::from_millis(900);
            for span in spans_ms.iter().cycle() {
                now = now.plus(Duration::from_millis(*span));
                prop_assert!(now <= Mono(0).plus(bound), "{:?} at {now:?}", departure.step());
                departure.on_polled(now, SocketPoll { datagrams: 1, bytes: 0 }, false);
                departure.on_deadline(now, false);
                if departure.step() == Step::Ended {
                    break;
                }
                prop_assert!(departure.next_deadline() > now || departure.step() == Step::Emptying);
            }
        }
    }
}
