//! The result of one attempt to send, and the counts of all of them.

/// How far sending came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// The node has acknowledged everything.
    Complete,
    /// The node is connected and has not answered yet.
    Waiting,
    /// The node cannot be reached, or closes the connection.
    Unreachable,
}

/// Samples and frames by their outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryCounts {
    /// Samples that the node has acknowledged.
    pub(crate) acknowledged: u64,
    /// Samples lost.
    pub(crate) refused: u64,
    pub(crate) frames: u64,
    pub(crate) frames_refused: u64,
    pub(crate) connections: u64,
}

impl DeliveryCounts {
    pub(crate) const fn new() -> Self {
        Self { acknowledged: 0, refused: 0, frames: 0, frames_refused: 0, connections: 0 }
    }
}
