//! One connection to the node's stream socket: writes a frame, reads its answer.
//!
//! Neither waits longer than `ANSWER_WAIT`. The next call continues an exchange that was begun, so
//! a node that is stopped and continued costs neither a connection nor a byte sent twice.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::limits::ANSWER_WAIT;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket,
};
use plimsoll_schemas::wire::frame::ANSWER_BYTES;

use crate::registry;

pub(crate) struct Connection {
    stream: UnixStream,
    written: usize,
    answer: [u8; ANSWER_BYTES],
    answered: usize,
}

/// Why there is no answer yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExchangeError {
    /// The node has not answered yet; try again.
    Slow,
    /// The node read the whole frame and closed the connection.
    HungUp,
    /// The connection is broken.
    Broken,
}

impl Connection {
    /// Connects, or fails at once when no node listens.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let address = UnixAddr::new(path)?;
        // Under the lock, so that a forked child can close the descriptor.
        let mut state = registry::lock();
        // Nonblocking until it is connected: `connect` waits while a listener's queue is full, and
        // forks and first records would wait for the lock as long.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let descriptor: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(descriptor.as_raw_fd(), &address)?;
        state.descriptor = Some(descriptor.as_raw_fd());
        drop(state);

        let stream = UnixStream::from(descriptor);
        let connection = Self { stream, written: 0, answer: [0; ANSWER_BYTES], answered: 0 };
        connection.stream.set_nonblocking(false)?;
        connection.stream.set_read_timeout(Some(ANSWER_WAIT))?;
        connection.stream.set_write_timeout(Some(ANSWER_WAIT))?;
        Ok(connection)
    }

    /// Writes what is left of a frame, then reads what is left of its answer.
    pub(crate) fn exchange(&mut self, frame: &[u8]) -> Result<u64, ExchangeError> {
        while self.written < frame.len() {
            // A closed connection must not end the job with SIGPIPE.
            let sent =
                send(self.stream.as_raw_fd(), &frame[self.written..], MsgFlags::MSG_NOSIGNAL);
            self.written += sent.map_err(|errno| exchange_error(io::Error::from(errno).kind()))?;
        }

        while self.answered < ANSWER_BYTES {
            match self.stream.read(&mut self.answer[self.answered..]) {
                Ok(0) => return Err(ExchangeError::HungUp),
                Ok(bytes) => self.answered += bytes,
                Err(error) => return Err(exchange_error(error.kind())),
            }
        }

        (self.written, self.answered) = (0, 0);
        Ok(u64::from_be_bytes(self.answer))
    }
}

fn exchange_error(kind: ErrorKind) -> ExchangeError {
    match kind {
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => ExchangeError::Slow,
        _ => ExchangeError::Broken,
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // From here on a child has nothing to close: a descriptor of this number may be another.
        registry::lock().descriptor = None;
    }
}
