//! Reading a lane from a position that the reader keeps: the position is an argument and comes
//! back with every message, and the broker stores no state.
//!
//! DESIGN S9, S22.

use std::sync::Arc;

use crate::limits::CURSOR_EVENTS_MAX;
use async_nats::Client;
use plimsoll_schemas::subject::Lane;
use tokio::sync::{Notify, mpsc, watch};

use crate::cursor_event::{CursorEvent, StartPosition};
use crate::lanes::Lanes;
use crate::link::Link;
use crate::reader::StreamReader;
use crate::task::AbortOnDrop;

/// Reads one lane in order. Survives reconnects, restarts and the loss of the stream; delivers
/// every message of one stream once.
#[derive(Debug)]
pub struct Cursor {
    events: mpsc::Receiver<CursorEvent>,
    _task: AbortOnDrop,
}

impl Cursor {
    pub(crate) fn start(
        client: Client,
        lanes: Lanes,
        link: watch::Receiver<Link>,
        missing: Arc<Notify>,
        lane: Lane,
        start: StartPosition,
    ) -> Self {
        let (out, events) = mpsc::channel(CURSOR_EVENTS_MAX);
        let reader = StreamReader::new(client, lanes, link, missing, lane, start, out);
        Self { events, _task: AbortOnDrop(tokio::spawn(reader.run())) }
    }

    /// The next event; `None` once the connection is closed. Cancel safe. While the owner does
    /// not poll, no more than `limits::CURSOR_EVENTS_MAX` events are read ahead.
    pub async fn next(&mut self) -> Option<CursorEvent> {
        self.events.recv().await
    }

    /// An event that is there already; `None` when there is none, or the connection is closed.
    pub fn ready(&mut self) -> Option<CursorEvent> {
        self.events.try_recv().ok()
    }
}
