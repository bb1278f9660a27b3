//! A socket that fails a write when the client receives nothing for some time. hyper has no write
//! timeout.
//!
//! Reads are not bounded here: heads have a timeout of their own, and bodies that of the request.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::slot::ConnectionSlot;

pub(super) struct StallTimeout {
    stream: TcpStream,
    slot: ConnectionSlot,
    timeout: Duration,
    /// Runs while the kernel takes no more.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl StallTimeout {
    pub(super) fn new(stream: TcpStream, slot: ConnectionSlot, timeout: Duration) -> Self {
        Self { stream, slot, timeout, stalled: None }
    }

    fn within_timeout<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let timeout = self.timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for StallTimeout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for StallTimeout {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within_timeout(context, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.within_timeout(context, poll)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// hyper flushes once the writer has nothing left.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.slot.on_written();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Drop for StallTimeout {
    /// Resets the connection, so that the kernel does not keep bytes that the client did not
    /// receive and that no counter covers.
    fn drop(&mut self) {
        if !self.slot.is_settled() {
            // A closed socket has nothing to reset.
            let _reset = self.stream.set_zero_linger();
        }
    }
}
