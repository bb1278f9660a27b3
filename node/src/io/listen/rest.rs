//! How long a socket that was read empty is left alone, so that one wake finds many datagrams: to
//! be woken costs ten times what reading a datagram does.
//!
//! It rests only while datagrams keep coming, so a single one is read at once. What may come
//! during a rest has room in the receive buffer, with a sixth over. Only the socket rests:
//! signals, broker and pages are handled meanwhile, and a rest is cut short before an interval
//! closes.
//!
//! DESIGN N23, N62.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use crate::limits::{DATAGRAMS_PER_REST, REST_DATAGRAMS_PER_SECOND, REST_MAX};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use plimsoll_clock::{Deadline, Stopwatch};
use tokio::io::unix::AsyncFd;

use crate::io::readiness::watch;

/// What the kernel takes from a receive buffer for one small datagram.
const DATAGRAM_ROOM_BYTES: u64 = 832;
/// Of a receive buffer, as requested: five sixths of the double that the kernel keeps.
const ROOM_SHARE: (u64, u64) = (5, 3);
/// A rest that brings fewer datagrams than this costs more than it saves.
const WORTH: u128 = 2;

/// The rests of one socket.
pub(super) struct Rest {
    /// The runtime's own timers count milliseconds, which a small receive buffer cannot wait for.
    timer: AsyncFd<Timer>,
    longest: Duration,
    until: Option<Deadline>,
    /// Since the socket was last empty.
    since_empty: Stopwatch,
    /// Datagrams read since then.
    datagrams: usize,
}

struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Rest {
    /// For a socket with a receive buffer of this many bytes; 0 when it never rests.
    pub(super) fn new(receive_bytes: usize) -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = Timer(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
        Ok(Self {
            timer: watch(timer)?,
            longest: longest(receive_bytes),
            until: None,
            since_empty: Stopwatch::start(),
            datagrams: 0,
        })
    }

    /// Waits for the end of the current rest. Cancel safe.
    pub(super) async fn over(&self) {
        while !self.is_over() {
            if let Ok(mut fired) = self.timer.readable().await {
                fired.clear_ready();
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until.has_passed())
    }

    /// The socket was read; true when it rests from now on.
    pub(super) fn on_read(&mut self, datagrams: usize, is_empty: bool) -> bool {
        self.until = None;
        self.datagrams += datagrams;
        if !is_empty {
            return false;
        }
        let datagrams = std::mem::take(&mut self.datagrams);
        let due = due(datagrams, self.since_empty.lap(), self.longest);
        !due.is_zero() && self.begin(due)
    }

    /// Rests for `span`; false when there is no timer for it.
    pub(super) fn begin(&mut self, span: Duration) -> bool {
        // Taken first: once the timer has fired, the deadline has passed.
        let until = Deadline::within(span);
        let once = Expiration::OneShot(TimeSpec::from(span));
        let is_set = self.timer.get_ref().0.set(once, TimerSetTimeFlags::empty()).is_ok();
        self.until = is_set.then_some(until);
        is_set
    }

    /// Ends the current rest; the next read decides on another.
    pub(super) fn cut_short(&mut self) {
        self.until = None;
    }

    /// Ends the current rest, and there is none any more.
    pub(super) fn end(&mut self) {
        (self.until, self.longest) = (None, Duration::ZERO);
    }
}

/// The longest rest that a receive buffer of this many bytes, as requested, allows.
pub(super) fn longest(receive_bytes: usize) -> Duration {
    let room = receive_bytes as u64 * ROOM_SHARE.0 / ROOM_SHARE.1 / DATAGRAM_ROOM_BYTES;
    Duration::from_micros(room * 1_000_000 / REST_DATAGRAMS_PER_SECOND).min(REST_MAX)
}

/// The rest that is due now that `datagrams` were read, all that had come within `span`.
fn due(datagrams: usize, span: Duration, longest: Duration) -> Duration {
    let span_ns = span.as_nanos().max(1);
    if datagrams as u128 * longest.as_nanos() < WORTH * span_ns {
        return Duration::ZERO;
    }
    let one_rest = span_ns * DATAGRAMS_PER_REST as u128 / datagrams as u128;
    longest.min(Duration::from_nanos(u64::try_from(one_rest).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_rest_ends() {
        let mut rest = Rest::new(4_194_304).unwrap();
        for _rest in 0..1_000 {
            assert!(rest.begin(Duration::from_micros(50)));
            let over = tokio::time::timeout(Duration::from_secs(30), rest.over());
            over.await.expect("a rest of 50 us is over within 30 s");
        }
    }

    #[test]
    fn a_rest_is_as_long_as_the_buffer_has_room_for() {
        for (receive_bytes, want_us) in [(0, 0), (212_992, 1_065), (4_194_304, 20_000)] {
            assert_eq!(longest(receive_bytes), Duration::from_micros(want_us), "{receive_bytes}");
        }
    }

    #[test]
    fn a_node_rests_while_datagrams_keep_coming_and_for_some_turns_at_most() {
        let (us, ns) = (Duration::from_micros, Duration::from_nanos);
        let (long, short) = (REST_MAX, us(1_065));
        for (datagrams, span, longest, want) in [
            (0, us(1), long, us(0)),
            (1, us(1_000_000), long, us(0)),
            (1, us(10_001), long, us(0)),
            (1, us(10_000), long, us(20_000)),
            (5, us(5_000), long, us(20_000)),
            (1, us(1_000), short, us(0)),
            (10, us(1_000), short, us(1_065)),
            (10, us(10), short, us(1_024)),
            (100, us(1_000), long, us(10_240)),
            (250, us(600), long, ns(2_457_600)),
            (5_000, us(5_000), long, us(1_024)),
            (1, us(0), long, ns(1_024)),
            (1, us(1), us(0), us(0)),
        ] {
            assert_eq!(due(datagrams, span, longest), want, "{datagrams} in {span:?}, {longest:?}");
        }
    }
}
