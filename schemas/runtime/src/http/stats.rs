//! Counts of a server's connections, which a process exports about itself.

use std::sync::atomic::{AtomicU64, Ordering};

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
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Answering, Self::Writing];

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

/// Why a request got no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestRefusal {
    /// Its `Host` is not a name of this process.
    Host,
    /// A change that a page of another site sent.
    Site,
    /// No reader's token, or a wrong one.
    Token,
}

impl RequestRefusal {
    pub const ALL: [Self; 3] = [Self::Host, Self::Site, Self::Token];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Site => "site",
            Self::Token => "token",
        }
    }
}

/// Refused requests; what routes and server share.
#[derive(Debug, Default)]
pub(super) struct RefusalCounts([AtomicU64; RequestRefusal::ALL.len()]);

impl RefusalCounts {
    pub(super) fn count(&self, reason: RequestRefusal) {
        self.0[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> [u64; RequestRefusal::ALL.len()] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

/// What a server lacks that others than this machine reach; nothing on loopback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exposure {
    pub tls: bool,
    /// A token of readers.
    pub token: bool,
}

impl Exposure {
    /// What is lacked, as a label, and whether it is.
    pub fn rows(self) -> [(&'static str, bool); 2] {
        [("tls", self.tls), ("token", self.token)]
    }
}

/// A server's connections now, and since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStats {
    /// Open connections, by stage.
    pub open: [(ConnectionStage, usize); ConnectionStage::ALL.len()],
    /// Bytes of responses that clients have not received yet.
    pub unsent_bytes: u64,
    pub accepted: u64,
    /// Responses passed to the kernel in full.
    pub answered: u64,
    pub accept_failures: u64,
    /// What protection it lacks.
    pub exposure: Exposure,
    closed: [u64; CloseReason::ALL.len()],
    pub(super) refused: [u64; RequestRefusal::ALL.len()],
}

impl Default for ServerStats {
    fn default() -> Self {
        let open = ConnectionStage::ALL.map(|stage| (stage, 0));
        let closed = [0; CloseReason::ALL.len()];
        Self {
            open,
            unsent_bytes: 0,
            accepted: 0,
            answered: 0,
            accept_failures: 0,
            exposure: Exposure::default(),
            closed,
            refused: [0; RequestRefusal::ALL.len()],
        }
    }
}

impl ServerStats {
    /// Closed connections, by reason.
    pub fn closed(&self) -> [(CloseReason, u64); CloseReason::ALL.len()] {
        CloseReason::ALL.map(|reason| (reason, self.closed[reason as usize]))
    }

    /// Refused requests, by reason.
    pub fn refused(&self) -> [(RequestRefusal, u64); RequestRefusal::ALL.len()] {
        RequestRefusal::ALL.map(|reason| (reason, self.refused[reason as usize]))
    }

    /// Closed connections of one reason.
    pub fn closed_for(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize]
    }

    pub fn connections(&self) -> usize {
        self.open.iter().map(|(_, n)| n).sum()
    }

    pub(super) fn count(&mut self, reason: CloseReason) {
        self.closed[reason as usize] += 1;
    }
}
