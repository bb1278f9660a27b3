//! One cohort with the names of its peers: which node and value each is, what it measures, and
//! whether two jobs are mixed in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_blame::limits::{FLOOR, FORGOTTEN_INTERVALS, PEERS_MIN};
use plimsoll_blame::{Cohort, Culprit, Evaluation, Hypotheses, Interval, Peer, ReportError};
use plimsoll_schemas::alert::{AlertKey, StragglerEvidence};
use plimsoll_schemas::ids::{Labels, NodeName};
use plimsoll_schemas::labelled;
use plimsoll_schemas::limits::rules::CLASSES_MAX;
use plimsoll_schemas::summary::{CohortRow, CohortState};
use plimsoll_schemas::time::seconds;

use super::rule::{CohortKey, JudgedRule};
use super::steps::PeerSteps;
use crate::core::captures::{CapturePair, CaptureTarget};
use crate::core::rules::Finding;
use crate::limits::blame::{CLEARED_INTERVALS, INTERVAL_NS, PEERS_OF_NODE_MAX, SHARED_INTERVALS};

/// A peer: two nodes that report one value are two peers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PeerName {
    node: NodeName,
    value: Box<str>,
}

/// The slowest peer of an alert's node.
#[derive(Clone, Debug)]
pub struct BlamedPeer {
    pub evidence: StragglerEvidence,
    /// With the healthy peer at the median; `None` while there is none.
    pub pair: Option<CapturePair>,
}

#[derive(Clone, Debug)]
struct PeerState {
    number: Peer,
    /// Its newest report.
    seen: Interval,
    /// Classes of which it has sent samples.
    measured: [bool; CLASSES_MAX],
    /// Whether it was named since this process has known it.
    was_named: bool,
}

labelled! {
    /// Why what a peer reports is not judged.
    pub(super) enum Refused {
        /// The sample names no peer.
        Unlabelled = "unlabelled",
        /// There are too many peers or cohorts.
        Full = "full",
        /// A cohort has made room for another one.
        Evicted = "evicted",
        /// Two nodes report one peer: jobs are mixed.
        Shared = "shared_peer",
        /// The interval is closed.
        Late = "late",
        /// The interval is far ahead.
        Ahead = "ahead",
    }
}

#[derive(Debug)]
pub(super) struct PeerGroup {
    rule: Arc<JudgedRule>,
    cohort: Cohort,
    peers: BTreeMap<PeerName, PeerState>,
    peers_seen: u64,
    /// Its first and its newest report, by the aggregator's clock.
    first: Interval,
    pub(super) newest: Interval,
    /// Those that report.
    reporting: usize,
    is_shared: bool,
    /// Since when peers can be named.
    learned_at: Option<Interval>,
    evaluation: Evaluation,
}

impl PeerGroup {
    pub(super) fn new(rule: Arc<JudgedRule>, now: Interval) -> Self {
        let evaluation = Evaluation { is_learning: true, ..Evaluation::default() };
        Self {
            cohort: Cohort::new(rule.setup, 1.0, now),
            rule,
            peers: BTreeMap::new(),
            peers_seen: 0,
            first: now,
            newest: now,
            reporting: 0,
            is_shared: false,
            learned_at: None,
            evaluation,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    /// The nodes of its peers; one is listed for each of its peers.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.peers.keys().map(|name| &name.node)
    }

    pub(super) fn has_peer_of(&self, node: &NodeName) -> bool {
        self.of_node(node).next().is_some()
    }

    /// Whether another cohort may take its place: it is over, or it has had the time in which a
    /// job starts its ranks and still cannot be judged.
    pub(super) fn may_be_evicted(&self, now: Interval) -> bool {
        let is_within = |at: Interval| now.0.saturating_sub(at.0) <= SHARED_INTERVALS;
        !is_within(self.newest) || (self.peers.len() < PEERS_MIN && !is_within(self.first))
    }

    /// Takes what a node's message reports of a peer; `has_room` is whether it may be a new one.
    pub(super) fn add(
        &mut self,
        at: Interval,
        node: &NodeName,
        value: &str,
        steps: &PeerSteps,
        has_room: bool,
    ) -> Result<(), Refused> {
        let name = PeerName { node: node.clone(), value: value.into() };
        if !self.peers.contains_key(&name) {
            if !has_room || self.of_node(node).count() >= PEERS_OF_NODE_MAX {
                return Err(Refused::Full);
            }
            self.peers_seen += 1;
        }

        let state = self.peers.entry(name).or_insert(PeerState {
            number: Peer(self.peers_seen),
            seen: at,
            measured: [false; CLASSES_MAX],
            was_named: false,
        });
        state.seen = state.seen.max(at);
        state.measured.iter_mut().zip(steps.ns).for_each(|(is, ns)| *is |= ns.is_some());

        if self.is_shared {
            return Err(Refused::Shared);
        }
        let added = self.cohort.add(at, state.number, &steps.times(&state.measured));
        added.map_err(|error| match error {
            ReportError::Late(_) => Refused::Late,
            ReportError::Ahead(_) => Refused::Ahead,
            ReportError::TooManyPeers(_) => Refused::Full,
        })
    }

    /// Judges what was reported before `now`.
    pub(super) fn evaluate(&mut self, now: Interval, hypotheses: Hypotheses) {
        self.peers.retain(|_, state| now.0.saturating_sub(state.seen.0) <= FORGOTTEN_INTERVALS);
        let active = self.peers.iter().filter(|(_, state)| is_active(state, now));
        let active: Vec<&str> = active.map(|(name, _)| &*name.value).collect();
        self.reporting = active.len();
        // A rank of two nodes at once is that of two jobs, whose steps have nothing in common.
        self.is_shared = active.iter().collect::<BTreeSet<_>>().len() < active.len();

        self.evaluation = self.cohort.evaluate(now, hypotheses);
        let learned_at = self.learned_at.or(Some(now));
        self.learned_at = learned_at.filter(|_| !self.evaluation.is_learning);
        if !self.evaluation.culprits.is_empty() {
            let named: BTreeSet<Peer> = self.evaluation.culprits.iter().map(|of| of.peer).collect();
            let named = self.peers.values_mut().filter(|state| named.contains(&state.number));
            named.for_each(|state| state.was_named = true);
        }
    }

    fn of_node(&self, node: &NodeName) -> impl Iterator<Item = &PeerState> {
        let from = PeerName { node: node.clone(), value: "".into() };
        let peers = self.peers.range(from..).take_while(|(name, _)| name.node == *node);
        peers.map(|(_, state)| state)
    }

    /// Those that are named, with their names, the slowest first.
    fn named(&self) -> impl Iterator<Item = (&Culprit, &PeerName)> {
        self.evaluation.culprits.iter().filter_map(|culprit| {
            let mut peers = self.peers.iter();
            let (name, _) = peers.find(|(_, state)| state.number == culprit.peer)?;
            Some((culprit, name))
        })
    }

    /// Nodes of peers that are named.
    pub(super) fn nodes_named(&self) -> impl Iterator<Item = &NodeName> {
        self.named().filter(|_| !self.is_shared).map(|(_, name)| &name.node)
    }

    /// What is found of the peers of a node; `None` if none of them reports.
    pub(super) fn finding(&self, now: Interval, node: &NodeName) -> Option<Finding> {
        let active = || self.of_node(node).filter(|state| is_active(state, now));
        active().next()?;
        let too_few = self.reporting < PEERS_MIN;
        if self.is_shared || self.evaluation.is_learning || too_few {
            return Some(Finding::Insufficient);
        }
        if self.named().any(|(_, name)| name.node == *node) {
            return Some(Finding::Breach);
        }
        // More are named than listed: this node's may be among them.
        if self.evaluation.named > self.evaluation.culprits.len() {
            return Some(Finding::Uncertain);
        }

        let judged = self.learned_at.map_or(0, |since| now.0.saturating_sub(since.0));
        // A name that has ended was shown to be over. One of before a restart is found anew.
        let is_over = active().any(|state| state.was_named) || judged >= CLEARED_INTERVALS;
        Some(if is_over { Finding::Clear } else { Finding::Insufficient })
    }

    /// The slowest peer of an alert's node that is named, and the healthy one at the median.
    pub(super) fn slowest(&self, key: &CohortKey, alert: &AlertKey) -> Option<BlamedPeer> {
        let mut of_node = self.named().filter(|(_, name)| name.node.as_str() == alert.scope.node());
        let (culprit, name) = of_node.next()?;
        let others_of_node = of_node.count() as u64;
        let evidence = self.evidence(key, culprit, name, others_of_node);

        let by = self.rule.of.by.as_str();
        let process = |of: &PeerName| {
            let shared = key.labels.iter().filter(|(key, _)| *key != by);
            let labels = Labels::new(shared.chain([(by, &*of.value)])).ok()?;
            Some(CaptureTarget { node: of.node.clone(), labels })
        };
        let median = self.evaluation.median_peer;
        let peer = self.peers.iter().find(|(_, state)| Some(state.number) == median);
        let pair = peer.and_then(|(peer, _)| {
            let (culprit, peer) = (process(name)?, process(peer)?);
            Some(CapturePair { alert: alert.clone(), culprit, peer })
        });
        Some(BlamedPeer { evidence, pair })
    }

    fn evidence(
        &self,
        key: &CohortKey,
        culprit: &Culprit,
        name: &PeerName,
        others_of_node: u64,
    ) -> StragglerEvidence {
        let rule = &self.rule.of;
        let excess = culprit.excess;
        // Both are means over the same bins, so the interval of one is that of the other.
        let bound = |percent: f64| excess.ms_per_step / 1e3 * percent / excess.percent;
        let is_measured = |place: usize| self.peers.values().any(|state| state.measured[place]);
        let unmeasured = rule.work.iter().enumerate().filter(|(place, _)| !is_measured(*place));

        StragglerEvidence {
            method: rule.method,
            operation: key.operation.clone(),
            cohort: key.labels.clone(),
            by: rule.by.clone(),
            peer: name.value.to_string(),
            peers: self.reporting as u64,
            others_of_node,
            excess_seconds: excess.ms_per_step / 1e3,
            lower_seconds: bound(excess.lower_percent),
            upper_seconds: bound(excess.upper_percent),
            excess_ratio: excess.percent / 100.0,
            lower_ratio: excess.lower_percent / 100.0,
            upper_ratio: excess.upper_percent / 100.0,
            allowed_ratio: FLOOR,
            class: culprit.class.and_then(|class| rule.work.get(class.0).cloned()),
            unmeasured: unmeasured.map(|(_, name)| name.clone()).collect(),
            slow_since_seconds: seconds(culprit.since.0.saturating_mul(INTERVAL_NS)),
            peer_hours_per_hour: culprit.peer_hours_per_hour,
            chance_of_error: culprit.chance_of_error,
        }
    }

    pub(super) fn row(&self, key: &CohortKey) -> CohortRow {
        let state = match self.evaluation.is_learning {
            _ if self.is_shared => CohortState::SharedPeers,
            _ if self.reporting < PEERS_MIN => CohortState::TooFewPeers,
            true => CohortState::Learning,
            false => CohortState::Judged,
        };
        CohortRow {
            rule: key.rule.clone(),
            operation: key.operation.clone(),
            cohort: key.labels.clone(),
            by: self.rule.of.by.clone(),
            state,
            peers: self.reporting as u64,
            abstained: self.evaluation.counts.abstained as u64,
            named: self.evaluation.named as u64,
        }
    }
}

fn is_active(peer: &PeerState, now: Interval) -> bool {
    now.0.saturating_sub(peer.seen.0) <= SHARED_INTERVALS
}
