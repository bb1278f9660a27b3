//! Counts of a server's connections, which a process exports about itself.

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_schemas::labelled;

labelled! {
    /// What a connection waits for.
    pub enum ConnectionStage {
        /// For a whole request.
        Waiting = "waiting",
        /// For the answer to a request.
        Answering = "answering",
        /// For the client to receive its answer.
        Writing = "writing",
    }
}

labelled! {
    /// Why a connection closed.
    pub enum CloseReason {
        /// Closed by the client, or after its last answer.
        Finished = "finished",
        /// No complete request head in time.
        Silent = "silent",
        /// The client received nothing of its answer for too long.
        Stalled = "stalled",
        /// The bytes were not HTTP.
        Malformed = "malformed",
        /// The connection broke, or its handler panicked.
        Broken = "broken",
        /// Closed for a new connection.
        Evicted = "displaced",
        /// Too many unsent bytes of all clients together; this one was slowest.
        Unsent = "unsent",
        /// Rejected because all connections were being answered.
        Rejected = "refused",
    }
}

labelled! {
    /// Why a request got no route.
    pub enum RequestRefusal {
        /// Its `Host` is not a name of this process.
        Host = "host",
        /// A change that a page of another site sent.
        Site = "site",
        /// No reader's token, or a wrong one.
        Token = "token",
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
