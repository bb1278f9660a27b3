//! Blame: which peer of a job is slower than the others, from the samples that are merged.
//!
//! Owns the cohorts of every rule about stragglers, the names of their peers, and what was refused
//! by reason. It reads merged samples and returns findings, and changes nothing else: the method is
//! the crate `plimsoll_blame`, alerts are moved by `alerting`. It is in no checkpoint: a restart
//! learns anew, and an alert that fires stays as it is until there is evidence.
//!
//! Interface: [`Blame::on_merged`] takes samples, [`Blame::evaluate`] judges once a second,
//! [`Blame::evidence`], [`Blame::pair`], [`Blame::on_ended`], [`Blame::ended_at`] and
//! [`Blame::has_no_steps`] are about one alert,
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

use plimsoll_blame::limits::{FORGOTTEN_INTERVALS, PEERS_MIN};
use plimsoll_blame::{Hypotheses, Interval};
use plimsoll_schemas::alert::{AlertKey, Scope, StragglerEvidence};
use plimsoll_schemas::ids::{NodeName, RuleName};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::summary::{CohortRow, RefusedRow};
use plimsoll_schemas::time::Wall;

pub use self::reach::reach;

pub use self::peers::{BlamedPair, BlamedPeer};
use self::peers::{PeerGroup, Refused};
use self::rule::{CohortKey, JudgedRule};
use self::steps::{MessageSteps, PeerKey, PeerSteps, StepOperations};
use super::fleet::MergedSnapshot;
use super::rules::{AlertFinding, Finding, Hysteresis};
use crate::limits::blame::{
    CLOCK_BACK_INTERVALS, COHORT_PEERS_MAX, COHORTS_MAX, COHORTS_OF_NODE_MAX, INTERVAL_NS,
};

/// A name has its own hysteresis: it lasts until it is shown to be over.
const AT_ONCE: Hysteresis = Hysteresis { fire_after: 1, clear_after: 1 };

#[derive(Debug)]
pub struct Blame {
    rules: Arc<Vec<JudgedRule>>,
    operations: StepOperations,
    cohorts: BTreeMap<CohortKey, PeerGroup>,
    refused: BTreeMap<(RuleName, Refused), u64>,
    /// When the jobs of alerts' nodes have last ended in order.
    ended: BTreeMap<AlertKey, Wall>,
    /// Alerts none of whose peers reports although their node is up, and since when.
    without_steps: BTreeMap<AlertKey, Interval>,
    evaluated_at: Interval,
}

/// A message that was merged: of which node, and when its interval ended.
#[derive(Clone, Copy)]
struct Origin<'m> {
    node: &'m NodeName,
    taken: Wall,
}

/// The peer of an alert's node that is slower than its others, in whichever cohort.
struct SlowestPeer<'b> {
    rule: &'b JudgedRule,
    cohort: &'b CohortKey,
    peers: &'b PeerGroup,
    evidence: StragglerEvidence,
}

impl Blame {
    pub fn new(rules: &Rules) -> Self {
        Self {
            rules: Arc::new(rules.stragglers.iter().filter_map(JudgedRule::new).collect()),
            operations: StepOperations::default(),
            cohorts: BTreeMap::new(),
            refused: BTreeMap::new(),
            ended: BTreeMap::new(),
            without_steps: BTreeMap::new(),
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
        (self.ended, self.without_steps) = (former.ended, former.without_steps);
    }

    /// Takes the steps of a message that was merged, once.
    pub fn on_merged(&mut self, now: Wall, merged: &MergedSnapshot) {
        let (rules, mut known) = (Arc::clone(&self.rules), std::mem::take(&mut self.operations));
        for samples in &merged.samples {
            for rule in rules.iter() {
                let without_room = known.note(interval(now), rule, samples);
                self.count(rule, Refused::Full, without_room);
            }
            for rule in rules.iter() {
                let steps = MessageSteps::new(rule, &known, samples);
                let from = Origin { node: &merged.node, taken: samples.taken };
                self.on_steps(now, rule, from, &steps);
            }
        }
        self.operations = known;

        for operation in &merged.ended {
            let of_operation = self.cohorts.iter_mut().filter(|(of, _)| of.operation == *operation);
            of_operation.for_each(|(_, peers)| peers.end(interval(merged.taken), &merged.node));
        }
    }

    /// Notes which jobs of alerts' nodes have ended in order. Unlike steps this is also taken of
    /// the past that is read after a start.
    pub fn on_ended(&mut self, merged: &MergedSnapshot, is_active: impl Fn(&AlertKey) -> bool) {
        for operation in &merged.ended {
            for rule in self.rules.iter().filter(|rule| rule.watches(operation)) {
                let scope = Scope::Node(merged.node.clone());
                let (rule, operation) = (rule.name().clone(), operation.clone());
                let key = AlertKey { rule, scope, operation };
                if is_active(&key) {
                    let at = self.ended.entry(key).or_default();
                    *at = merged.taken.max(*at);
                }
            }
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
        if !self.make_room(interval(now), from.node, &key) {
            return Err(Refused::Full);
        }
        let has_room = self.cohorts.values().map(PeerGroup::len).sum::<usize>() < COHORT_PEERS_MAX;
        let cohort = self.cohorts.entry(key);
        let cohort = cohort.or_insert_with(|| PeerGroup::new(rule, interval(now)));
        cohort.seen(interval(now));
        cohort.add(interval(from.taken), from.node, peer.peer, steps, has_room)
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
        let oldest = oldest.min_by_key(|(_, peers)| peers.newest()).map(|(key, _)| key.clone());
        let Some(oldest) = oldest else { return false };
        self.cohorts.remove(&oldest);
        *self.refused.entry((oldest.rule, Refused::Evicted)).or_default() += 1;
        true
    }

    fn count(&mut self, rule: &JudgedRule, why: Refused, n: u64) {
        if n > 0 {
            let counted = self.refused.entry((rule.name().clone(), why)).or_default();
            *counted = counted.saturating_add(n);
        }
    }

    /// Judges every cohort; `active` are the alerts that are not inactive, `is_up` whether a node
    /// reports.
    pub fn evaluate(
        &mut self,
        now: Wall,
        active: &[AlertKey],
        is_up: impl Fn(&NodeName) -> bool,
    ) -> Vec<AlertFinding> {
        let now = interval(now);
        // Everything that comes would be taken for late until the clock is where it was.
        if now.0 + CLOCK_BACK_INTERVALS < self.evaluated_at.0 {
            self.cohorts.clear();
            self.without_steps.clear();
        }
        self.evaluated_at = now;
        self.operations.expire(now);

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
        let found: Vec<AlertFinding> = keys.into_iter().map(found).collect();

        let former = std::mem::take(&mut self.without_steps);
        let is_silent = |of: &&AlertFinding| {
            of.finding == Finding::NoData && node_of(&of.key).is_some_and(&is_up)
        };
        let since = |key: &AlertKey| former.get(key).copied().unwrap_or(now);
        let silent = found.iter().filter(is_silent).map(|of| (of.key.clone(), since(&of.key)));
        self.without_steps = silent.collect();
        self.ended.retain(|key, _| found.binary_search_by(|of| of.key.cmp(key)).is_ok());
        found
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
        Some(self.slowest(key)?.evidence)
    }

    /// The peer that [`Self::evidence`] is about, and a healthy one; `None` if none is named.
    pub fn pair(&self, key: &AlertKey) -> Option<BlamedPair> {
        let SlowestPeer { rule, cohort, peers, .. } = self.slowest(key)?;
        peers.pair(rule, cohort, node_of(key)?)
    }

    /// When the jobs of an alert's node have last ended in order. Those that report later run.
    pub fn ended_at(&self, key: &AlertKey) -> Option<Wall> {
        self.ended.get(key).copied()
    }

    /// Whether no peer of an alert's node has made a step for so long, while the node was up, that
    /// all of them are forgotten.
    pub fn has_no_steps(&self, key: &AlertKey) -> bool {
        let since = self.without_steps.get(key);
        since.is_some_and(|since| self.evaluated_at.0 - since.0 >= FORGOTTEN_INTERVALS)
    }

    fn slowest(&self, key: &AlertKey) -> Option<SlowestPeer<'_>> {
        let rule = self.rules.iter().find(|rule| *rule.name() == key.rule)?;
        let node = node_of(key)?;
        let found = self.of_alert(key).filter_map(|(cohort, peers)| {
            let evidence = peers.evidence(rule, cohort, node)?;
            Some(SlowestPeer { rule, cohort, peers, evidence })
        });
        found.max_by(|a, b| a.evidence.excess_ratio.total_cmp(&b.evidence.excess_ratio))
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
