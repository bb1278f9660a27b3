//! Takes datagrams one at a time, each with the user who sent it, and refuses those of others.
//!
//! Only for a socket with `SO_PASSCRED`, for which the kernel states the sender: a datagram without
//! one is refused.
//!
//! DESIGN N71.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg};

use crate::config::SocketAccess;
use crate::core::departure::SocketPoll;
use crate::io::cost::{Cost, Stage};
use crate::limits::DATAGRAM_BYTES_MAX;

use super::batch::Read;
use crate::io::unix_path::Admission;

/// Who may send, and room for one datagram.
pub(super) struct Senders {
    admission: Admission,
    /// One byte more than allowed: the kernel cuts silently, so a full buffer shows a cut.
    buffer: Box<[u8]>,
    /// Room for the sender alone: descriptors that come with a datagram find none and are closed.
    control: Vec<u8>,
}

impl Senders {
    /// `None` when anyone may send.
    pub(super) fn new(access: &SocketAccess) -> Option<Self> {
        let admission = Admission::new("listen.unix", access);
        (!admission.is_open_to_all()).then(|| Self {
            admission,
            buffer: vec![0; DATAGRAM_BYTES_MAX + 1].into(),
            control: cmsg_space!(UnixCredentials),
        })
    }

    /// One call, which never waits. Hands over a datagram, or that one was refused.
    pub(super) fn read(
        &mut self,
        socket: BorrowedFd<'_>,
        cost: &mut Cost,
        on_read: impl FnOnce(Option<&[u8]>),
    ) -> io::Result<Read> {
        let Self { admission, buffer, control } = self;
        let mut parts = [IoSliceMut::new(buffer)];
        let (flags, fd) = (MsgFlags::MSG_DONTWAIT, socket.as_raw_fd());
        let message = recvmsg::<()>(fd, &mut parts, Some(control), flags);
        cost.end(Stage::Receive);
        let message = message?;

        let sender = message.cmsgs().ok().into_iter().flatten().find_map(|control| match control {
            ControlMessageOwned::ScmCredentials(sender) => Some(sender.uid()),
            _ => None,
        });

        let bytes = message.bytes;
        on_read(admission.admits(sender).then(|| &buffer[..bytes]));
        cost.end(Stage::Intake);
        // A call for one datagram does not show whether it was the last.
        Ok(Read { taken: SocketPoll { datagrams: 1, bytes }, is_last: false })
    }
}
