//! Gaps that stay: samples that a node has recorded and that are missing below its newest
//! message, although nothing waits to be read. A message on its way closes its gap within
//! moments, and one that its node still keeps is sent again; what is missing for longer than
//! that was lost on the way, and is an alert of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::alert::{AlertKey, AlertState, Evidence, GapEvidence, LEDGER, LEDGER_GAP};
use plimsoll_schemas::ids::{NodeName, Operation, RuleName};
use plimsoll_schemas::limits::aggregator::{EVALUATE_EVERY, GAP_PATIENCE, NODE_SILENT_AFTER};
use plimsoll_schemas::summary::Verdict;
use plimsoll_schemas::time::Wall;

use super::Core;
use super::alert::Patience;
use super::evaluate::Moved;
use super::ledger::Gap;

/// A gap, and for how long it has been the oldest one while nothing waited to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    gap: Gap,
    lasted: Duration,
}

/// The patience is in how long a gap must last; then one look is enough.
const AT_ONCE: Patience = Patience { fire_after: 1, clear_after: 1 };

impl Core {
    /// Looks at every node's account, once a second.
    pub(super) fn judge_gaps(&mut self, now: Wall) {
        let heard = self.nodes.values().map(|node| node.last_heard).max().unwrap_or_default();
        // What nobody has read is not missing, and whoever hears nobody may be cut off.
        if self.is_behind() || now.since(heard) >= NODE_SILENT_AFTER {
            return;
        }
        for name in self.nodes_with_gaps() {
            let gap = self.nodes.get(&name).and_then(|node| node.account.gap());
            self.watch(&name, gap);
            self.judge_gap(now, name);
        }
    }

    /// The nodes that have a gap, had one, or have an alert about one: few.
    fn nodes_with_gaps(&self) -> BTreeSet<NodeName> {
        let shown = self.nodes.iter().filter(|(_, node)| !node.hidden);
        let open = shown.filter(|(_, node)| node.account.gap().is_some()).map(|(name, _)| name);
        let rule = RuleName::new(LEDGER_GAP).expect("a constant name of plain letters");
        let told = self.alerts.alive(&rule).into_iter().flatten();
        open.chain(told).chain(self.gaps.keys()).cloned().collect()
    }

    fn watch(&mut self, node: &NodeName, gap: Option<Gap>) {
        let Some(gap) = gap else {
            self.gaps.remove(node);
            return;
        };
        let before = self.gaps.get(node).filter(|before| before.gap.hole == gap.hole);
        let lasted = before.map_or(Duration::ZERO, |before| before.lasted + EVALUATE_EVERY);
        self.gaps.insert(node.clone(), Watched { gap, lasted });
    }

    fn judge_gap(&mut self, now: Wall, node: NodeName) {
        let watched = self.gaps.get(&node).copied();
        let key = key(node);
        let state = self.alerts.state(&key);
        let verdict = match watched {
            None if state == AlertState::Inactive => return,
            None => Verdict::Within,
            Some(watched) if watched.lasted >= GAP_PATIENCE => Verdict::Breach,
            // Another gap than the one that fired, or one that may still close by itself.
            Some(_) => Verdict::Insufficient,
        };
        let Some(change) = self.alerts.on_verdict(now, &key, verdict, AT_ONCE) else { return };
        self.unsaved.touch();
        if change.to != AlertState::Inactive {
            let gap_samples = watched.map_or(0, |watched| watched.gap.samples);
            let evidence = Evidence::Gap(GapEvidence { gap_samples });
            self.tell(Moved { key, change, at: now, late: Duration::ZERO, evidence });
        }
    }

    /// Samples in gaps of a node that have stayed for too long, and where its alert stands.
    pub(super) fn gap(&self, node: &NodeName) -> (u64, AlertState) {
        let state = self.alerts.state(&key(node.clone()));
        let stayed =
            |watched: &&Watched| watched.lasted >= GAP_PATIENCE || state == AlertState::Firing;
        let samples = self.gaps.get(node).filter(stayed).map_or(0, |watched| watched.gap.samples);
        (samples, state)
    }
}

fn key(node: NodeName) -> AlertKey {
    let constant = "a constant name of plain letters";
    AlertKey {
        rule: RuleName::new(LEDGER_GAP).expect(constant),
        scope: Scope::Node(node),
        operation: Operation::new(LEDGER).expect(constant),
    }
}

#[cfg(test)]
mod tests;
