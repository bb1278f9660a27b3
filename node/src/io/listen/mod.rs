//! Datagram sockets for DogStatsD.
//!
//! The driver waits until a socket is readable and then passes a bounded number of datagrams from
//! the kernel to its core, without a task, a channel or a copy in between. Several come
//! with one call (`batch`); between reads a socket rests as long as it may (`rest`); what
//! the kernel dropped is read back (`drops`).

mod batch;
mod drops;
mod rest;
pub(super) mod senders;

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crate::limits::{BYTES_PER_WAKE, DATAGRAMS_PER_WAKE, UNIX_QUEUE_DATAGRAMS};
use nix::sys::socket::sockopt::PassCred;
use nix::sys::socket::{SockType, setsockopt};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use self::batch::Batch;
use self::drops::Drops;
use self::rest::Rest;
use self::senders::{Senders, Sent};
use super::cost::Cost;
use super::listen_error::ListenError;
use super::readiness::watch;
use super::unix_path::{self, BoundSocket, SocketFile};
use crate::config::SocketAccess;
use crate::core::departure::SocketPoll;
use crate::core::intake::SocketEvent;

/// The sockets of a node, and what it reads them with.
pub struct Sockets {
    udp: Listener,
    unix: Listener,
    batch: Batch,
}

impl Sockets {
    /// Opens what is configured; within a runtime. `access` is that of the Unix socket.
    pub fn open(
        udp: Option<SocketAddr>,
        unix: Option<&Path>,
        access: &SocketAccess,
    ) -> Result<Self, ListenError> {
        let (udp, unix) = (Listener::udp(udp)?, Listener::unix(unix, access)?);
        Ok(Self { udp, unix, batch: Batch::default() })
    }

    /// Where the UDP socket really listens.
    pub fn udp_address(&self) -> Option<SocketAddr> {
        match &*self.udp.open.as_ref()?.socket {
            Socket::Udp(socket) => socket.local_addr().ok(),
            Socket::Unix { .. } => None,
        }
    }

    /// Waits until there may be something to read, for ever without sockets. Cancel safe.
    pub async fn readable(&self) {
        let (mut unix, mut udp) = (pin!(self.unix.readable()), pin!(self.udp.readable()));
        poll_fn(|context| match unix.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => udp.as_mut().poll(context),
        })
        .await;
    }

    /// Reads what is there, up to a bound. Both sockets take their turn whichever woke us, so
    /// that a flood on one does not starve the other.
    pub fn take(
        &mut self,
        cost: &mut Cost,
        mut on_event: impl FnMut(SocketEvent<'_>),
    ) -> SocketPoll {
        let unix = self.unix.take(&mut self.batch, cost, &mut on_event);
        let udp = self.udp.take(&mut self.batch, cost, &mut on_event);
        unix + udp
    }

    /// Whether datagrams on the Unix socket carry the process that sent them from now on. They are
    /// then taken one at a time.
    pub fn search_senders(&mut self, is_searching: bool) {
        self.unix.search_senders(is_searching);
    }

    /// Whether the last [`Self::take`] left nothing behind; of a socket that rests, as far as it
    /// was read.
    pub fn is_empty(&self) -> bool {
        self.unix.is_empty && self.udp.is_empty
    }

    /// The next read takes what is there, also from a socket that rests.
    pub fn cut_rests_short(&mut self) {
        self.rests().for_each(Rest::cut_short);
    }

    /// No socket rests any more: what is there is read at once.
    pub fn end_rests(&mut self) {
        self.rests().for_each(Rest::end);
    }

    fn rests(&mut self) -> impl Iterator<Item = &mut Rest> {
        let listeners = [&mut self.udp, &mut self.unix].into_iter();
        listeners.flat_map(|listener| &mut listener.open).map(|open| &mut open.rest)
    }

    /// Closes them; what they still hold is lost.
    pub fn close(&mut self) {
        (self.udp.open, self.unix.open) = (None, None);
    }

    /// Datagrams that the kernel dropped so far, by socket. On a Unix datagram socket the sender
    /// waits or is refused instead.
    pub fn dropped(&self) -> [(&'static str, u64); 2] {
        [("udp", self.udp.drops.total), ("unix", self.unix.drops.total)]
    }
}

/// One socket, or none: reading from an absent one waits for ever.
struct Listener {
    open: Option<Open>,
    /// While datagrams carry their senders: always if not anyone may send.
    senders: Option<Senders>,
    /// Of a Unix socket to which anyone may send.
    open_access: Option<SocketAccess>,
    drops: Drops,
    is_empty: bool,
}

struct Open {
    socket: Arc<Socket>,
    /// Gone while the socket rests, or else each datagram would wake us.
    watch: Option<AsyncFd<Arc<Socket>>>,
    rest: Rest,
}

enum Socket {
    Udp(UdpSocket),
    Unix { socket: UnixDatagram, _file: SocketFile },
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket) => socket.as_fd(),
            Self::Unix { socket, .. } => socket.as_fd(),
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Socket {
    fn key(&self) -> &'static str {
        match self {
            Self::Udp(_) => "listen.udp",
            Self::Unix { .. } => "listen.unix",
        }
    }
}

impl Open {
    /// Only a UDP socket rests: what it has no room for is lost at worst, and its buffer is
    /// large. The queue of a Unix socket is short, and its senders would wait.
    fn new(socket: Socket) -> io::Result<Self> {
        drops::request_buffer(&socket);
        let room = match socket {
            Socket::Udp(_) => drops::receive_bytes(&socket),
            Socket::Unix { .. } => 0,
        };
        let (socket, rest) = (Arc::new(socket), Rest::new(room)?);
        let watch = Some(watch(Arc::clone(&socket))?);
        Ok(Self { socket, watch, rest })
    }

    async fn readable(&self) -> io::Result<()> {
        match &self.watch {
            Some(watch) => watch.readable().await.map(drop),
            None => {
                self.rest.over().await;
                Ok(())
            }
        }
    }

    /// Reads if there may be something; `read` answers `WouldBlock` once it was all.
    fn try_read(&self, read: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match &self.watch {
            Some(watch) => watch.try_io(Interest::READABLE, |_| read()),
            None if self.rest.is_over() => read(),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// After a read: the socket rests, or is watched, or is read again at once.
    fn rest_or_watch(&mut self, datagrams: usize, is_empty: bool) {
        if !self.rest.is_over() {
            return;
        }
        if self.rest.on_read(datagrams, is_empty) {
            self.watch = None;
        } else if is_empty && self.watch.is_none() {
            // Without a watch it is read at every turn, which costs time but no datagram.
            self.watch = watch(Arc::clone(&self.socket)).inspect_err(cannot_watch).ok();
        }
    }
}

impl Listener {
    fn udp(address: Option<SocketAddr>) -> Result<Self, ListenError> {
        let Some(address) = address else { return Ok(Self::on(None)) };
        let open = || {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            Open::new(Socket::Udp(socket))
        };
        let open = open();
        let open = open.map_err(|source| ListenError::at_address("listen.udp", address, source))?;
        Ok(Self::on(Some(open)))
    }

    fn unix(path: Option<&Path>, access: &SocketAccess) -> Result<Self, ListenError> {
        let Some(path) = path else { return Ok(Self::on(None)) };
        let open = || {
            let BoundSocket { socket, file } = unix_path::bind(path, SockType::Datagram, access)?;
            Open::new(Socket::Unix { socket: socket.into(), _file: file })
        };
        let open = open().map_err(|source| ListenError::at_path("listen.unix", path, source))?;
        log_short_queue();
        let listener = Self::on(Some(open));
        Ok(match access.users {
            Some(_) => Self { senders: Some(Senders::new(access)), ..listener },
            None => Self { open_access: Some(access.clone()), ..listener },
        })
    }

    fn on(open: Option<Open>) -> Self {
        Self { open, senders: None, open_access: None, drops: Drops::default(), is_empty: true }
    }

    fn search_senders(&mut self, is_searching: bool) {
        let (Some(open), Some(access)) = (&self.open, &self.open_access) else { return };
        if is_searching == self.senders.is_some() {
            return;
        }
        match setsockopt(&open.socket, PassCred, &is_searching) {
            Ok(()) => self.senders = is_searching.then(|| Senders::new(access)),
            Err(error) => tracing::warn!(%error, "senders of listen.unix cannot be found"),
        }
    }

    async fn readable(&self) {
        let ready = match &self.open {
            Some(open) => open.readable().await,
            None => std::future::pending().await,
        };
        if let Err(error) = ready {
            cannot_watch(&error);
        }
    }

    fn take(
        &mut self,
        batch: &mut Batch,
        cost: &mut Cost,
        mut on_event: impl FnMut(SocketEvent<'_>),
    ) -> SocketPoll {
        let mut taken = SocketPoll::default();
        let Some(open) = &mut self.open else { return taken };

        let read = open.try_read(|| {
            while taken.datagrams < DATAGRAMS_PER_WAKE && taken.bytes < BYTES_PER_WAKE {
                let (socket, left) = (open.socket.as_fd(), BYTES_PER_WAKE - taken.bytes);
                let on_datagram =
                    |bytes: &[u8]| on_event(SocketEvent::Datagram { bytes, sender: None });

                let read = match &mut self.senders {
                    Some(senders) => senders.read(socket, cost, |read| {
                        on_event(read.map_or(SocketEvent::Refused, |Sent { bytes, process }| {
                            SocketEvent::Datagram { bytes, sender: process }
                        }));
                    })?,
                    None => batch.read(socket, left, cost, on_datagram)?,
                };

                taken.datagrams += read.taken.datagrams;
                taken.bytes += read.taken.bytes;
                // As if one more call had found nothing, which makes the runtime wait for the next
                // one.
                if read.is_last {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
            Ok(())
        });

        self.is_empty = read.is_err();

        if read.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
            // One lost datagram's error, not the socket's.
            on_event(SocketEvent::Failed);
        }

        if taken.datagrams > 0 {
            // After each read, so that drops at the end of a burst are counted at once (N22).
            on_event(SocketEvent::Dropped(self.drops.poll(open.socket.key(), &open.socket)));
        }
        open.rest_or_watch(taken.datagrams, self.is_empty);
        taken
    }
}

fn cannot_watch(error: &io::Error) {
    tracing::error!(%error, "socket cannot be polled");
}

/// Senders wait while this many datagrams are queued, which the system decides for all sockets.
fn log_short_queue() {
    const FILE: &str = "/proc/sys/net/unix/max_dgram_qlen";
    let queue = std::fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse().ok());
    if let Some(datagrams) = queue.filter(|datagrams: &u32| *datagrams < UNIX_QUEUE_DATAGRAMS) {
        tracing::info!(
            datagrams,
            "senders on listen.unix wait while this many datagrams are unread; to raise the limit run \
             `sysctl -w net.unix.max_dgram_qlen={UNIX_QUEUE_DATAGRAMS}` and restart the node"
        );
    }
}

#[cfg(test)]
mod tests;
