//! Who is connected, and who has to go when there are too many: numbers in, decisions out.
//!
//! A request takes milliseconds to send and an answer not much longer to take, so whoever has been
//! at it for longest is the least likely to ever be done. He goes first, so that a newcomer always
//! gets in; nobody goes whose request is being answered. Over HTTP/2 one connection asks several
//! things at once. Opens, reads and writes nothing itself.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::limits::ADDRESS_SHARE;
use plimsoll_schemas::time::Mono;
use tokio::task::AbortHandle;

use super::figures::{Closed, Figures, Stage};

/// A connection's number, never given twice.
pub(super) type Id = u64;

/// All connections that are open.
pub(super) struct Book {
    connections_max: usize,
    owed_bytes_max: u64,
    next: Id,
    open: BTreeMap<Id, Open>,
    figures: Figures,
}

struct Open {
    address: IpAddr,
    since: Mono,
    /// Requests that wait for their answer.
    answering: usize,
    /// Answers whose body the writer does not have in full.
    unsaid: usize,
    /// Answers that the kernel does not have in full.
    unwritten: u64,
    /// Bytes of their bodies.
    owed: u64,
    task: Option<AbortHandle>,
}

impl Open {
    fn stage(&self) -> Stage {
        match self {
            Self { answering: 1.., .. } => Stage::Answering,
            Self { unwritten: 1.., .. } => Stage::Writing,
            _ => Stage::Waiting,
        }
    }
}

impl Book {
    pub(super) fn new(connections_max: usize, owed_bytes_max: u64) -> Self {
        let (open, figures) = (BTreeMap::new(), Figures::default());
        Self { connections_max, owed_bytes_max, next: 0, open, figures }
    }

    /// Enters a newcomer, in whose place another may have to go; `None` when all are being
    /// answered just now.
    pub(super) fn admit(&mut self, now: Mono, address: IpAddr) -> Option<Id> {
        if self.open.len() >= self.connections_max && !self.displace() {
            self.figures.count(Closed::Refused);
            return None;
        }
        let id = self.next;
        self.next += 1;
        self.figures.accepted += 1;
        let address = household(address);
        let (since, task) = (now, None);
        let open = Open { address, since, answering: 0, unsaid: 0, unwritten: 0, owed: 0, task };
        self.open.insert(id, open);
        Some(id)
    }

    /// Notes who serves a connection: whoever is displaced is ended through it.
    pub(super) fn on_served(&mut self, id: Id, task: AbortHandle) {
        if let Some(open) = self.open.get_mut(&id) {
            open.task = Some(task);
        }
    }

    /// A whole request has come, its body too.
    pub(super) fn on_request(&mut self, now: Mono, id: Id) {
        let Some(open) = self.open.get_mut(&id) else { return };
        (open.answering, open.since) = (open.answering + 1, now);
    }

    /// Such a request waits for its answer no more.
    pub(super) fn on_request_over(&mut self, now: Mono, id: Id) {
        let Some(open) = self.open.get_mut(&id) else { return };
        (open.answering, open.since) = (open.answering.saturating_sub(1), now);
    }

    /// An answer is there, with a body of so many bytes as far as that is known.
    /// What waits for longest to be taken is given up when that is too much for all together.
    pub(super) fn on_answer(&mut self, now: Mono, id: Id, bytes: u64) {
        let Some(open) = self.open.get_mut(&id) else { return };
        (open.unsaid, open.unwritten, open.since) = (open.unsaid + 1, open.unwritten + 1, now);
        open.owed = open.owed.saturating_add(bytes);
        while self.owed() > self.owed_bytes_max {
            let writing = |other: Id, open: &Open| other != id && open.stage() == Stage::Writing;
            let Some(victim) = self.most_dispensable(writing) else { return };
            self.end(victim, Closed::Owed);
        }
    }

    /// The writer has all of one answer's body.
    pub(super) fn on_all_said(&mut self, id: Id) {
        if let Some(open) = self.open.get_mut(&id) {
            open.unsaid = open.unsaid.saturating_sub(1);
        }
    }

    /// The kernel has all that the writer had.
    pub(super) fn on_written(&mut self, now: Mono, id: Id) {
        let done = self.open.get_mut(&id).filter(|open| open.unwritten > 0 && open.unsaid == 0);
        if let Some(open) = done {
            self.figures.answered += std::mem::take(&mut open.unwritten);
            (open.owed, open.since) = (0, now);
        }
    }

    /// A connection is over; nothing is counted of one that had to go.
    pub(super) fn on_closed(&mut self, id: Id, reason: Closed) {
        if self.open.remove(&id).is_some() {
            self.figures.count(reason);
        }
    }

    /// The system has no room for another: whoever is most dispensable makes room.
    pub(super) fn on_accept_failed(&mut self) {
        self.figures.accept_failures += 1;
        self.displace();
    }

    pub(super) fn figures(&self) -> Figures {
        let count = |stage| self.open.values().filter(|open| open.stage() == stage).count();
        let mut figures = self.figures.clone();
        figures.open = Stage::ALL.map(|stage| (stage, count(stage)));
        figures.owed_bytes = self.owed();
        figures
    }

    fn owed(&self) -> u64 {
        self.open.values().fold(0, |sum, open| sum.saturating_add(open.owed))
    }

    fn displace(&mut self) -> bool {
        let Some(victim) = self.most_dispensable(|_, open| open.stage() != Stage::Answering) else {
            return false;
        };
        self.end(victim, Closed::Displaced);
        true
    }

    /// Of those that may go: of the address with the most beyond its share, at the same step for
    /// longest.
    fn most_dispensable(&self, may_go: impl Fn(Id, &Open) -> bool) -> Option<Id> {
        let mut connections = BTreeMap::<IpAddr, usize>::new();
        for open in self.open.values() {
            *connections.entry(open.address).or_default() += 1;
        }
        let excess = |open: &Open| connections[&open.address].saturating_sub(ADDRESS_SHARE);
        let open = self.open.iter().filter(|(id, open)| may_go(**id, open));
        let first = open.min_by_key(|(id, open)| (usize::MAX - excess(open), open.since, **id));
        first.map(|(id, _)| *id)
    }

    fn end(&mut self, id: Id, reason: Closed) {
        if let Some(Open { task: Some(task), .. }) = self.open.remove(&id) {
            task.abort();
        }
        self.figures.count(reason);
    }
}

/// Whom an address belongs to: in IPv6 one subscriber has 64 bits of them.
fn household(address: IpAddr) -> IpAddr {
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
