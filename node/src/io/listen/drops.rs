//! Datagrams that the kernel dropped because a receive buffer was full, and the advice against it.
//!
//! The same count that `SO_RXQ_OVFL` stamps on datagrams, but read after each read: a stamp arrives
//! with the next datagram that fits, so it misses the end of a burst. A datagram is dropped only
//! while others wait to be read, so once those are, the count is whole. On a Unix datagram socket
//! the sender waits or is refused; there the kernel counts nothing.
//!
//! DESIGN N22.

use std::os::fd::AsFd;

use crate::limits::SOCKET_RECEIVE_BYTES;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use nix::sys::socket::{getsockopt, setsockopt};
use nix::{getsockopt_impl, libc, sockopt_impl};

sockopt_impl!(
    /// The kernel's figures about a socket's memory; the last is how many datagrams it dropped.
    MemoryInfo,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    [u32; libc::SK_MEMINFO_DROPS as usize + 1]
);

#[derive(Debug, Default)]
pub(super) struct Drops {
    /// The kernel's count when it was last read; it starts again from 0 after 2^32.
    last: u32,
    pub(super) total: u64,
}

impl Drops {
    /// Datagrams dropped since the last poll.
    pub(super) fn poll(&mut self, key: &'static str, socket: &impl AsFd) -> u64 {
        // Kernels before 4.12 do not report it.
        let Ok([.., count]) = getsockopt(socket, MemoryInfo) else { return 0 };
        let new = u64::from(count.wrapping_sub(std::mem::replace(&mut self.last, count)));
        let before = self.total;
        self.total += new;
        if is_logged(before, self.total) {
            log(key, self.total, receive_bytes(socket));
        }
        new
    }
}

/// The first drop is logged, and each doubling of their number.
fn is_logged(before: u64, now: u64) -> bool {
    now.checked_ilog2() > before.checked_ilog2()
}

fn log(key: &'static str, datagrams: u64, receive_buffer_bytes: usize) {
    if receive_buffer_bytes < SOCKET_RECEIVE_BYTES {
        tracing::warn!(
            socket = key,
            datagrams,
            receive_buffer_bytes,
            "kernel drops datagrams: the receive buffer is small; run \
             `sysctl -w net.core.rmem_max={SOCKET_RECEIVE_BYTES}` and restart the node"
        );
    } else {
        tracing::warn!(
            socket = key,
            datagrams,
            receive_buffer_bytes,
            "kernel drops datagrams: more arrive than the node can read; pack several values into \
             one datagram, or use listen.unix, where senders block"
        );
    }
}

/// Requests a receive buffer. Beyond `net.core.rmem_max` only a privileged process gets it; else
/// the kernel grants less, which is no error.
pub(super) fn request_buffer(socket: &impl AsFd) {
    if setsockopt(socket, RcvBufForce, &SOCKET_RECEIVE_BYTES).is_ok() {
        return;
    }
    if let Err(error) = setsockopt(socket, RcvBuf, &SOCKET_RECEIVE_BYTES) {
        tracing::warn!(%error, "receive buffer stays at the system's default");
    }
}

/// The receive buffer as it was requested; the kernel keeps double of it, for its own needs.
pub(super) fn receive_bytes(socket: &impl AsFd) -> usize {
    getsockopt(socket, RcvBuf).unwrap_or_default() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_drop_and_each_doubling_is_logged() {
        let got = (0..1_000).filter(|n| is_logged(*n, n + 1)).map(|n| n + 1);
        assert_eq!(got.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert!(is_logged(3, 900) && !is_logged(900, 900));
    }
}
