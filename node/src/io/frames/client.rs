//! One connected client: its unfinished frame, and the answers to its finished ones.

use std::io::{ErrorKind, Read, Write};

use crate::limits::FRAME_READ_BYTES;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use plimsoll_schemas::wire::frame::{Frame, FrameError, PREFIX_BYTES, decode, length};
use socket2::Socket;

use crate::core::captures::SendingProcess;
use crate::core::departure::SocketPoll;
use crate::io::listen::senders::known_process;

pub(super) struct Client {
    pub(super) stream: Socket,
    /// What arrived of a frame that is not whole yet.
    buffer: Vec<u8>,
    /// Nothing more is read.
    pub(super) is_ended: bool,
    /// The process that connected, if the kernel states it, and when it was accepted. It may have
    /// passed the connection to another one.
    pub(super) process: Option<SendingProcess>,
}

/// Why a client is disconnected.
pub(super) enum Ended {
    /// By an error that the core already received.
    Rejected,
    Gone,
}

impl Client {
    pub(super) fn new(stream: Socket) -> Self {
        let process = getsockopt(&stream, PeerCredentials).ok();
        let process = process.and_then(|peer| known_process(peer.pid()));
        Self { stream, buffer: Vec::new(), is_ended: false, process }
    }

    pub(super) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes that the buffer takes, whether there is something in them or not.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Nothing more is read; what came of an unfinished frame is dropped.
    pub(super) fn end(&mut self) {
        (self.is_ended, self.buffer) = (true, Vec::new());
    }

    /// Writes answers; false when they find no room, since the client has left hundreds of them
    /// unread, or when it is gone.
    pub(super) fn answer(&mut self, answers: &[u8]) -> bool {
        matches!(self.stream.write(answers), Ok(bytes) if bytes == answers.len())
    }

    /// Reads once, and hands over the frames that are whole now.
    pub(super) fn read(
        &mut self,
        taken: &mut SocketPoll,
        mut on_frame: impl FnMut(Result<Frame, FrameError>) -> Option<()>,
    ) -> Result<(), Ended> {
        let mut chunk = [0; FRAME_READ_BYTES];
        let bytes = match self.stream.read(&mut chunk) {
            Ok(0) => return Err(Ended::Gone),
            Ok(bytes) => bytes,
            Err(error) if is_passing(error.kind()) => return Ok(()),
            Err(_) => return Err(Ended::Gone),
        };

        taken.bytes += bytes;
        self.buffer.extend_from_slice(&chunk[..bytes]);
        let mut at = 0;

        while let Some(body) = next_body(&self.buffer[at..], &mut on_frame)? {
            at += PREFIX_BYTES + body.len();
            taken.datagrams += 1;
            on_frame(decode(body)).ok_or(Ended::Rejected)?;
        }

        if at > 0 {
            // Made anew, since what was read leaves its memory behind: idle clients take none.
            self.buffer = self.buffer[at..].to_vec();
        }

        Ok(())
    }
}

/// The frame at the front, once it is whole.
fn next_body<'a>(
    bytes: &'a [u8],
    on_frame: &mut impl FnMut(Result<Frame, FrameError>) -> Option<()>,
) -> Result<Option<&'a [u8]>, Ended> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    match length(*prefix) {
        Ok(length) => Ok(rest.get(..length)),
        Err(error) => {
            on_frame(Err(error));
            Err(Ended::Rejected)
        }
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
