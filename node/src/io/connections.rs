//! A listening stream socket: waits for its connections, accepts and bounds them.
//!
//! Owns the listener and one poll set for all connections, so that many idle ones cost nothing. The
//! input that uses it owns what it accepts: the stream, what arrived of it, and why it ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use crate::limits::CLIENT_CONNECTIONS_MAX;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{SockType, getsockopt};
use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::listen_error::ListenError;
use super::readiness::watch;
use super::unix_path::{self, Admission, BoundSocket, SocketFile};
use crate::config::SocketAccess;

/// The listener of an input, and the poll set of its connections.
pub(super) struct Connections {
    /// `None` once it is closed: its place may then be another's.
    listener: Option<Listener>,
    admission: Admission,
    ready: AsyncFd<PollSet>,
    /// The number of the next connection; [`LISTENER`] is none.
    next: u64,
    /// A spare descriptor, released to accept a connection only to reject it.
    spare: Option<File>,
    /// The last look into the poll set found nothing.
    is_empty: bool,
}

/// A connection's number. None is used twice: an event of one that is gone must not reach another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionId(u64);

/// What can be done without waiting.
pub(super) enum Ready {
    /// [`Connections::accept`].
    Accept,
    /// A read of this connection, or to find that it has ended.
    Read(ConnectionId),
}

/// A connection that was accepted, watched until its stream is dropped. Reads and writes do not
/// block.
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) stream: Socket,
}

struct Listener {
    socket: Socket,
    _file: SocketFile,
}

/// Listener and connections, each under its number.
struct PollSet(Epoll);

const LISTENER: u64 = 0;
/// Sockets that one look into the poll set names.
pub(super) const READY_MAX: usize = 32;

impl AsRawFd for PollSet {
    fn as_raw_fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

impl Connections {
    /// Listens at the path of a Unix stream socket; `key` is its setting. A socket file that a dead
    /// process left behind is replaced; one that a living process listens on is not. Those whom
    /// `access` admits may connect.
    pub(super) fn unix(
        key: &'static str,
        path: &Path,
        access: &SocketAccess,
    ) -> Result<Self, ListenError> {
        let open = || {
            let BoundSocket { socket, file } = unix_path::bind(path, SockType::Stream, access)?;
            let listener = Listener { socket: socket.into(), _file: file };
            Self::new(listener, Admission::new(key, access))
        };
        open().map_err(|source| ListenError::at_path(key, path, source))
    }

    /// `listener` must not block.
    fn new(listener: Listener, admission: Admission) -> io::Result<Self> {
        let set = PollSet(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        set.0.add(&listener.socket, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        Ok(Self {
            listener: Some(listener),
            admission,
            ready: watch(set)?,
            next: LISTENER + 1,
            spare: spare(),
            is_empty: true,
        })
    }

    /// Waits until something may be ready. Cancel safe.
    pub(super) async fn readable(&self) {
        if let Err(error) = self.ready.readable().await.map(|mut ready| ready.retain_ready()) {
            tracing::error!(%error, "stream socket cannot be polled");
        }
    }

    /// What is ready now, up to a bound; nothing at the end. What is not read then is named again.
    pub(super) fn ready_now(&mut self) -> impl Iterator<Item = Ready> + use<> {
        let mut events = [EpollEvent::empty(); READY_MAX];
        let ready = self.ready.try_io(Interest::READABLE, |set| {
            match set.0.wait(&mut events, EpollTimeout::ZERO)? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                ready => Ok(ready),
            }
        });
        let ready = ready.unwrap_or(0);
        self.is_empty = ready == 0;
        events.into_iter().take(ready).map(|event| match event.data() {
            LISTENER => Ready::Accept,
            number => Ready::Read(ConnectionId(number)),
        })
    }

    /// Whether the last [`Self::ready_now`] found nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Accepts one connection, when there are `connected` of the input; `None` if it is gone.
    ///
    /// # Errors
    /// Why it was disconnected: `not_allowed` (of a user who may not connect), `turned_away` (one
    /// too many), `no_descriptor` (the process has none to spare).
    pub(super) fn accept(&mut self, connected: usize) -> Result<Option<Connection>, &'static str> {
        let Some(listener) = &self.listener else { return Ok(None) };
        let stream = match listener.socket.accept() {
            Ok((stream, _)) => stream,
            Err(error) if is_without_descriptor(&error) => return self.turn_away(),
            // That of a client which is already gone.
            Err(_) => return Ok(None),
        };

        let user = || getsockopt(&stream, PeerCredentials).ok().map(|peer| peer.uid());
        if !self.admission.is_open_to_all() && !self.admission.admits(user()) {
            return Err("not_allowed");
        }
        if connected >= CLIENT_CONNECTIONS_MAX {
            return Err("turned_away");
        }

        let event = EpollEvent::new(EpollFlags::EPOLLIN, self.next);
        let watched = stream.set_nonblocking(true).is_ok()
            && self.ready.get_ref().0.add(&stream, event).is_ok();
        let id = ConnectionId(self.next);
        self.next += u64::from(watched);
        Ok(watched.then_some(Connection { id, stream }))
    }

    /// Left where it is, a client that cannot be accepted would be announced again and again.
    fn turn_away(&mut self) -> Result<Option<Connection>, &'static str> {
        self.spare = None;
        let accepted = self.listener.as_ref().map(|listener| listener.socket.accept());
        let is_turned_away = accepted.is_some_and(|accepted| accepted.is_ok());
        self.spare = spare();
        if is_turned_away { Err("no_descriptor") } else { Ok(None) }
    }

    /// A connection is ready no more, also when it ends; its stream stays open.
    pub(super) fn unwatch(&self, stream: &Socket) {
        let _gone = self.ready.get_ref().0.delete(stream);
    }

    /// Gives up its place at once, so that a successor can listen there.
    pub(super) fn close(&mut self) {
        self.listener = None;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.listener.is_none()
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

fn is_without_descriptor(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EMFILE | Errno::ENFILE))
}
