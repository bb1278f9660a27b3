//! What a cursor returns: messages of a lane, and the positions between which it reads them.

use bytes::Bytes;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Wall;

/// One event of a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorEvent {
    /// The lane was opened, at first and after every interruption, with the extent of its stream at
    /// that time; both numbers are 0 if there is no stream.
    Positioned {
        /// Number of the oldest message that is still there.
        first_seq: u64,
        /// Number of the newest message.
        last_seq: u64,
        /// Identity of the stream among all that ever had its name: what [`crate::Bus::cursor`]
        /// takes. Empty if there is no stream.
        stream_id: String,
    },
    /// The stream is not the one that was read so far: it ends before our position, or was created
    /// again. Reading continues at its first message.
    Reset {
        /// Number of the message that would have come next.
        expected_seq: u64,
        /// Number of the newest message.
        last_seq: u64,
    },
    /// The next message.
    Message(Delivered),
}

/// Where reading begins; see [`crate::Bus::cursor`].
pub(crate) struct StartPosition {
    pub(crate) seq: u64,
    pub(crate) stream_id: Option<String>,
}

/// One message of a lane. The payload shares the client's buffer, so handing it over or cloning
/// it copies no payload bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The lane.
    pub lane: Lane,
    /// Its number in the lane's stream; 0 if there is no stream.
    pub stream_seq: u64,
    /// Where it was published.
    pub subject: String,
    /// The bytes.
    pub payload: Bytes,
    /// When the broker stored it, by the broker's clock; `None` if there is no stream.
    pub at: Option<Wall>,
    /// When its node last sent it, by the node's clock; `None` without the header.
    pub sent: Option<Wall>,
    /// Number of messages behind it in the stream when the broker delivered it.
    pub pending: u64,
}
