//! The stream socket for frames of the Rust client.
//!
//! The driver waits until the socket is readable and then passes a bounded number of frames to its
//! core. Each frame is answered once it is noted, before a message can carry it. A buffer grows
//! with the bytes that have arrived, never with an announced length, and all buffers together are
//! bounded. `connections.rs` accepts the clients.
//!
//! DESIGN N19, N43.

mod client;

use std::collections::BTreeMap;
use std::path::Path;

use crate::limits::{
    BYTES_PER_WAKE, FRAME_ANSWERS_MAX, FRAME_BUFFERS_BYTES_MAX, FRAMES_PER_WAKE, POLLS_PER_WAKE,
};
use plimsoll_schemas::ids::Seq;
use plimsoll_schemas::wire::frame::{Frame, FrameError};

use super::answers::WaitingAnswers;
use super::connections::{Connection, ConnectionId, Connections, Ready};
use super::listen_error::ListenError;
use crate::config::SocketAccess;
use crate::core::captures::SendingProcess;
use crate::core::departure::SocketPoll;
use crate::core::spool::NoteNumber;
use client::{Client, Ended};

/// The socket and all clients connected to it, or none: reading from an absent one waits for
/// ever.
#[derive(Default)]
pub struct Frames(Option<Open>);

struct Open {
    connections: Connections,
    clients: BTreeMap<ConnectionId, Client>,
    /// Bytes in all clients' buffers.
    buffered: usize,
    ended: Vec<&'static str>,
    answers: WaitingAnswers<Answer>,
    /// Nothing is read for now.
    is_paused: bool,
}

/// A frame, and the process that connected, if the kernel states it.
#[derive(Debug)]
pub struct SentFrame {
    pub frame: Frame,
    pub process: Option<SendingProcess>,
}

/// The answer to a frame, and the note that it waits for.
#[derive(Clone, Copy, Debug)]
pub struct FrameAnswer {
    pub seq: Seq,
    pub note: NoteNumber,
}

/// An answer to a client.
struct Answer {
    client: ConnectionId,
    seq: Seq,
}

impl Frames {
    /// A stream socket, when there is a path for one. Those whom `access` admits may connect.
    pub fn listen(path: Option<&Path>, access: &SocketAccess) -> Result<Self, ListenError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let connections = Connections::unix("listen.stream", path, access)?;
        Ok(Self(Some(Open {
            connections,
            clients: BTreeMap::new(),
            buffered: 0,
            ended: Vec::new(),
            answers: WaitingAnswers::default(),
            is_paused: false,
        })))
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
        open.connections.readable().await;
    }

    /// Whether frames are left unread from now on.
    pub fn pause(&mut self, is_paused: bool) {
        if let Some(open) = &mut self.0 {
            open.is_paused = is_paused;
        }
    }

    /// Takes what is there, up to a bound, and hands over each frame with the process that
    /// connected, or why there is none. What
    /// comes back is sent by [`Self::answer`], once its note is written; after nothing, and after
    /// every error, the client is disconnected.
    pub fn take(
        &mut self,
        mut on_frame: impl FnMut(Result<SentFrame, FrameError>) -> Option<FrameAnswer>,
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
            for ready in open.connections.ready_now() {
                match ready {
                    Ready::Accept => open.accept(),
                    Ready::Read(client) => open.read(client, &mut taken, &mut on_frame),
                }
            }
            if open.connections.is_empty() {
                break;
            }
        }

        taken
    }

    /// Sends the answers that wait for a note up to this one.
    pub fn answer(&mut self, noted: NoteNumber) {
        let Some(open) = &mut self.0 else { return };
        open.answer(noted);
        if open.connections.is_closed() && open.clients.is_empty() {
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
        self.0.as_ref().is_none_or(|open| open.connections.is_empty())
    }

    /// Why clients were disconnected since the last time, other than by an error that was handed
    /// over: `truncated` (gone in the middle of a frame), `buffers_full`, `unread` (does not take
    /// its answers), and those of [`Connections::accept`].
    pub fn drain_ended(&mut self) -> impl Iterator<Item = &'static str> {
        self.0.iter_mut().flat_map(|open| open.ended.drain(..))
    }
}

impl Open {
    fn is_reading(&self) -> bool {
        // Once it is closed, only answers that wait are still sent.
        !self.is_paused && !self.connections.is_closed() && self.answers.len() < FRAME_ANSWERS_MAX
    }

    fn accept(&mut self) {
        match self.connections.accept(self.clients.len()) {
            Ok(Some(Connection { id, stream })) => {
                self.clients.insert(id, Client::new(stream));
            }
            Ok(None) => {}
            Err(reason) => self.ended.push(reason),
        }
    }

    fn read(
        &mut self,
        id: ConnectionId,
        taken: &mut SocketPoll,
        on_frame: &mut impl FnMut(Result<SentFrame, FrameError>) -> Option<FrameAnswer>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let (before, process) = (client.buffered(), client.process);

        let read = client.read(taken, |frame| {
            let sent = frame.map(|frame| SentFrame { frame, process });
            let FrameAnswer { seq, note } = on_frame(sent)?;
            self.answers.push(note, Answer { client: id, seq });
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
        self.end(id);
    }

    /// Reads nothing more of a client. It stays until it has its answers: it may only have closed
    /// its own direction.
    fn end(&mut self, id: ConnectionId) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        self.buffered -= client.buffered();
        client.end();
        if self.answers.iter().any(|answer| answer.client == id) {
            // Otherwise its end would be announced again and again.
            self.connections.unwatch(&client.stream);
        } else {
            self.clients.remove(&id);
        }
    }

    /// All answers of a client leave at once: what a socket takes is counted in writes.
    fn answer(&mut self, noted: NoteNumber) {
        let mut by_client: BTreeMap<ConnectionId, Vec<u8>> = BTreeMap::new();
        for Answer { client, seq } in self.answers.drain_noted(noted) {
            by_client.entry(client).or_default().extend(seq.0.to_be_bytes());
        }

        for (id, bytes) in by_client {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            let is_written = client.answer(&bytes);
            if !is_written && !client.is_ended {
                self.ended.push("unread");
            }
            if !is_written || client.is_ended {
                self.end(id);
            }
        }
    }

    fn close(&mut self) {
        self.connections.close();
        let clients: Vec<_> = self.clients.keys().copied().collect();
        clients.into_iter().for_each(|id| self.end(id));
    }
}

#[cfg(test)]
mod tests;
