//! The stream socket for frames of the Rust client.
//!
//! The driver waits until the socket is readable and then passes a bounded number of frames to its
//! core. Each frame is answered once it is noted, before a message can carry it. One poll set
//! serves all clients, so that many idle clients cost nothing. A buffer grows with the bytes that
//! have arrived, never with an announced length, and all buffers together are bounded.
//!
//! DESIGN N19, N43.

mod client;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::limits::{
    BYTES_PER_WAKE, CLIENT_CONNECTIONS_MAX, FRAME_ANSWERS_MAX, FRAME_BUFFERS_BYTES_MAX,
    FRAMES_PER_WAKE, POLLS_PER_WAKE,
};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{SockType, getsockopt};
use plimsoll_schemas::ids::Seq;
use plimsoll_schemas::wire::frame::{Frame, FrameError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::answers::WaitingAnswers;
use super::listen::ListenError;
use super::readiness::watch;
use super::unix_path::{self, Admission, BoundSocket, SocketFile};
use crate::config::SocketAccess;
use crate::core::departure::SocketPoll;
use crate::core::spool::NoteNumber;
use client::{Client, Ended};

/// The socket and all clients connected to it, or none: reading from an absent one waits for
/// ever.
#[derive(Default)]
pub struct Frames(Option<Open>);

struct Open {
    listener: UnixListener,
    /// `None` once nothing is read any more: the path may then be another's.
    file: Option<SocketFile>,
    admission: Admission,
    ready: AsyncFd<PollSet>,
    clients: BTreeMap<u64, Client>,
    /// The number of the next client; [`LISTENER`] is none.
    next: u64,
    /// Bytes in all clients' buffers.
    buffered: usize,
    ended: Vec<&'static str>,
    /// A spare descriptor, released to accept a client only to reject it.
    spare: Option<File>,
    /// The last look into the poll set found nothing.
    is_empty: bool,
    answers: WaitingAnswers<Answer>,
    /// Nothing is read for now.
    is_paused: bool,
}

/// The answer to a frame, and the note that it waits for.
#[derive(Clone, Copy, Debug)]
pub struct FrameAnswer {
    pub seq: Seq,
    pub note: NoteNumber,
}

/// An answer to a client, under its number.
struct Answer {
    client: u64,
    seq: Seq,
}

/// Listener and clients, each under its number.
struct PollSet(Epoll);

const LISTENER: u64 = 0;
/// Sockets that one look into the poll set names.
const READY_MAX: usize = 32;

impl AsRawFd for PollSet {
    fn as_raw_fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

impl Frames {
    /// A stream socket, when there is a path for one. A socket file that a dead process left
    /// behind is replaced; one that a living process listens on is not. Those whom `access` admits
    /// may connect.
    pub fn listen(path: Option<&Path>, access: &SocketAccess) -> Result<Self, ListenError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let open = Open::on(path, access);
        let open = open.map_err(|source| ListenError::at_path("listen.stream", path, source))?;
        Ok(Self(Some(open)))
    }

    /// No socket at all.
    pub fn absent() -> Self {
        Self::default()
    }

    pub fn clients(&self) -> usize {
        self.0.as_ref().map_or(0, |open| open.clients.len())
    }

    /// Waits until there may be something to take; for ever while nothing is read. Cancel safe.
    pub async fn readable(&self) {
        let open = self.0.as_ref().filter(|open| open.is_reading());
        let Some(open) = open else { return std::future::pending().await };
        if let Err(error) = open.ready.readable().await.map(|mut ready| ready.retain_ready()) {
            tracing::error!(%error, "stream socket cannot be polled");
        }
    }

    /// Whether frames are left unread from now on.
    pub fn pause(&mut self, is_paused: bool) {
        if let Some(open) = &mut self.0 {
            open.is_paused = is_paused;
        }
    }

    /// Takes what is there, up to a bound, and hands over each frame, or why there is none. What
    /// comes back is sent by [`Self::answer`], once its note is written; after nothing, and after
    /// every error, the client is disconnected.
    pub fn take(
        &mut self,
        mut on_frame: impl FnMut(Result<Frame, FrameError>) -> Option<FrameAnswer>,
    ) -> SocketPoll {
        let mut taken = SocketPoll::default();
        let Some(open) = self.0.as_mut().filter(|open| open.is_reading()) else { return taken };

        // Clients that only come and go, or cannot be accepted, bring neither frames nor bytes.
        for _look in 0..POLLS_PER_WAKE {
            // Looked at before the clients are: the kernel lists those that are returned last from
            // then on, so clients that are returned and not read would lose their turn each time.
            let is_enough = taken.datagrams >= FRAMES_PER_WAKE || taken.bytes >= BYTES_PER_WAKE;
            if is_enough || !open.is_reading() {
                break;
            }
            let ready = open.ready_now();
            open.is_empty = ready.is_empty();
            if open.is_empty {
                break;
            }

            for number in ready {
                match number {
                    LISTENER => open.accept(),
                    client => open.read(client, &mut taken, &mut on_frame),
                }
            }
        }

        taken
    }

    /// Sends the answers that wait for a note up to this one.
    pub fn answer(&mut self, noted: NoteNumber) {
        let Some(open) = &mut self.0 else { return };
        open.answer(noted);
        if open.is_closed() && open.clients.is_empty() {
            self.0 = None;
        }
    }

    pub fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|open| !open.answers.is_empty())
    }

    /// Reads nothing more and disconnects each client once it has its answers.
    pub fn close(&mut self) {
        let Some(open) = &mut self.0 else { return };
        open.close();
        if open.clients.is_empty() {
            self.0 = None;
        }
    }

    /// Whether the last [`Self::take`] left nothing behind.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|open| open.is_empty)
    }

    /// Why clients were disconnected since the last time, other than by an error that was handed
    /// over: `truncated` (gone in the middle of a frame), `turned_away` (one too many),
    /// `not_allowed` (of a user who may not connect),
    /// `no_descriptor` (the process has none to spare), `buffers_full`, `unread` (does not take
    /// its answers).
    pub fn drain_ended(&mut self) -> impl Iterator<Item = &'static str> {
        self.0.iter_mut().flat_map(|open| open.ended.drain(..))
    }
}

impl Open {
    fn on(path: &Path, access: &SocketAccess) -> io::Result<Self> {
        let BoundSocket { socket, file } = unix_path::bind(path, SockType::Stream, access)?;
        let listener = UnixListener::from(socket);
        let set = PollSet(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        set.0.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;

        Ok(Self {
            listener,
            file: Some(file),
            admission: Admission::new("listen.stream", access),
            ready: watch(set)?,
            clients: BTreeMap::new(),
            next: LISTENER + 1,
            buffered: 0,
            ended: Vec::new(),
            spare: spare(),
            is_empty: true,
            answers: WaitingAnswers::default(),
            is_paused: false,
        })
    }

    /// Whether only answers that wait are still sent.
    fn is_closed(&self) -> bool {
        self.file.is_none()
    }

    fn is_reading(&self) -> bool {
        !self.is_paused && !self.is_closed() && self.answers.len() < FRAME_ANSWERS_MAX
    }

    /// Numbers of sockets with something to read.
    fn ready_now(&self) -> Vec<u64> {
        let mut events = [EpollEvent::empty(); READY_MAX];
        let ready = self.ready.try_io(Interest::READABLE, |set| {
            match set.0.wait(&mut events, EpollTimeout::ZERO)? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                ready => Ok(ready),
            }
        });
        events[..ready.unwrap_or(0)].iter().map(EpollEvent::data).collect()
    }

    fn accept(&mut self) {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if is_without_descriptor(&error) => return self.turn_away(),
            // That of a client which is already gone.
            Err(_) => return,
        };

        if !self.is_admitted(&stream) {
            return self.ended.push("not_allowed");
        }
        if self.clients.len() == CLIENT_CONNECTIONS_MAX {
            return self.ended.push("turned_away");
        }
        let Ok(client) = Client::new(stream) else { return };
        // Numbered and never reused: an event of a client that is gone must not reach another one.
        let event = EpollEvent::new(EpollFlags::EPOLLIN, self.next);

        if self.ready.get_ref().0.add(&client.stream, event).is_ok() {
            self.clients.insert(self.next, client);
            self.next += 1;
        }
    }

    /// Whether the user who connected may.
    fn is_admitted(&mut self, stream: &UnixStream) -> bool {
        let user = || getsockopt(stream, PeerCredentials).ok().map(|peer| peer.uid());
        self.admission.is_open_to_all() || self.admission.admits(user())
    }

    /// Left where it is, a client that cannot be accepted would be announced again and again.
    fn turn_away(&mut self) {
        self.spare = None;
        if self.listener.accept().is_ok() {
            self.ended.push("no_descriptor");
        }
        self.spare = spare();
    }

    fn read(
        &mut self,
        number: u64,
        taken: &mut SocketPoll,
        on_frame: &mut impl FnMut(Result<Frame, FrameError>) -> Option<FrameAnswer>,
    ) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let before = client.buffered();

        let read = client.read(taken, |frame| {
            let FrameAnswer { seq, note } = on_frame(frame)?;
            self.answers.push(note, Answer { client: number, seq });
            Some(())
        });

        self.buffered = self.buffered - before + client.buffered();
        // The client whose bytes go beyond is closed: it sends its frame again, and no other one
        // pays.
        let is_full = self.buffered > FRAME_BUFFERS_BYTES_MAX;

        let reason = match read {
            Ok(()) if !is_full => return,
            Ok(()) => Some("buffers_full"),
            Err(Ended::Rejected) => None,
            Err(Ended::Gone) => (client.buffered() > 0).then_some("truncated"),
        };

        self.ended.extend(reason);
        self.end(number);
    }

    /// Reads nothing more of a client. It stays until it has its answers: it may only have closed
    /// its own direction.
    fn end(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        self.buffered -= client.buffered();
        client.end();
        if self.answers.iter().any(|answer| answer.client == number) {
            // Otherwise its end would be announced again and again.
            let _gone = self.ready.get_ref().0.delete(&client.stream);
        } else {
            self.clients.remove(&number);
        }
    }

    /// All answers of a client leave at once: what a socket takes is counted in writes.
    fn answer(&mut self, noted: NoteNumber) {
        let mut by_client: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for Answer { client, seq } in self.answers.drain_noted(noted) {
            by_client.entry(client).or_default().extend(seq.0.to_be_bytes());
        }

        for (number, bytes) in by_client {
            let Some(client) = self.clients.get_mut(&number) else { continue };
            let is_written = client.answer(&bytes);
            if !is_written && !client.is_ended {
                self.ended.push("unread");
            }
            if !is_written || client.is_ended {
                self.end(number);
            }
        }
    }

    fn close(&mut self) {
        // The path is given up at once, so that a successor can listen while answers are still
        // sent.
        self.file = None;
        let clients: Vec<u64> = self.clients.keys().copied().collect();
        clients.into_iter().for_each(|number| self.end(number));
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

fn is_without_descriptor(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EMFILE | Errno::ENFILE))
}

#[cfg(test)]
mod tests;
