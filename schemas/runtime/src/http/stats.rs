//! Counts of a server's connections, which a process exports about itself.

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStage {
    /// For a whole request.
    Waiting,
    /// For the answer to a request.
    Answering,
    /// For the client to receive its answer.
    Writing,
}

impl ConnectionStage {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Answering, Self::Writing];

    /// As a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Answering => "answering",
            Self::Writing => "writing",
        }
    }
}

/// Why a connection closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Closed by the client, or after its last answer.
    Finished,
    /// No complete request head in time.
    Silent,
    /// The client received nothing of its answer for too long.
    Stalled,
    /// The bytes were not HTTP.
    Malformed,
    /// The connection broke, or its handler panicked.
    Broken,
    /// Closed for a new connection.
    Evicted,
    /// Too many unsent bytes of all clients together; this one was slowest.
    Unsent,
    /// Rejected because all connections were being answered.
    Rejected,
}

impl CloseReason {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Finished,
        Self::Silent,
        Self::Stalled,
        Self::Malformed,
        Self::Broken,
        Self::Evicted,
        Self::Unsent,
        Self::Rejected,
    ];

    /// As a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Silent => "silent",
            Self::Stalled => "stalled",
            Self::Malformed => "malformed",
            Self::Broken => "broken",
            Self::Evicted => "displaced",
            Self::Unsent => "unsent",
            Self::Rejected => "refused",
        }
    }
}

/// A server's connections now, and since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStats {
    /// Open connections, by stage.
    pub open: [(ConnectionStage, usize); ConnectionStage::ALL.len()],
    /// Bytes of responses that clients have not received yet.
    pub unsent_bytes: u64,
    /// Accepted connections.
    pub accepted: u64,
    /// Responses passed to the kernel in full.
    pub answered: u64,
    /// Failed accepts.
    pub accept_failures: u64,
    closed: [u64; CloseReason::ALL.len()],
}

impl Default for ServerStats {
    fn default() -> Self {
        let open = ConnectionStage::ALL.map(|stage| (stage, 0));
        let closed = [0; CloseReason::ALL.len()];
        Self { open, unsent_bytes: 0, accepted: 0, answered: 0, accept_failures: 0, closed }
    }
}

impl ServerStats {
    /// Closed connections, by reason.
    #[must_use]
    pub fn closed(&self) -> [(CloseReason, u64); CloseReason::ALL.len()] {
        CloseReason::ALL.map(|reason| (reason, self.closed[reason as usize]))
    }

    /// Closed connections of one reason.
    #[must_use]
    pub fn closed_for(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize]
    }

    /// Open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.open.iter().map(|(_, n)| n).sum()
    }

    pub(super) fn count(&mut self, reason: CloseReason) {
        self.closed[reason as usize] += 1;
    }
}
