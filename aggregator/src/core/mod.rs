//! The aggregator's decisions, without clock, socket or task: messages in, alerts out.
//!
//! A message's way: decoded and checked, booked by [`ledger`] at most once, its samples added
//! to the [`window`]s of node and fleet; once a second [`judge`] weighs every budget and
//! [`alert`] moves, which leaves [`notices`]. The state is a fold over the stream: the same
//! messages in any order give the same answer.

pub mod alert;
pub mod judge;
pub mod ledger;
pub mod node;
pub mod notices;
pub mod seqs;
pub mod view;
pub mod window;

use std::collections::BTreeMap;

use plimsoll_schemas::alert::{AlertKey, Evidence, Notice, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::{MeshName, NodeName, Operation};
use plimsoll_schemas::limits::aggregator::{ALERT_HISTORY_MAX, EVALUATE_EVERY, NODES_MAX};
use plimsoll_schemas::subject::{Lane, SnapshotSubject};
use plimsoll_schemas::time::{Mono, Now, Wall, seconds};
use plimsoll_schemas::wire::{self, Body, Header, Latency, Snapshot};

use alert::{Alerts, Patience};
use judge::{Judgement, judge};
use ledger::Decision;
use node::{Node, add_samples, bounded_entry};
use notices::Notices;
use window::{Timeliness, Windows, place};

/// Counts of what was read, for the aggregator's own metrics. They only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Snapshots merged, by kind.
    pub merged: BTreeMap<&'static str, u64>,
    /// Snapshots that had been merged before.
    pub duplicates: u64,
    /// Snapshots of incarnations too old to be remembered.
    pub forgotten: u64,
    /// Messages that could not be read, by reason.
    pub undecodable: BTreeMap<&'static str, u64>,
    /// Samples too old for the shortest window.
    pub late_samples: u64,
    /// Snapshots from a clock too far ahead.
    pub clock_ahead: u64,
    /// Series, operations and nodes that found no room, by kind.
    pub over_cap: BTreeMap<&'static str, u64>,
}

/// One message as the cursor delivers it.
#[derive(Clone, Copy, Debug)]
pub struct Delivered<'a> {
    /// The lane it came in.
    pub lane: Lane,
    /// Its position in that lane's stream; 0 without a stream.
    pub stream_seq: u64,
    /// Messages behind it.
    pub pending: u64,
    /// The subject it was published under.
    pub subject: &'a str,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// How far one lane has been read.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The stream's last message when reading began; `None` before that.
    goal: Option<u64>,
    read: u64,
    pending: u64,
}

/// An aggregator's whole state.
pub struct Core {
    mesh: MeshName,
    budgets: Vec<Budget>,
    nodes: BTreeMap<NodeName, Node>,
    fleet: BTreeMap<Operation, Windows>,
    alerts: Alerts,
    changes: Vec<Notice>,
    notices: Notices,
    counts: Counts,
    lanes: BTreeMap<Lane, Progress>,
    ready: bool,
    evaluates_at: Mono,
}

impl Core {
    /// An aggregator that has read nothing yet.
    #[must_use]
    pub fn new(mesh: MeshName, budgets: Vec<Budget>, now: Now) -> Self {
        Self {
            mesh,
            budgets,
            nodes: BTreeMap::new(),
            fleet: BTreeMap::new(),
            alerts: Alerts::default(),
            changes: Vec::new(),
            notices: Notices::default(),
            counts: Counts::default(),
            lanes: Lane::ALL.map(|lane| (lane, Progress::default())).into(),
            ready: false,
            evaluates_at: now.mono.plus(EVALUATE_EVERY),
        }
    }

    /// Hears how far a lane's stream reaches at the moment reading begins. Until all of that
    /// has been read, answers would be parts of the truth and are withheld.
    pub fn on_positioned(&mut self, lane: Lane, last_seq: u64) {
        let progress = self.lanes.entry(lane).or_default();
        progress.goal.get_or_insert(last_seq);
        self.update_readiness();
    }

    /// The lane's stream was made anew: positions begin again, merged samples stay merged.
    pub fn on_reset(&mut self, lane: Lane, last_seq: u64) {
        self.lanes.insert(lane, Progress { goal: Some(last_seq), ..Progress::default() });
        self.update_readiness();
    }

    /// Takes one message. One that cannot be read costs itself alone.
    pub fn on_message(&mut self, now: Now, message: Delivered<'_>) {
        let progress = self.lanes.entry(message.lane).or_default();
        progress.read = progress.read.max(message.stream_seq);
        progress.pending = message.pending;
        let subject: Result<SnapshotSubject, _> = message.subject.parse();
        match subject {
            Err(_) => *self.counts.undecodable.entry("subject").or_default() += 1,
            Ok(subject) => match wire::decode(&subject, message.payload) {
                Ok(snapshot) => self.on_snapshot(now, snapshot),
                Err(error) => {
                    *self.counts.undecodable.entry(error.reason()).or_default() += 1;
                }
            },
        }
        self.update_readiness();
    }

    fn update_readiness(&mut self) {
        let caught_up = |lane: &Progress| lane.goal.is_some_and(|goal| lane.read >= goal);
        self.ready = self.ready || self.lanes.values().all(caught_up);
    }

    fn on_snapshot(&mut self, now: Now, Snapshot { header, body }: Snapshot) {
        let (taken, timeliness) = place(now.wall, header.start);
        // While the past is read again, a node was heard when it spoke, not now.
        let heard = if self.ready {
            now.wall
        } else {
            taken.plus(std::time::Duration::from_nanos(header.length_ns)).min(now.wall)
        };
        let Some(node) = bounded_entry(&mut self.nodes, &header.node, NODES_MAX) else {
            return self.count_over_cap("node", 1);
        };
        match node.account.book(&header, body.samples()) {
            Decision::Duplicate => return self.counts.duplicates += 1,
            Decision::Forgotten => return self.counts.forgotten += 1,
            Decision::Merge => {}
        }
        node.last_heard = node.last_heard.max(heard);
        *self.counts.merged.entry(body.kind().as_str()).or_default() += 1;
        match timeliness {
            Timeliness::InTime => {}
            Timeliness::Late => self.counts.late_samples += body.samples(),
            Timeliness::Ahead => self.counts.clock_ahead += 1,
        }
        match body {
            Body::Latency(latency) => self.on_latency((now.wall, taken), &header, &latency),
            Body::Hardware(hardware) => {
                let unknown = node.take_readings((header.incarnation, header.seq), hardware);
                self.count_over_cap("unknown_sensor", unknown);
            }
            Body::Bus(bus) => {
                node.bus.offer((header.incarnation, header.seq), bus);
            }
        }
    }

    fn on_latency(&mut self, times: (Wall, Wall), header: &Header, latency: &Latency) {
        let Some(node) = self.nodes.get_mut(&header.node) else { return };
        let mut without_room = node.take_numbers(&latency.counters, &latency.gauges);
        for (series, samples) in &latency.histograms {
            let in_node = add_samples(&mut node.operations, &series.operation, times, samples);
            let in_fleet = add_samples(&mut self.fleet, &series.operation, times, samples);
            without_room += u64::from(!in_node) + u64::from(!in_fleet);
        }
        self.count_over_cap("series", without_room);
    }

    fn count_over_cap(&mut self, kind: &'static str, n: u64) {
        if n > 0 {
            *self.counts.over_cap.entry(kind).or_default() += n;
        }
    }

    /// Lets time pass: once a second windows move on and every budget is judged.
    pub fn on_deadline(&mut self, now: Now) {
        if now.mono < self.evaluates_at {
            return;
        }
        self.evaluates_at = self.evaluates_at.plus(EVALUATE_EVERY).max(now.mono);
        self.expire(now.wall);
        if self.ready {
            self.evaluate(now);
        }
    }

    /// When [`Self::on_deadline`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Mono {
        self.evaluates_at
    }

    fn expire(&mut self, now: Wall) {
        let gone: Vec<NodeName> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.may_be_forgotten(now))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.nodes.remove(&name);
            self.alerts.forget(&name);
        }
        self.fleet.values_mut().for_each(|windows| windows.expire(now));
        let operations = self.nodes.values_mut().flat_map(|node| node.operations.values_mut());
        operations.for_each(|windows| windows.expire(now));
    }

    fn evaluate(&mut self, now: Now) {
        for (budget, scope, judgement) in self.judgements(now.wall) {
            let key =
                AlertKey { rule: budget.name.clone(), scope, operation: budget.operation.clone() };
            let patience =
                Patience { fire_after: budget.fire_after, clear_after: budget.clear_after };
            let moved = self.alerts.on_verdict(now.mono, &key, judgement.verdict, patience);
            let Some(change) = moved else { continue };
            let notice = Notice {
                mesh: self.mesh.clone(),
                key,
                from: change.from,
                state: change.to,
                at_seconds: seconds(now.wall.0),
                evidence: evidence(&budget, &judgement),
            };
            if self.changes.len() >= ALERT_HISTORY_MAX {
                self.changes.remove(0);
            }
            self.changes.push(notice.clone());
            self.notices.push(notice);
        }
    }

    /// Every budget in every scope that has ever had a sample of its operation.
    fn judgements(&self, now: Wall) -> Vec<(Budget, Scope, Judgement)> {
        let mut judged = Vec::new();
        for budget in &self.budgets {
            let mut weigh = |scope: Scope, windows: &Windows| {
                let judgement = judge(budget, &windows.merged(now, budget.window));
                judged.push((budget.clone(), scope, judgement));
            };
            if let Some(windows) = self.fleet.get(&budget.operation) {
                weigh(Scope::Fleet, windows);
            }
            for (name, node) in &self.nodes {
                if let Some(windows) = node.operations.get(&budget.operation) {
                    weigh(Scope::Node(name.clone()), windows);
                }
            }
        }
        judged
    }

    /// Notices on their way to the bus.
    pub fn notices(&mut self) -> &mut Notices {
        &mut self.notices
    }

    /// True once everything that the stream held at the start has been read.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready
    }
}

fn evidence(budget: &Budget, judgement: &Judgement) -> Evidence {
    Evidence {
        quantile: budget.quantile,
        value_seconds: seconds(judgement.value.map_or(0, |value| value.value_ns)),
        lower_seconds: seconds(judgement.lower_ns.unwrap_or(0)),
        limit_seconds: seconds(budget.limit_ns),
        window: budget.window,
        samples: judgement.samples,
    }
}

#[cfg(test)]
mod tests;
