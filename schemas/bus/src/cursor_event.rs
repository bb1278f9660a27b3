//! What a cursor returns: messages of a lane, and the positions between which it reads them.

use plimsoll_schemas::transport::Delivered;

/// One event of a cursor.
#[derive(Clone, Debug, PartialEq)]
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
    /// How full the lane's stream is, when that changed; after [`Self::Positioned`] it counts as
    /// empty.
    Used {
        /// Used share of its messages or bytes, whichever is greater; 0 without a limit, and if it
        /// drops its oldest messages instead of refusing new ones.
        ratio: f64,
    },
    Message(Delivered),
}

/// Where reading begins; see [`crate::Bus::cursor`].
pub(crate) struct StartPosition {
    pub(crate) seq: u64,
    pub(crate) stream_id: Option<String>,
}
