//! How long the node rests after it has read its sockets empty, so that one wake finds many
//! datagrams: to be woken costs ten times what reading a datagram does.
//!
//! It rests only while datagrams keep coming, so a single one is read at once. What may come
//! during a rest has room in the receive buffer twice over, and no more than one turn reads.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use plimsoll_schemas::limits::node::{DATAGRAMS_PER_WAKE, REST_DATAGRAMS_PER_SECOND, REST_MAX};

/// What the kernel takes from a receive buffer for one small datagram.
const DATAGRAM_ROOM_BYTES: u64 = 768;
/// A rest that brings fewer datagrams than this costs more than it saves.
const WORTH: u128 = 2;

/// The longest rest that a receive buffer of so many bytes (as asked for; the kernel keeps
/// double of it) allows.
pub(super) fn longest(receive_bytes: usize) -> Duration {
    let room = receive_bytes as u64 / DATAGRAM_ROOM_BYTES;
    Duration::from_micros(room * 1_000_000 / REST_DATAGRAMS_PER_SECOND).min(REST_MAX)
}

/// The rest that is due now that `datagrams` were read, all that had come within `span`.
pub(super) fn due(datagrams: usize, span: Duration, longest: Duration) -> Duration {
    let span_ns = span.as_nanos().max(1);
    if datagrams as u128 * longest.as_nanos() < WORTH * span_ns {
        return Duration::ZERO;
    }
    let one_turn = span_ns * DATAGRAMS_PER_WAKE as u128 / datagrams as u128;
    longest.min(Duration::from_nanos(u64::try_from(one_turn).unwrap_or(u64::MAX)))
}

/// Rests this thread: tasks of the runtime wait too, and so do sockets, except `eager`, whose
/// senders would wait with it.
pub(super) fn rest(eager: Option<&impl AsFd>, span: Duration) {
    let mut eager = eager.map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN));
    // Whatever ends the rest early, a signal for one, is seen to in the next turn.
    let _ended = ppoll(eager.as_mut_slice(), Some(span.into()), None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_as_long_as_the_buffer_has_room_for() {
        for (receive_bytes, want_us) in [(0, 0), (212_992, 692), (4_194_304, 5_000)] {
            assert_eq!(longest(receive_bytes), Duration::from_micros(want_us), "{receive_bytes}");
        }
    }

    #[test]
    fn a_node_rests_while_datagrams_keep_coming_and_for_one_turn_at_most() {
        let (us, ns) = (Duration::from_micros, Duration::from_nanos);
        let (long, short) = (REST_MAX, us(692));
        for (datagrams, span, longest, want) in [
            (0, us(1), long, us(0)),
            (1, us(1_000_000), long, us(0)),
            (1, us(2_501), long, us(0)),
            (1, us(2_500), long, us(5_000)),
            (5, us(5_000), long, us(5_000)),
            (1, us(1_000), short, us(0)),
            (10, us(100), long, us(2_560)),
            (10, us(100), short, us(692)),
            (250, us(600), long, ns(614_400)),
            (5_000, us(5_000), long, us(256)),
            (1, us(0), long, ns(256)),
            (1, us(1), us(0), us(0)),
        ] {
            assert_eq!(due(datagrams, span, longest), want, "{datagrams} in {span:?}, {longest:?}");
        }
    }
}
