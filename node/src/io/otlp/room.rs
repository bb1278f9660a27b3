//! The room that bodies share: how many bytes all of them take, whether more may come, and what
//! became of each request. Nobody waits for room: a body that holds some and waits for more could
//! wait for another one that does the same.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::{OTLP_BUFFERS_BYTES_MAX, OTLP_REQUEST_BYTES};

use super::figures::{Ending, Requests, Source};
use super::refusal::Refusal;

/// Shared by all requests.
#[derive(Default)]
pub(super) struct Room(Mutex<State>);

#[derive(Default)]
struct State {
    leaving: bool,
    /// Requests that hold a part of it.
    holders: usize,
    requests: Requests,
}

impl Room {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets nobody in any more.
    pub(super) fn leave(&self) {
        self.state().leaving = true;
    }

    /// Whether anybody is in.
    pub(super) fn is_occupied(&self) -> bool {
        self.state().holders > 0
    }

    pub(super) fn requests(&self) -> Requests {
        self.state().requests.clone()
    }

    /// A request has come; it is counted once it is over.
    pub(super) fn visit(self: &Arc<Self>, source: Source) -> Visit {
        Visit { room: Arc::clone(self), source, ending: Ending::Refused(Refusal::HungUp.as_str()) }
    }
}

/// One request, counted when it is dropped: unless told otherwise, its client hung up.
pub(super) struct Visit {
    room: Arc<Room>,
    source: Source,
    ending: Ending,
}

impl Visit {
    /// Room for its body.
    pub(super) fn hold(&self) -> Result<Hold, Refusal> {
        let mut state = self.room.state();
        if state.leaving {
            return Err(Refusal::Leaving);
        }
        state.holders += 1;
        drop(state);
        let mut hold = Hold { room: Arc::clone(&self.room), source: self.source, bytes: 0 };
        hold.grow(OTLP_REQUEST_BYTES)?;
        Ok(hold)
    }

    pub(super) fn on_end(&mut self, ending: Ending) {
        self.ending = ending;
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        *self.room.state().requests.endings.entry((self.source, self.ending)).or_default() += 1;
    }
}

/// A part of the room, given back when it is dropped.
pub(super) struct Hold {
    room: Arc<Room>,
    source: Source,
    bytes: usize,
}

impl Hold {
    /// So many bytes more.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let taken = &mut self.room.state().requests.buffered_bytes;
        if *taken + bytes > OTLP_BUFFERS_BYTES_MAX {
            return Err(Refusal::Busy);
        }
        (*taken, self.bytes) = (*taken + bytes, self.bytes + bytes);
        Ok(())
    }

    /// A body has come to its end: so many bytes were sent, and so many they are now.
    pub(super) fn on_whole(&self, sent: usize, bytes: usize) {
        let mut state = self.room.state();
        let volume = state.requests.volumes.entry(self.source).or_default();
        volume.sent += sent as u64;
        volume.inflated += bytes as u64;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.room.state();
        state.holders -= 1;
        state.requests.buffered_bytes -= self.bytes;
    }
}
