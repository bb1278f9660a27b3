//! Takes several datagrams from the kernel with one call, into buffers that are used again.
//!
//! Decides nothing about what they hold, and never waits.

use std::array;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::limits::{BYTES_PER_WAKE, DATAGRAM_BYTES_MAX, DATAGRAMS_PER_CALL};
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg};

use crate::core::departure::SocketPoll;
use crate::io::cost::{Cost, Stage};

/// One byte more than allowed: the kernel cuts silently, so a full slot shows a cut. Not a
/// multiple of the page, so that the starts of all slots do not share a few lines of the cache.
const SLOT_BYTES: usize = DATAGRAM_BYTES_MAX + 1 + 192;

/// Room for the datagrams of one call. Nothing of it is resident before it was written.
pub(super) struct Batch {
    slots: Box<[u8]>,
    headers: MultiHeaders<()>,
    /// What the longest datagram of the next call is expected to have.
    longest: usize,
}

/// What one call brought.
pub(super) struct Read {
    pub(super) taken: SocketPoll,
    /// The kernel had no more.
    pub(super) is_last: bool,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            slots: vec![0; SLOT_BYTES * DATAGRAMS_PER_CALL].into(),
            // No control messages: nix does not restore their buffer sizes between calls.
            headers: MultiHeaders::preallocate(DATAGRAMS_PER_CALL, None),
            longest: DATAGRAM_BYTES_MAX,
        }
    }
}

impl Batch {
    /// One call: about `bytes` or one datagram, and no more than there are slots for.
    pub(super) fn read(
        &mut self,
        socket: BorrowedFd<'_>,
        bytes: usize,
        cost: &mut Cost,
        mut on_read: impl FnMut(&[u8]),
    ) -> io::Result<Read> {
        // As many as `bytes` hold if each is as long as the longest of late: a call cannot be cut
        // short.
        let most = (bytes / self.longest).clamp(1, DATAGRAMS_PER_CALL);
        let mut slots = self.slots.chunks_exact_mut(SLOT_BYTES);

        let mut slots: [_; DATAGRAMS_PER_CALL] = array::from_fn(|_| {
            // Cannot fail: both have that many.
            let slot = slots.next().expect("there is a slot for each datagram of a call");
            [IoSliceMut::new(&mut slot[..=DATAGRAM_BYTES_MAX])]
        });

        let (fd, slots) = (socket.as_raw_fd(), &mut slots[..most]);
        let read = recvmmsg(fd, &mut self.headers, slots, MsgFlags::MSG_DONTWAIT, None);
        cost.end(Stage::Receive);
        let mut taken = SocketPoll::default();
        // Halved with each call, so that one long datagram does not keep later calls small.
        let mut longest = self.longest / 2;

        for message in read? {
            let datagram = message.iovs().next().unwrap_or_default();
            taken.datagrams += 1;
            taken.bytes += datagram.len();
            longest = longest.max(datagram.len());
            on_read(datagram);
        }

        cost.end(Stage::Intake);
        self.longest = longest.max(BYTES_PER_WAKE / DATAGRAMS_PER_CALL);
        Ok(Read { taken, is_last: taken.datagrams < most })
    }
}
