//! Blame: which peer of a job is slower than the others, from the samples that are merged.
//!
//! Owns the cohorts of every rule about stragglers, the names of their peers, and what was refused
//! by reason. It reads merged samples and returns findings, and changes nothing else: the method is
//! the crate `plimsoll_blame`, alerts are moved by `alerting`. It is in no checkpoint: a restart
//! learns anew, and an alert that fires stays as it is until there is evidence.
//!
//! Interface: [`Blame::on_merged`] takes samples, [`Blame::evaluate`] judges once a second,
//! [`Blame::evidence`], [`Blame::pair`] and [`Blame::has_ended`] are about one alert,
//! [`Blame::rows`] and [`Blame::refused`] are for pages, [`Blame::on_rules`] takes other rules.
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

use plimsoll_blame::{Hypotheses, Interval};
use plimsoll_schemas::alert::{AlertKey, Scope, StragglerEvidence};
use plimsoll_schemas::ids::{NodeName, Operation, RuleName};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::summary::{CohortRow, RefusedRow};
use plimsoll_schemas::time::Wall;

pub use self::reach::reach;

pub use self::peers::{BlamedPair, BlamedPeer};
use self::peers::{PeerGroup, Refused};
use self::rule::{CohortKey, JudgedRule};
use self::steps::{MessageSteps, PeerKey, PeerSteps};
use super::fleet::MergedSnapshot;
use super::rules::{AlertFinding, Finding, Hysteresis};
use crate::limits::blame::{CLOCK_BACK_INTERVALS, COHORT_PEERS_MAX, COHORTS_MAX, INTERVAL_NS};

/// A name has its own hysteresis: it lasts until it is shown to be over.
const AT_ONCE: Hysteresis = Hysteresis { fire_after: 1, clear_after: 1 };

#[derive(Debug)]
pub struct Blame {
    rules: Arc<Vec<JudgedRule>>,
    /// Operations that have phases with a class.
    operations: BTreeSet<Operation>,
    cohorts: BTreeMap<CohortKey, PeerGroup>,
    refused: BTreeMap<(RuleName, Refused), u64>,
    evaluated_at: Interval,
}

/// A message that was merged: of which node, and when its interval ended.
#[derive(Clone, Copy)]
struct Origin<'m> {
    node: &'m NodeName,
    taken: Wall,
}

impl Blame {
    pub fn new(rules: &Rules) -> Self {
        Self {
            rules: Arc::new(rules.stragglers.iter().filter_map(JudgedRule::new).collect()),
            operations: BTreeSet::new(),
            cohorts: BTreeMap::new(),
            refused: BTreeMap::new(),
            evaluated_at: Interval::default(),
        }
    }

    /// Judges by other rules from now on; what is learned of those that stay is kept.
    pub fn on_rules(&mut self, rules: &Rules) {
        let former = std::mem::replace(self, Self::new(rules));
        let stays = |name: &RuleName| {
            let of = |rules: &[JudgedRule]| rules.iter().find(|rule| rule.name() == name).cloned();
            of(&former.rules).zip(of(&self.rules)).is_some_and(|(old, new)| old.is_alike(&new))
        };
        let cohorts = former.cohorts.into_iter().filter(|(key, _)| stays(&key.rule)).collect();
        let refused = former.refused.into_iter().filter(|((rule, _), _)| stays(rule)).collect();
        (self.cohorts, self.refused) = (cohorts, refused);
        (self.operations, self.evaluated_at) = (former.operations, former.evaluated_at);
    }

    /// Takes the steps of a message that was merged, once.
    pub fn on_merged(&mut self, now: Wall, merged: &MergedSnapshot) {
        let (rules, mut known) = (Arc::clone(&self.rules), std::mem::take(&mut self.operations));
        for samples in merged.samples.iter().filter(|_| !rules.is_empty()) {
            steps::note_operations(&mut known, samples);
            for rule in rules.iter().filter(|_| !known.is_empty()) {
                let steps = MessageSteps::new(rule, &known, samples);
                let from = Origin { node: &merged.node, taken: samples.taken };
                self.on_steps(now, rule, from, &steps);
            }
        }
        self.operations = known;

        for operation in &merged.ended {
            let of_operation = self.cohorts.iter_mut().filter(|(of, _)| of.operation == *operation);
            of_operation.for_each(|(_, peers)| peers.end(&merged.node));
        }
    }

    fn on_steps(
        &mut self,
        now: Wall,
        rule: &JudgedRule,
        from: Origin<'_>,
        steps: &MessageSteps<'_>,
    ) {
        self.count(rule, Refused::Unlabelled, steps.unlabelled);
        for (peer, of) in &steps.peers {
            if let Err(why) = self.on_peer(now, rule, from, peer, of) {
                self.count(rule, why, 1);
            }
        }
    }

    fn on_peer(
        &mut self,
        now: Wall,
        rule: &JudgedRule,
        from: Origin<'_>,
        peer: &PeerKey<'_>,
        steps: &PeerSteps,
    ) -> Result<(), Refused> {
        let (name, operation) = (rule.name().clone(), peer.operation.clone());
        let key = CohortKey { rule: name, operation, labels: peer.cohort(rule) };
        if !self.cohorts.contains_key(&key) && self.cohorts.len() == COHORTS_MAX {
            return Err(Refused::Full);
        }
        let has_room = self.cohorts.values().map(PeerGroup::len).sum::<usize>() < COHORT_PEERS_MAX;
        let cohort = self.cohorts.entry(key);
        let cohort = cohort.or_insert_with(|| PeerGroup::new(rule, interval(now)));
        cohort.add(interval(from.taken), from.node, peer.peer, steps, has_room)
    }

    fn count(&mut self, rule: &JudgedRule, why: Refused, n: u64) {
        if n > 0 {
            let counted = self.refused.entry((rule.name().clone(), why)).or_default();
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
        let is_own = |key: &&AlertKey| self.rules.iter().any(|rule| *rule.name() == key.rule);
        let keys: BTreeSet<AlertKey> = named.chain(active.iter().filter(is_own).cloned()).collect();
        let found = |key| AlertFinding { finding: self.finding(&key), key, hysteresis: AT_ONCE };
        keys.into_iter().map(found).collect()
    }

    /// Of several cohorts with peers of a node a name counts, and otherwise the one that knows
    /// least.
    fn finding(&self, key: &AlertKey) -> Finding {
        let Some(node) = node_of(key) else { return Finding::NoData };
        let of = self.of_alert(key);
        let found: BTreeSet<Finding> =
            of.filter_map(|(_, peers)| peers.finding(self.evaluated_at, node)).collect();
        match found.contains(&Finding::Breach) {
            true => Finding::Breach,
            false => found.first().copied().unwrap_or(Finding::NoData),
        }
    }

    /// Evidence against the slowest peer of an alert's node; `None` if none is named.
    pub fn evidence(&self, key: &AlertKey) -> Option<StragglerEvidence> {
        let rule = self.rules.iter().find(|rule| *rule.name() == key.rule)?;
        let node = node_of(key)?;
        let found = self.of_alert(key).filter_map(|(of, peers)| peers.evidence(rule, of, node));
        found.max_by(|one, other| one.excess_ratio.total_cmp(&other.excess_ratio))
    }

    /// The slowest peer of an alert's node, and a healthy one; `None` if none is named.
    pub fn pair(&self, key: &AlertKey) -> Option<BlamedPair> {
        let rule = self.rules.iter().find(|rule| *rule.name() == key.rule)?;
        let node = node_of(key)?;
        self.of_alert(key).find_map(|(of, peers)| peers.pair(rule, of, node))
    }

    /// Whether all jobs of an alert's node have ended in order.
    pub fn has_ended(&self, key: &AlertKey) -> bool {
        let Some(node) = node_of(key) else { return false };
        let of_node = self.of_alert(key).filter_map(|(_, peers)| peers.have_ended(node));
        let ended: Vec<bool> = of_node.collect();
        !ended.is_empty() && !ended.contains(&false)
    }

    fn of_alert(&self, key: &AlertKey) -> impl Iterator<Item = (&CohortKey, &PeerGroup)> {
        let is_of = |of: &CohortKey| of.rule == key.rule && of.operation == key.operation;
        self.cohorts.iter().filter(move |(of, _)| is_of(of))
    }

    /// Every cohort as it was last judged.
    pub fn rows(&self) -> Vec<CohortRow> {
        let rule = |name: &RuleName| self.rules.iter().find(|rule| rule.name() == name);
        let rows =
            self.cohorts.iter().filter_map(|(key, peers)| Some(peers.row(rule(&key.rule)?, key)));
        rows.collect()
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

fn node_of(key: &AlertKey) -> Option<&NodeName> {
    match &key.scope {
        Scope::Node(node) => Some(node),
        Scope::Fleet => None,
    }
}

fn interval(at: Wall) -> Interval {
    Interval(at.0 / INTERVAL_NS)
}
