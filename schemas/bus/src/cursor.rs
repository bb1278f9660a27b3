//! Reading a lane from a position of the reader's own: the position is an argument and comes
//! back with every message, and nothing is remembered at the broker.

use std::sync::Arc;

use crate::limits::CURSOR_EVENTS_MAX;
use async_nats::Client;
use bytes::Bytes;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Wall;
use tokio::sync::{Notify, mpsc, watch};

use crate::connection::Ended;
use crate::link::Link;
use crate::reader::Reader;

/// Something that a cursor came across.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorEvent {
    /// The lane was opened, at first and after every interruption. Tells the extent of its
    /// stream at that moment; both are 0 where there is no stream.
    Positioned {
        /// Number of the oldest message that is still there.
        first_seq: u64,
        /// Number of the newest message.
        last_seq: u64,
        /// Tells this stream from any other of its name, made before or after: what
        /// [`crate::Bus::cursor`] takes. Empty where there is no stream.
        stream_id: String,
    },
    /// The stream is not the one that was read so far: it ends before our position, or was
    /// created anew. Reading goes on at its first message.
    Reset {
        /// Number of the message that would have come next.
        expected_seq: u64,
        /// Number of the newest message that there is.
        last_seq: u64,
    },
    /// The next message.
    Message(Delivered),
}

/// Where reading begins; see [`crate::Bus::cursor`].
pub(crate) struct Start {
    pub(crate) seq: u64,
    pub(crate) stream_id: Option<String>,
}

/// One message of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The lane.
    pub lane: Lane,
    /// Its number in the lane's stream; 0 where there is no stream.
    pub stream_seq: u64,
    /// Where it was published.
    pub subject: String,
    /// The bytes.
    pub payload: Bytes,
    /// When the broker stored it, by the broker's clock; `None` where there is no stream.
    pub at: Option<Wall>,
    /// When its node last sent it, by the node's clock; `None` when the node does not say.
    pub sent: Option<Wall>,
    /// How many messages stood behind it in the stream when it was sent.
    pub pending: u64,
}

/// Reads one lane in order. Survives reconnects, restarts and the loss of the stream; delivers
/// every message of one stream once.
#[derive(Debug)]
pub struct Cursor {
    events: mpsc::Receiver<CursorEvent>,
    _task: Ended,
}

impl Cursor {
    pub(crate) fn start(
        client: Client,
        mesh: MeshName,
        link: watch::Receiver<Link>,
        missing: Arc<Notify>,
        lane: Lane,
        start: Start,
    ) -> Self {
        let (out, events) = mpsc::channel(CURSOR_EVENTS_MAX);
        let reader = Reader::new(client, mesh, link, missing, lane, start, out);
        Self { events, _task: Ended(tokio::spawn(reader.run())) }
    }

    /// What comes next; `None` once the connection is closed. Cancel safe. While nobody asks,
    /// no more is read than `limits::bus` lets wait.
    pub async fn next(&mut self) -> Option<CursorEvent> {
        self.events.recv().await
    }

    /// What is there already; `None` when nothing is, or the connection is closed.
    pub fn ready(&mut self) -> Option<CursorEvent> {
        self.events.try_recv().ok()
    }
}
