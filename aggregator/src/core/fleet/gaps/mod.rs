//! Gaps that stay: samples that a node has recorded and that are missing below its newest
//! message, although what was stored since has been read. A message on its way closes its gap
//! within moments, and one that its node still keeps is sent again once the node hears that it
//! is missing; what is missing for longer than that was lost on the way, which a rule watches.
//! Time in which the streams were not read is nobody's loss and does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{GAP_PATIENCE, GAP_PATIENCE_CHECKPOINTS, NODE_SILENT_AFTER};
use plimsoll_schemas::alert::LEDGER_GAP;
use plimsoll_schemas::ids::{NodeName, RuleName};
use plimsoll_schemas::time::{Mono, Now, Wall};

use crate::core::Core;
use crate::core::fleet::ledger::Gap;

/// What is missing from nodes' accounts.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    watched: BTreeMap<NodeName, Watched>,
    /// Up to when the streams had been read at the last look.
    read_up_to: Mono,
    /// Whether the last look could tell anything.
    is_told: bool,
    /// How long a checkpoint takes to follow another.
    checkpoints_every: Duration,
}

/// A gap, and for how long it has been the oldest one, as far as the streams have been read.
#[derive(Clone, Copy, Debug)]
struct Watched {
    gap: Gap,
    since: Mono,
    lasted: Duration,
}

impl Gaps {
    /// The nodes that have one.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.watched.keys()
    }

    pub(crate) fn forget(&mut self, node: &NodeName) {
        self.watched.remove(node);
    }

    /// A node hears with a checkpoint what is missing, and may miss hearing it once.
    fn patience(&self) -> Duration {
        GAP_PATIENCE.max(self.checkpoints_every * GAP_PATIENCE_CHECKPOINTS)
    }

    /// The streams have been read up to `to`, and before that up to `from`: gaps that are still
    /// there have lasted so much longer.
    fn watch(&mut self, now: Mono, (from, to): (Mono, Mono), node: &NodeName, gap: Option<Gap>) {
        let Some(gap) = gap else {
            self.watched.remove(node);
            return;
        };
        let before = self.watched.get(node).filter(|before| before.gap.hole == gap.hole);
        let since = before.map_or(now, |before| before.since);
        let lasted = before.map_or(Duration::ZERO, |before| before.lasted);
        let lasted = lasted + to.since(from.max(since));
        self.watched.insert(node.clone(), Watched { gap, since, lasted });
    }
}

impl Core {
    /// Looks at every node's account, once a second; a rule judges what is found.
    pub(crate) fn watch_gaps(&mut self, now: Now) {
        self.gaps.is_told = false;
        let Some(read) = self.read_up_to().as_of(now.mono) else { return };
        let read = read.max(self.gaps.read_up_to);
        let before = std::mem::replace(&mut self.gaps.read_up_to, read);
        let heard = self.nodes.values().map(|node| node.last_heard).max().unwrap_or_default();
        // Whoever hears nobody may be cut off.
        if now.wall.since(heard) >= NODE_SILENT_AFTER {
            return;
        }
        self.gaps.is_told = true;
        for name in self.nodes_with_gaps() {
            let gap = self.nodes.get(&name).and_then(|node| node.account.gap());
            self.gaps.watch(now.mono, (before, read), &name, gap);
        }
    }

    /// Hears that a checkpoint was stored, when it was taken, and how long after it began the next
    /// one does.
    pub fn on_stored(&mut self, taken_at: Wall, next_after: Duration) {
        self.itself.on_stored(taken_at);
        self.gaps.checkpoints_every = next_after;
    }

    /// The nodes that have a gap, or had one at the last look: few.
    fn nodes_with_gaps(&self) -> BTreeSet<NodeName> {
        let shown = self.nodes.iter().filter(|(_, node)| !node.hidden);
        let open = shown.filter(|(_, node)| node.account.gap().is_some()).map(|(name, _)| name);
        open.chain(self.gaps.nodes()).cloned().collect()
    }

    /// Samples in a node's gap that has stayed for too long; `None` while it may still close, and
    /// where nobody could look.
    pub(crate) fn gap(&self, node: &NodeName) -> Option<u64> {
        if !self.gaps.is_told {
            return None;
        }
        let Some(watched) = self.gaps.watched.get(node) else { return Some(0) };
        (watched.lasted >= self.gaps.patience()).then_some(watched.gap.samples)
    }

    /// Samples in a node's oldest gap, whether or not it has stayed.
    pub(crate) fn gap_samples(&self, node: &NodeName) -> u64 {
        self.gaps.watched.get(node).map_or(0, |watched| watched.gap.samples)
    }

    /// Gaps that have stayed for too long, or that an alert still stands about.
    pub(crate) fn gaps_to_show(&self) -> BTreeMap<NodeName, u64> {
        let rule = RuleName::new(LEDGER_GAP).expect("a constant name of plain letters");
        let told = self.alerts.alive(&rule);
        let patience = self.gaps.patience();
        let shown =
            self.gaps.watched.iter().filter(|(name, watched)| {
                watched.lasted >= patience || told.contains(&Some(*name))
            });
        shown.map(|(name, watched)| (name.clone(), watched.gap.samples)).collect()
    }
}

#[cfg(test)]
mod tests;
