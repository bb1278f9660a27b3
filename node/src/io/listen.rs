//! Sockets that jobs write DogStatsD datagrams to.
//!
//! The driver asks when something can be read and then takes a bounded number of datagrams
//! straight from the kernel into its core: no task, no channel, no copy in between. Several come
//! with one call ([`batch`]); between reads the node rests as long as it may ([`rest`]); what
//! the kernel dropped is read back ([`drops`]).

mod batch;
mod drops;
mod rest;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use plimsoll_schemas::clock::Stopwatch;
use plimsoll_schemas::limits::node::{BYTES_PER_WAKE, DATAGRAMS_PER_WAKE, UNIX_QUEUE_DATAGRAMS};
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::{UdpSocket, UnixDatagram};

use self::batch::Batch;
use self::drops::Drops;
use super::cost::Cost;
use crate::core::departure::Taken;

/// A socket that could not be had.
#[derive(Debug, Error)]
#[error("{key}: cannot listen on {place}: {source}{hint}")]
pub struct ListenError {
    key: &'static str,
    place: String,
    source: io::Error,
    hint: &'static str,
}

/// Something that a socket has to tell.
#[derive(Debug)]
pub enum Heard<'a> {
    /// A datagram; one longer than `DATAGRAM_BYTES_MAX` was cut, but is still longer than that.
    Datagram(&'a [u8]),
    /// A read failed, which may have cost a datagram.
    Failed,
    /// The kernel dropped so many datagrams since it was last asked.
    Dropped(u64),
}

/// The sockets of a node, and what it reads them with.
pub struct Sockets {
    udp: Listener,
    unix: Listener,
    batch: Batch,
    longest_rest: Duration,
    /// Since the sockets were last empty.
    since_empty: Stopwatch,
    /// UDP datagrams read since then.
    udp_datagrams: usize,
    is_empty: bool,
}

impl Sockets {
    /// Opens what is configured.
    ///
    /// # Errors
    /// When an address or a path is in use or not ours.
    pub async fn open(udp: Option<SocketAddr>, unix: Option<&Path>) -> Result<Self, ListenError> {
        let (udp, unix) = (Listener::udp(udp).await?, Listener::unix(unix)?);
        let longest_rest = udp.socket.as_ref().map(|udp| rest::longest(drops::receive_bytes(udp)));
        Ok(Self {
            udp,
            unix,
            batch: Batch::default(),
            longest_rest: longest_rest.unwrap_or_default(),
            since_empty: Stopwatch::start(),
            udp_datagrams: 0,
            is_empty: true,
        })
    }

    /// Where the UDP socket really listens.
    #[must_use]
    pub fn udp_address(&self) -> Option<SocketAddr> {
        match &self.udp.socket {
            Some(Socket::Udp(socket)) => socket.local_addr().ok(),
            Some(Socket::Unix(..)) | None => None,
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
    pub fn take(&mut self, cost: &mut Cost, mut on_heard: impl FnMut(Heard<'_>)) -> Taken {
        let unix = self.unix.take(&mut self.batch, cost, &mut on_heard);
        let udp = self.udp.take(&mut self.batch, cost, &mut on_heard);
        self.udp_datagrams += udp.datagrams;
        self.is_empty = self.unix.is_empty && self.udp.is_empty;
        Taken { datagrams: unix.datagrams + udp.datagrams, bytes: unix.bytes + udp.bytes }
    }

    /// Whether the last [`Self::take`] left nothing behind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Once they were read empty: rests for a while, `most` at most, if datagrams keep coming.
    pub fn rest(&mut self, most: Duration) {
        let datagrams = std::mem::take(&mut self.udp_datagrams);
        let due = rest::due(datagrams, self.since_empty.lap(), self.longest_rest).min(most);
        if !due.is_zero() {
            rest::rest(self.unix.socket.as_ref(), due);
        }
    }

    /// Closes them; what they still hold is lost.
    pub fn close(&mut self) {
        (self.udp.socket, self.unix.socket) = (None, None);
    }

    /// Datagrams that the kernel dropped so far, by socket. On a Unix datagram socket the sender
    /// waits or is refused instead.
    #[must_use]
    pub fn dropped(&self) -> [(&'static str, u64); 2] {
        [("udp", self.udp.drops.total()), ("unix", self.unix.drops.total())]
    }
}

/// One socket, or none: reading from an absent one waits for ever.
struct Listener {
    socket: Option<Socket>,
    drops: Drops,
    is_empty: bool,
}

enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram, PathBuf),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket) => socket.as_fd(),
            Self::Unix(socket, _) => socket.as_fd(),
        }
    }
}

impl Socket {
    fn key(&self) -> &'static str {
        match self {
            Self::Udp(_) => "listen.udp",
            Self::Unix(..) => "listen.unix",
        }
    }

    async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.readable().await,
            Self::Unix(socket, _) => socket.readable().await,
        }
    }

    /// Reads if there may be something; tokio polls again once `read` answers `WouldBlock`.
    fn try_read(&self, read: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.try_io(Interest::READABLE, read),
            Self::Unix(socket, _) => socket.try_io(Interest::READABLE, read),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // A later start replaces a file that is left over.
            let _gone = std::fs::remove_file(path);
        }
    }
}

impl Listener {
    async fn udp(address: Option<SocketAddr>) -> Result<Self, ListenError> {
        let Some(address) = address else { return Ok(Self::on(None)) };
        let fail = |source| ListenError {
            key: "listen.udp",
            place: address.to_string(),
            source,
            hint: "; another agent may have it: choose another port or \"\" for none",
        };
        Ok(Self::on(Some(Socket::Udp(UdpSocket::bind(address).await.map_err(fail)?))))
    }

    /// A socket file that a dead process left behind is replaced; one that a living process
    /// reads is not.
    fn unix(path: Option<&Path>) -> Result<Self, ListenError> {
        let Some(path) = path else { return Ok(Self::on(None)) };
        let fail = |source| ListenError {
            key: "listen.unix",
            place: path.display().to_string(),
            source,
            hint: "; choose another path or \"\" for none",
        };
        remove_left_over(path).map_err(fail)?;
        let socket = UnixDatagram::bind(path).map_err(fail)?;
        tell_short_queue();
        Ok(Self::on(Some(Socket::Unix(socket, path.to_owned()))))
    }

    fn on(socket: Option<Socket>) -> Self {
        socket.iter().for_each(drops::ask_for_buffer);
        Self { socket, drops: Drops::default(), is_empty: true }
    }

    async fn readable(&self) {
        let ready = match &self.socket {
            Some(socket) => socket.readable().await,
            None => std::future::pending().await,
        };
        if let Err(error) = ready {
            tracing::error!(%error, "socket cannot be polled");
        }
    }

    fn take(
        &mut self,
        batch: &mut Batch,
        cost: &mut Cost,
        mut on_heard: impl FnMut(Heard<'_>),
    ) -> Taken {
        let mut taken = Taken::default();
        let Some(socket) = &self.socket else { return taken };
        let read = socket.try_read(|| {
            while taken.datagrams < DATAGRAMS_PER_WAKE && taken.bytes < BYTES_PER_WAKE {
                let left = BYTES_PER_WAKE - taken.bytes;
                let hear = |datagram: &[u8]| on_heard(Heard::Datagram(datagram));
                let read = batch.read(socket.as_fd(), left, cost, hear)?;
                taken.datagrams += read.taken.datagrams;
                taken.bytes += read.taken.bytes;
                if read.is_last {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
            Ok(())
        });
        self.is_empty = read.is_err();
        if read.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
            // One lost datagram's error, not the socket's.
            on_heard(Heard::Failed);
        }
        if taken.datagrams > 0 {
            on_heard(Heard::Dropped(self.drops.look(socket.key(), socket)));
        }
        taken
    }
}

/// Senders wait while so many datagrams are queued, which the system decides for all sockets.
fn tell_short_queue() {
    const FILE: &str = "/proc/sys/net/unix/max_dgram_qlen";
    let queue = std::fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse().ok());
    if let Some(datagrams) = queue.filter(|datagrams: &u32| *datagrams < UNIX_QUEUE_DATAGRAMS) {
        tracing::info!(
            datagrams,
            "senders on listen.unix wait while so many datagrams are unread; for more run \
             `sysctl -w net.unix.max_dgram_qlen={UNIX_QUEUE_DATAGRAMS}` and start the node again"
        );
    }
}

fn remove_left_over(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket"));
    }
    let probe = std::os::unix::net::UnixDatagram::unbound()?;
    match probe.connect(path) {
        Ok(()) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process reads it")),
        // The only answer that means nobody: a stream socket's or a forbidden one's is another.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => {
            let text = format!("a socket that may belong to another program ({error})");
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}

#[cfg(test)]
mod tests;
