//! The table of open connections: which one to evict when there are too many. No I/O.
//!
//! A request takes milliseconds to send, and an answer not much longer to receive, so the
//! connection that has been at one stage for longest is the least likely to finish. It is evicted
//! first, so that a new connection always gets in; a connection whose request is being answered is
//! never evicted. Over HTTP/2 one connection has several requests at a time.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::limits::ADDRESS_SHARE;
use plimsoll_schemas::time::Mono;
use tokio::task::AbortHandle;

use super::stats::{CloseReason, ConnectionStage, ServerStats};

/// A connection's number, never reused.
pub(super) type ConnectionId = u64;

/// All connections that are open.
pub(super) struct ConnectionTable {
    connections_max: usize,
    unsent_bytes_max: u64,
    next: ConnectionId,
    open: BTreeMap<ConnectionId, Open>,
    stats: ServerStats,
}

struct Open {
    address: IpAddr,
    since: Mono,
    answering: usize,
    /// Responses whose body the writer does not have in full.
    unbuffered: usize,
    /// Responses that the kernel does not have in full.
    unwritten: u64,
    /// Bytes of their bodies.
    unsent: u64,
    task: Option<AbortHandle>,
}

impl Open {
    fn stage(&self) -> ConnectionStage {
        match self {
            Self { answering: 1.., .. } => ConnectionStage::Answering,
            Self { unwritten: 1.., .. } => ConnectionStage::Writing,
            _ => ConnectionStage::Waiting,
        }
    }
}

impl ConnectionTable {
    pub(super) fn new(connections_max: usize, unsent_bytes_max: u64) -> Self {
        let (open, stats) = (BTreeMap::new(), ServerStats::default());
        Self { connections_max, unsent_bytes_max, next: 0, open, stats }
    }

    /// Adds a new connection, for which another may be evicted; `None` when all are being answered.
    pub(super) fn admit(&mut self, now: Mono, address: IpAddr) -> Option<ConnectionId> {
        if self.open.len() >= self.connections_max && !self.evict_one() {
            self.stats.count(CloseReason::Rejected);
            return None;
        }
        let id = self.next;
        self.next += 1;
        self.stats.accepted += 1;
        // A share for each address of IPv6 would be no bound: one subscriber has 2^64 of them.
        let address = subscriber(address);
        let (since, task) = (now, None);
        let open =
            Open { address, since, answering: 0, unbuffered: 0, unwritten: 0, unsent: 0, task };
        self.open.insert(id, open);
        Some(id)
    }

    /// Sets the task that serves a connection; an eviction aborts it.
    pub(super) fn on_served(&mut self, id: ConnectionId, task: AbortHandle) {
        if let Some(open) = self.open.get_mut(&id) {
            open.task = Some(task);
        }
    }

    /// A complete request was received, including its body.
    pub(super) fn on_request(&mut self, now: Mono, id: ConnectionId) {
        let Some(open) = self.open.get_mut(&id) else { return };
        (open.answering, open.since) = (open.answering + 1, now);
    }

    /// Such a request no longer waits for its answer.
    pub(super) fn on_request_over(&mut self, now: Mono, id: ConnectionId) {
        let Some(open) = self.open.get_mut(&id) else { return };
        (open.answering, open.since) = (open.answering.saturating_sub(1), now);
    }

    /// A response starts, with a body of at least `bytes`. When all unsent bytes exceed the limit,
    /// the connections that have been writing for longest are closed.
    pub(super) fn on_answer(&mut self, now: Mono, id: ConnectionId, bytes: u64) {
        let Some(open) = self.open.get_mut(&id) else { return };
        (open.unbuffered, open.unwritten, open.since) =
            (open.unbuffered + 1, open.unwritten + 1, now);
        open.unsent = open.unsent.saturating_add(bytes);
        // Never the new one: an answer has to have its chance to be taken.
        while self.unsent() > self.unsent_bytes_max {
            let writing = |other: ConnectionId, open: &Open| {
                other != id && open.stage() == ConnectionStage::Writing
            };
            let Some(victim) = self.eviction_candidate(writing) else { return };
            self.end(victim, CloseReason::Unsent);
        }
    }

    /// The writer has the whole body of one response.
    pub(super) fn on_body_buffered(&mut self, id: ConnectionId) {
        if let Some(open) = self.open.get_mut(&id) {
            open.unbuffered = open.unbuffered.saturating_sub(1);
        }
    }

    /// The kernel has all that the writer had.
    pub(super) fn on_written(&mut self, now: Mono, id: ConnectionId) {
        let done = self.open.get_mut(&id).filter(|open| open.unwritten > 0 && open.unbuffered == 0);
        if let Some(open) = done {
            self.stats.answered += std::mem::take(&mut open.unwritten);
            (open.unsent, open.since) = (0, now);
        }
    }

    /// A connection closed; an evicted one is already counted.
    pub(super) fn on_closed(&mut self, id: ConnectionId, reason: CloseReason) {
        if self.open.remove(&id).is_some() {
            self.stats.count(reason);
        }
    }

    /// The system cannot accept another connection: evicts one.
    pub(super) fn on_accept_failed(&mut self) {
        self.stats.accept_failures += 1;
        self.evict_one();
    }

    pub(super) fn stats(&self) -> ServerStats {
        let count = |stage| self.open.values().filter(|open| open.stage() == stage).count();
        let mut stats = self.stats.clone();
        stats.open = ConnectionStage::ALL.map(|stage| (stage, count(stage)));
        stats.unsent_bytes = self.unsent();
        stats
    }

    fn unsent(&self) -> u64 {
        self.open.values().fold(0, |sum, open| sum.saturating_add(open.unsent))
    }

    fn evict_one(&mut self) -> bool {
        let Some(victim) =
            self.eviction_candidate(|_, open| open.stage() != ConnectionStage::Answering)
        else {
            return false;
        };
        self.end(victim, CloseReason::Evicted);
        true
    }

    /// Of those that `may_go`: of the address with the most connections beyond its share, the one
    /// longest at one stage.
    fn eviction_candidate(
        &self,
        may_go: impl Fn(ConnectionId, &Open) -> bool,
    ) -> Option<ConnectionId> {
        let mut connections = BTreeMap::<IpAddr, usize>::new();
        for open in self.open.values() {
            *connections.entry(open.address).or_default() += 1;
        }
        let excess = |open: &Open| connections[&open.address].saturating_sub(ADDRESS_SHARE);
        let open = self.open.iter().filter(|(id, open)| may_go(**id, open));
        let first = open.min_by_key(|(id, open)| (usize::MAX - excess(open), open.since, **id));
        first.map(|(id, _)| *id)
    }

    fn end(&mut self, id: ConnectionId, reason: CloseReason) {
        if let Some(Open { task: Some(task), .. }) = self.open.remove(&id) {
            task.abort();
        }
        self.stats.count(reason);
    }
}

/// The subscriber of an address: in IPv6 one subscriber has a /64.
fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

#[cfg(test)]
mod tests;
