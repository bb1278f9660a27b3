//! One connection to the node's stream socket: writes a frame, reads its answer.
//!
//! Neither waits longer than `ANSWER_WAIT`. What was begun is gone on with the next time, so a
//! node that is stopped and goes on costs neither a connection nor a byte sent twice.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::limits::ANSWER_WAIT;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket,
};
use plimsoll_schemas::wire::frame::ANSWER_BYTES;

use crate::gate;

pub(crate) struct Line {
    stream: UnixStream,
    written: usize,
    answer: [u8; ANSWER_BYTES],
    answered: usize,
}

/// Why there is no answer yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The node takes its time; ask again.
    Slow,
    /// The node read the whole frame and hung up.
    HungUp,
    /// The connection is no more.
    Broken,
}

impl Line {
    /// Connects, or finds at once that nobody listens.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let address = UnixAddr::new(path)?;
        // Under the lock, so that a forked child knows what it has to close.
        let mut state = gate::lock();
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let descriptor: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(descriptor.as_raw_fd(), &address)?;
        state.descriptor = Some(descriptor.as_raw_fd());
        drop(state);
        let stream = UnixStream::from(descriptor);
        let line = Self { stream, written: 0, answer: [0; ANSWER_BYTES], answered: 0 };
        line.stream.set_nonblocking(false)?;
        line.stream.set_read_timeout(Some(ANSWER_WAIT))?;
        line.stream.set_write_timeout(Some(ANSWER_WAIT))?;
        Ok(line)
    }

    /// Writes what is left of a frame, then reads what is left of its answer.
    pub(crate) fn exchange(&mut self, frame: &[u8]) -> Result<u64, Fault> {
        while self.written < frame.len() {
            // A node that has gone must not end the job with SIGPIPE.
            let sent =
                send(self.stream.as_raw_fd(), &frame[self.written..], MsgFlags::MSG_NOSIGNAL);
            self.written += sent.map_err(|errno| fault(io::Error::from(errno).kind()))?;
        }
        while self.answered < ANSWER_BYTES {
            match self.stream.read(&mut self.answer[self.answered..]) {
                Ok(0) => return Err(Fault::HungUp),
                Ok(bytes) => self.answered += bytes,
                Err(error) => return Err(fault(error.kind())),
            }
        }
        (self.written, self.answered) = (0, 0);
        Ok(u64::from_be_bytes(self.answer))
    }
}

fn fault(kind: ErrorKind) -> Fault {
    match kind {
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Fault::Slow,
        _ => Fault::Broken,
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // From here on a child has nothing to close: a descriptor of this number may be another.
        gate::lock().descriptor = None;
    }
}
