//! Sequence gaps that stay: samples that a node has recorded and that are missing below its newest
//! message, although what was stored since has been read.
//!
//! A message under way closes its gap shortly. A node resends a message that it still holds
//! once a confirmation reports it as missing. What is missing for longer was lost on the way, which
//! a rule watches. Time in which the streams were not read does not count.
//!
//! DESIGN A8.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{GAP_PATIENCE, GAP_PATIENCE_CHECKPOINTS};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::Mono;

use super::ledger::Gap;

/// What is missing from nodes' ledger entries.
#[derive(Clone, Debug, Default)]
pub(in crate::core) struct Gaps {
    pub(super) watched: BTreeMap<NodeName, WatchedGap>,
    /// Up to when the streams had been read when last watched.
    read_up_to: Mono,
    /// Whether anything could be found out when last watched.
    is_known: bool,
    /// How long a checkpoint takes to follow another.
    pub(in crate::core) checkpoints_every: Duration,
}

/// A gap, and for how long it has been the oldest one, as far as the streams have been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchedGap {
    gap: Gap,
    since: Mono,
    lasted: Duration,
}

/// What was read of the streams since the last time, by the time at which it was stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadSpan {
    from: Mono,
    to: Mono,
}

impl Gaps {
    /// How long a gap may stay. A checkpoint's confirmation reports to a node what is missing, and
    /// one such message may be lost.
    fn allowed(&self) -> Duration {
        GAP_PATIENCE.max(self.checkpoints_every * GAP_PATIENCE_CHECKPOINTS)
    }

    /// Nothing can be found out now: streams are not read, or no node reports.
    pub(super) fn on_unknown(&mut self) {
        self.is_known = false;
    }

    /// Up to when the streams have been read; to be called before the gaps are watched. Returns
    /// the span that has been read since the last time.
    pub(super) fn on_read(&mut self, read: Mono) -> ReadSpan {
        let to = read.max(self.read_up_to);
        ReadSpan { from: std::mem::replace(&mut self.read_up_to, to), to }
    }

    /// `open` are all nodes with a gap. Gaps that are still there have lasted longer by the span
    /// that was read.
    pub(super) fn watch(&mut self, now: Mono, read: ReadSpan, open: BTreeMap<NodeName, Gap>) {
        self.is_known = true;
        self.watched.retain(|name, _| open.contains_key(name));
        for (name, gap) in open {
            // Behind another first number is another gap, whose time starts now.
            let before = self.watched.get(&name).filter(|before| before.gap.hole == gap.hole);
            let since = before.map_or(now, |before| before.since);
            let lasted = before.map_or(Duration::ZERO, |before| before.lasted);
            // Time that was read and not time that passed:
            // in a backlog the message may be waiting (A8).
            let lasted = lasted + read.to.since(read.from.max(since));
            self.watched.insert(name, WatchedGap { gap, since, lasted });
        }
    }

    /// Samples in a node's gap that has stayed for too long; `None` while it may still close, and
    /// where nothing could be found out.
    pub(in crate::core) fn lasting(&self, node: &NodeName) -> Option<u64> {
        if !self.is_known {
            return None;
        }
        let Some(watched) = self.watched.get(node) else { return Some(0) };
        (watched.lasted >= self.allowed()).then_some(watched.gap.samples)
    }

    /// Samples in a node's oldest gap, whether or not it has stayed.
    pub(in crate::core) fn samples(&self, node: &NodeName) -> u64 {
        self.watched.get(node).map_or(0, |watched| watched.gap.samples)
    }

    /// Gaps that have stayed for too long, or that an alert about these nodes is active for.
    pub(in crate::core) fn shown(
        &self,
        alerting: &BTreeSet<Option<&NodeName>>,
    ) -> BTreeMap<NodeName, u64> {
        let allowed = self.allowed();
        let shown = self
            .watched
            .iter()
            .filter(|(name, watched)| watched.lasted >= allowed || alerting.contains(&Some(*name)));
        shown.map(|(name, watched)| (name.clone(), watched.gap.samples)).collect()
    }
}
