//! Jobs: which clients bring the latencies of each operation, and which operations have ended.
//!
//! An operation has ended once a client that brought it has sent its final datagram or frame and
//! none has brought it since that may still come. One that vanishes without a final message ends
//! nothing: its silence is for the aggregator to judge. Senders without a number never end; while
//! they bring an operation it has not ended.
//!
//! Owns no samples: at the end of each interval it is handed who brought which operation.
//!
//! DESIGN N55.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{
    JOB_OPERATIONS_MAX, JOB_PAUSES_MAX, JOB_SILENT_AFTER, JOB_SOURCES_MAX, OPERATION_ENDED_SHOWN,
};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::wire::ENDED_OPERATIONS_MAX;
use plimsoll_schemas::time::Mono;

use super::clients::ClientId;

/// Who sends samples: a numbered client, or `None` for everyone else.
pub(crate) type Source = Option<ClientId>;

#[derive(Default)]
pub(super) struct Jobs {
    by_operation: BTreeMap<Operation, BTreeMap<Source, Brought>>,
    /// Clients that have ended since the last interval was closed.
    ending: BTreeSet<ClientId>,
    /// Operations of which a client has ended and no other one has brought any since, though one
    /// may.
    waiting: BTreeSet<Operation>,
    /// Operations that have ended, and when.
    ended: BTreeMap<Operation, Mono>,
}

/// What one source brought of one operation.
struct Brought {
    newest: Mono,
    longest_pause: Duration,
}

impl Jobs {
    /// A client has sent its final datagram or frame. It counts at the end of the interval, with
    /// what the client brought before.
    pub(super) fn on_final(&mut self, client: ClientId) {
        self.ending.insert(client);
    }

    /// An interval is over, in which these sources brought samples of these operations. Those that
    /// a budget judges have room before others.
    pub(super) fn on_interval<'a>(
        &mut self,
        now: Mono,
        judged: &BTreeSet<Operation>,
        brought: impl Iterator<Item = (&'a Operation, Source)>,
    ) {
        // Only when there is no room, since it visits every source of every operation.
        if self.by_operation.len() >= JOB_OPERATIONS_MAX {
            self.by_operation.retain(|_, sources| !sources.values().all(|of| of.is_gone(now)));
        }

        for (operation, source) in brought {
            self.on_brought(now, operation, source, judged);
        }
        // After what was brought: samples of a final datagram came before its end (N55).
        for client in std::mem::take(&mut self.ending) {
            self.end(client);
        }
        self.end_waiting(now);
        self.ended.retain(|_, at| now.since(*at) < OPERATION_ENDED_SHOWN);

        while self.ended.len() > JOB_OPERATIONS_MAX {
            let first = |(name, at): &(&Operation, &Mono)| (judged.contains(*name), **at);
            let Some((first, _)) = self.ended.iter().min_by_key(first) else { break };
            let first = first.clone();
            self.ended.remove(&first);
        }
    }

    /// Operations that have ended and were not begun again, in order of their names: those that a
    /// budget judges before others, and of these the latest.
    pub(super) fn ended(&self, judged: &BTreeSet<Operation>) -> Box<[Operation]> {
        let mut all: Vec<_> = self.ended.iter().collect();
        all.sort_by_key(|(name, at)| (!judged.contains(*name), Reverse(**at)));
        all.truncate(ENDED_OPERATIONS_MAX);
        let mut names: Vec<Operation> = all.into_iter().map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names.into()
    }

    fn on_brought(
        &mut self,
        now: Mono,
        operation: &Operation,
        source: Source,
        judged: &BTreeSet<Operation>,
    ) {
        // Samples have come again, so it goes on.
        self.ended.remove(operation);
        self.waiting.remove(operation);

        if !self.by_operation.contains_key(operation) {
            let is_full = self.by_operation.len() >= JOB_OPERATIONS_MAX;
            // Where there is no room the operation never counts as ended.
            if is_full && !(judged.contains(operation) && self.evict_other(judged)) {
                return;
            }
            self.by_operation.insert(operation.clone(), BTreeMap::new());
        }

        let Some(sources) = self.by_operation.get_mut(operation) else { return };

        if !sources.contains_key(&source) && sources.len() >= JOB_SOURCES_MAX {
            // The one silent for longest is the likeliest to be gone already.
            let longest = sources.iter().min_by_key(|(_, of)| of.newest).map(|(of, _)| *of);
            longest.and_then(|longest| sources.remove(&longest));
        }

        let new = Brought { newest: now, longest_pause: Duration::ZERO };
        let brought = sources.entry(source).or_insert(new);
        brought.longest_pause = brought.longest_pause.max(now.since(brought.newest));
        brought.newest = now;
    }

    /// Forgets an operation that no budget judges; false if there is none.
    fn evict_other(&mut self, judged: &BTreeSet<Operation>) -> bool {
        let other = self.by_operation.keys().find(|name| !judged.contains(*name)).cloned();
        other.is_some_and(|other| self.by_operation.remove(&other).is_some())
    }

    fn end(&mut self, client: ClientId) {
        for (operation, sources) in &mut self.by_operation {
            if sources.remove(&Some(client)).is_some() {
                self.waiting.insert(operation.clone());
            }
        }
    }

    /// Ends what no source is left of that has not gone.
    fn end_waiting(&mut self, now: Mono) {
        let Self { by_operation, waiting, ended, .. } = self;
        waiting.retain(|operation| {
            let sources = by_operation.get(operation);
            let is_over = sources.is_none_or(|all| all.values().all(|of| of.is_gone(now)));
            if is_over {
                by_operation.remove(operation);
                ended.insert(operation.clone(), now);
            }
            !is_over
        });
    }
}

impl Brought {
    /// Whether the source has been silent for longer than its pauses explain.
    fn is_gone(&self, now: Mono) -> bool {
        now.since(self.newest) > (self.longest_pause * JOB_PAUSES_MAX).max(JOB_SILENT_AFTER)
    }
}

#[cfg(test)]
mod tests;
