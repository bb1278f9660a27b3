//! Blame: which peer of a job is slower than the others, from the samples that are merged.
//!
//! Owns the cohorts of every rule about stragglers, the names of their peers, and what was refused
//! by reason. It reads merged samples and returns findings, and changes nothing else: the method is
//! the crate `plimsoll_blame`, alerts are moved by `alerting`. It is in no checkpoint: a restart
//! learns anew, and an alert that fires stays as it is until there is evidence.
//!
//! Interface: [`Blame::on_merged`] takes samples, [`Blame::evaluate`] judges once a second,
//! [`Blame::slowest`] is who an alert is about, [`Blame::rows`] and [`Blame::refused`] are for
//! pages, [`Blame::on_rules`] takes other rules.
//!
//! DESIGN A180, A181, A182.

mod peers;
mod reach;
mod rule;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_blame::limits::PEERS_MIN;
use plimsoll_blame::{Hypotheses, Interval};
use plimsoll_schemas::alert::{AlertKey, Scope};
use plimsoll_schemas::ids::{Labels, NodeName, Operation, RuleName};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::summary::{CohortRow, RefusedRow};
use plimsoll_schemas::time::Wall;

pub use self::reach::reach;

pub use self::peers::BlamedPeer;
use self::peers::{PeerGroup, Refused};
use self::rule::{CohortKey, JudgedRule};
use self::steps::{MessageSteps, PeerKey, PeerSteps};
use super::fleet::MergedSnapshot;
use super::rules::{AlertFinding, Finding, Hysteresis};
use crate::limits::blame::{
    CLOCK_BACK_INTERVALS, COHORT_PEERS_MAX, COHORTS_MAX, COHORTS_OF_NODE_MAX, INTERVAL_NS,
};

/// A name has its own hysteresis: it lasts until it is shown to be over.
const AT_ONCE: Hysteresis = Hysteresis { fire_after: 1, clear_after: 1 };

#[derive(Debug)]
pub struct Blame {
    rules: Vec<Arc<JudgedRule>>,
    cohorts: BTreeMap<CohortKey, PeerGroup>,
    refused: BTreeMap<(RuleName, Refused), u64>,
    evaluated_at: Interval,
}

/// A message that was merged: of which node, when its interval ended, and when it was merged.
#[derive(Clone, Copy)]
struct Origin<'m> {
    node: &'m NodeName,
    taken: Interval,
    now: Interval,
}

impl Blame {
    pub fn new(rules: &Rules) -> Self {
        let rules = rules.stragglers.iter().filter_map(JudgedRule::new).map(Arc::new);
        Self {
            rules: rules.collect(),
            cohorts: BTreeMap::new(),
            refused: BTreeMap::new(),
            evaluated_at: Interval::default(),
        }
    }

    /// Judges by other rules from now on; what is learned of those that stay is kept.
    pub fn on_rules(&mut self, rules: &Rules) {
        let Self { rules: former, mut cohorts, mut refused, evaluated_at } =
            std::mem::replace(self, Self::new(rules));
        let stays = |name: &RuleName| {
            let mut of_name = former.iter().filter(|old| old.of.name == *name);
            of_name.any(|old| self.rules.iter().any(|new| old.is_alike(new)))
        };
        cohorts.retain(|key, _| stays(&key.rule));
        refused.retain(|(rule, _), _| stays(rule));
        *self = Self { rules: std::mem::take(&mut self.rules), cohorts, refused, evaluated_at };
    }

    /// Takes the steps of a message that was merged, once.
    pub fn on_merged(&mut self, now: Wall, merged: &MergedSnapshot) {
        let (node, now) = (&merged.node, interval(now));
        for samples in &merged.samples {
            let from = Origin { node, taken: interval(samples.taken), now };
            for rule in self.rules.clone() {
                let known = self.cohorts.keys().filter(|of| of.rule == rule.of.name);
                let known = known.map(|of| of.operation.as_str());
                let steps = MessageSteps::new(&rule, known, samples);

                self.count(&rule, Refused::Unlabelled, steps.unlabelled);
                for (peer, of) in &steps.peers {
                    if let Err(why) = self.on_peer(from, &rule, peer, of) {
                        self.count(&rule, why, 1);
                    }
                }
            }
        }
    }

    fn on_peer(
        &mut self,
        from: Origin<'_>,
        rule: &Arc<JudgedRule>,
        peer: &PeerKey<'_>,
        steps: &PeerSteps,
    ) -> Result<(), Refused> {
        let Origin { node, taken, now } = from;
        // The operation of a phase whose name starts with a dot has none.
        let operation = Operation::new(peer.operation).map_err(|_| Refused::Unlabelled)?;
        let labels = Labels::new(peer.cohort.clone()).map_err(|_| Refused::Unlabelled)?;
        let key = CohortKey { rule: rule.of.name.clone(), operation, labels };
        if !self.make_room(now, node, &key) {
            return Err(Refused::Full);
        }

        let has_room = self.cohorts.values().map(PeerGroup::len).sum::<usize>() < COHORT_PEERS_MAX;
        let cohort = self.cohorts.entry(key);
        let cohort = cohort.or_insert_with(|| PeerGroup::new(Arc::clone(rule), now));
        cohort.newest = now.max(cohort.newest);
        cohort.add(taken, node, peer.peer, steps, has_room)
    }

    /// Whether there is room for peers of a node in a cohort. One that is over, or that cannot be
    /// judged, makes room.
    fn make_room(&mut self, now: Interval, node: &NodeName, key: &CohortKey) -> bool {
        let known = self.cohorts.get(key);
        if known.is_some_and(|peers| peers.has_peer_of(node)) {
            return true;
        }
        let of_node = self.cohorts.values().filter(|peers| peers.has_peer_of(node)).count();
        let is_node_full = of_node >= COHORTS_OF_NODE_MAX;
        if !is_node_full && (known.is_some() || self.cohorts.len() < COHORTS_MAX) {
            return true;
        }

        // Of cohorts that cannot be judged a node gives way to one that brings fewer.
        let few = self.cohorts.values().filter(|peers| peers.len() < PEERS_MIN);
        let mut shares: BTreeMap<&NodeName, usize> = BTreeMap::new();
        few.flat_map(PeerGroup::nodes).for_each(|node| *shares.entry(node).or_default() += 1);
        let share = |node: &NodeName| shares.get(node).copied().unwrap_or_default();
        let is_more = |peers: &PeerGroup| peers.nodes().all(|of| share(of) > share(node) + 1);
        let may_go = |peers: &PeerGroup| match is_node_full {
            // A node that has all that it may have takes none of others.
            true => peers.may_be_evicted(now) && peers.has_peer_of(node),
            false => peers.may_be_evicted(now) || (peers.len() < PEERS_MIN && is_more(peers)),
        };
        let oldest = self.cohorts.iter().filter(|(_, peers)| may_go(peers));
        let oldest = oldest.min_by_key(|(_, peers)| peers.newest).map(|(key, _)| key.clone());
        let Some(oldest) = oldest else { return false };
        self.cohorts.remove(&oldest);
        *self.refused.entry((oldest.rule, Refused::Evicted)).or_default() += 1;
        true
    }

    fn count(&mut self, rule: &JudgedRule, why: Refused, n: u64) {
        if n > 0 {
            let counted = self.refused.entry((rule.of.name.clone(), why)).or_default();
            *counted = counted.saturating_add(n);
        }
    }

    /// Judges every cohort; `active` are the alerts that are not inactive.
    pub fn evaluate(&mut self, now: Wall, active: &[AlertKey]) -> Vec<AlertFinding> {
        let now = interval(now);
        // Everything that comes would be taken for late until the clock is where it was.
        if now.0 + CLOCK_BACK_INTERVALS < self.evaluated_at.0 {
            self.cohorts.clear();
        }
        self.evaluated_at = now;

        let hypotheses = Hypotheses(self.cohorts.values().map(PeerGroup::len).sum());
        self.cohorts.values_mut().for_each(|peers| peers.evaluate(now, hypotheses));
        self.cohorts.retain(|_, peers| peers.len() > 0);

        let named = self.cohorts.iter().flat_map(|(key, peers)| {
            peers.nodes_named().map(|node| AlertKey {
                rule: key.rule.clone(),
                scope: Scope::Node(node.clone()),
                operation: key.operation.clone(),
            })
        });
        let is_own = |key: &&AlertKey| self.rules.iter().any(|rule| rule.of.name == key.rule);
        let keys: BTreeSet<AlertKey> = named.chain(active.iter().filter(is_own).cloned()).collect();
        let found = |key| AlertFinding { finding: self.finding(&key), key, hysteresis: AT_ONCE };
        keys.into_iter().map(found).collect()
    }

    /// Of several cohorts with peers of a node a name counts, and otherwise the one that knows
    /// least.
    fn finding(&self, key: &AlertKey) -> Finding {
        let Scope::Node(node) = &key.scope else { return Finding::NoData };
        let of = self.of_alert(key);
        let found: BTreeSet<Finding> =
            of.filter_map(|(_, peers)| peers.finding(self.evaluated_at, node)).collect();
        match found.contains(&Finding::Breach) {
            true => Finding::Breach,
            false => found.first().copied().unwrap_or(Finding::NoData),
        }
    }

    /// The slowest peer of an alert's node, in whichever cohort; `None` if none is named.
    pub fn slowest(&self, alert: &AlertKey) -> Option<BlamedPeer> {
        let named = self.of_alert(alert).filter_map(|(key, peers)| peers.slowest(key, alert));
        named.max_by(|a, b| a.evidence.excess_ratio.total_cmp(&b.evidence.excess_ratio))
    }

    fn of_alert(&self, key: &AlertKey) -> impl Iterator<Item = (&CohortKey, &PeerGroup)> {
        let is_of = |of: &CohortKey| of.rule == key.rule && of.operation == key.operation;
        self.cohorts.iter().filter(move |(of, _)| is_of(of))
    }

    /// Every cohort as it was last judged.
    pub fn rows(&self) -> Vec<CohortRow> {
        self.cohorts.iter().map(|(key, peers)| peers.row(key)).collect()
    }

    /// What was not judged, by rule and reason.
    pub fn refused(&self) -> Vec<RefusedRow> {
        let row = |((rule, why), reports): (&(RuleName, Refused), &u64)| RefusedRow {
            rule: rule.clone(),
            reason: why.as_str().to_owned(),
            reports: *reports,
        };
        self.refused.iter().map(row).collect()
    }
}

fn interval(at: Wall) -> Interval {
    Interval(at.0 / INTERVAL_NS)
}
