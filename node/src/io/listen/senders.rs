//! Takes datagrams one at a time, each with the user and the process that sent it, and refuses
//! those of users who may not send.
//!
//! Only for a socket with `SO_PASSCRED`, for which the kernel states the sender: where users are
//! listed, a datagram without one is refused.
//!
//! DESIGN N71, N93.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg};
use plimsoll_clock::since_boot;

use crate::config::SocketAccess;
use crate::core::captures::SendingProcess;
use crate::core::departure::SocketPoll;
use crate::io::cost::{Cost, Stage};
use crate::limits::DATAGRAM_BYTES_MAX;

use super::batch::Read;
use crate::io::unix_path::Admission;

/// A datagram that was admitted.
pub(super) struct Sent<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) process: Option<SendingProcess>,
}

/// Who may send, and room for one datagram.
pub(super) struct Senders {
    admission: Admission,
    /// One byte more than allowed: the kernel cuts silently, so a full buffer shows a cut.
    buffer: Box<[u8]>,
    /// Room for the sender alone: descriptors that come with a datagram find none and are closed.
    control: Vec<u8>,
}

/// A process that the kernel states now. It states 0 for one of another pid namespace, and for a
/// datagram that was sent before it was asked.
pub(in crate::io) fn known_process(pid: i32) -> Option<SendingProcess> {
    let pid = u32::try_from(pid).ok().filter(|pid| *pid > 0)?;
    Some(SendingProcess { pid, alive_at: since_boot() })
}

impl Senders {
    pub(super) fn new(access: &SocketAccess) -> Self {
        Self {
            admission: Admission::new("listen.unix", access),
            buffer: vec![0; DATAGRAM_BYTES_MAX + 1].into(),
            control: cmsg_space!(UnixCredentials),
        }
    }

    /// One call, which never waits. Hands over a datagram, or that one was refused.
    pub(super) fn read(
        &mut self,
        socket: BorrowedFd<'_>,
        cost: &mut Cost,
        on_read: impl FnOnce(Option<Sent<'_>>),
    ) -> io::Result<Read> {
        let Self { admission, buffer, control } = self;
        let mut parts = [IoSliceMut::new(buffer)];
        let (flags, fd) = (MsgFlags::MSG_DONTWAIT, socket.as_raw_fd());
        let message = recvmsg::<()>(fd, &mut parts, Some(control), flags);
        cost.end(Stage::Receive);
        let message = message?;

        let sender = message.cmsgs().ok().into_iter().flatten().find_map(|control| match control {
            ControlMessageOwned::ScmCredentials(sender) => Some(sender),
            _ => None,
        });

        let bytes = message.bytes;
        let user = sender.as_ref().map(UnixCredentials::uid);
        let is_admitted = admission.is_open_to_all() || admission.admits(user);
        let process = sender.and_then(|sender| known_process(sender.pid()));
        on_read(is_admitted.then(|| Sent { bytes: &buffer[..bytes], process }));
        cost.end(Stage::Intake);
        // A call for one datagram does not show whether it was the last.
        Ok(Read { taken: SocketPoll { datagrams: 1, bytes }, is_last: false })
    }
}
