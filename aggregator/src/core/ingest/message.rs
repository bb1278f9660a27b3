//! One message as a lane's cursor delivers it.

use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Wall;

/// One message as the cursor delivers it.
#[derive(Clone, Copy, Debug)]
pub struct Delivered<'a> {
    /// The lane it came in.
    pub lane: Lane,
    /// Its position in that lane's stream; 0 without a stream.
    pub stream_seq: u64,
    /// Messages behind it.
    pub pending: u64,
    /// When the broker stored it; `None` without a stream.
    pub at: Option<Wall>,
    /// When its node sent it, by the node's clock; `None` when the node does not report it.
    pub sent: Option<Wall>,
    /// The subject it was published under.
    pub subject: &'a str,
    /// Its bytes.
    pub payload: &'a [u8],
}
