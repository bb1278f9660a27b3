//! The aggregator's decisions, without clock, socket or task: messages in, alerts out.
//!
//! A message's way: decoded and checked, booked by [`ledger`] at most once, its samples added
//! to the [`window`]s of node and fleet; once a second [`judge`] weighs every budget and
//! [`alert`] moves, which leaves [`notices`]. The state is a fold over the stream: the same
//! messages in any order give the same answer.

pub mod alert;
pub mod checkpoint;
pub mod judge;
pub mod ledger;
pub mod node;
pub mod notices;
pub mod seqs;
pub mod view;
pub mod window;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_schemas::alert::{AlertKey, Evidence, Notice, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::ids::{MeshName, NodeName, Operation, Series};
use plimsoll_schemas::limits::aggregator::{ALERT_HISTORY_MAX, EVALUATE_EVERY, NODES_MAX};
use plimsoll_schemas::subject::{Lane, SnapshotSubject, SubjectError};
use plimsoll_schemas::summary::Verdict;
use plimsoll_schemas::time::{Mono, Now, Wall, seconds};
use plimsoll_schemas::wire::{self, Body, Header, Latency, Snapshot};
use serde::{Deserialize, Serialize};

use alert::{Alerts, Patience};
use checkpoint::Unsaved;
use judge::{Judgement, judge};
use ledger::Decision;
use node::{Node, Operations, bounded_entry};
use notices::Notices;
use window::{Timeliness, Windows, place};

/// A label's value: a word of this program, or the same word read from a checkpoint.
pub type Word = Cow<'static, str>;

/// Counts of what was read, for the aggregator's own metrics. They only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Snapshots merged, by kind.
    pub merged: BTreeMap<Word, u64>,
    /// Snapshots that had been merged before.
    pub duplicates: u64,
    /// Snapshots of incarnations too old to be remembered.
    pub forgotten: u64,
    /// Messages that could not be read, by reason.
    pub undecodable: BTreeMap<Word, u64>,
    /// Samples too old for the shortest window.
    pub late_samples: u64,
    /// Snapshots from a clock too far ahead.
    pub clock_ahead: u64,
    /// What found no room: samples folded into `other`, numbers, readings, messages of nodes.
    pub over_cap: BTreeMap<Word, u64>,
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

/// A message that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Why, as a label.
    pub reason: &'static str,
    /// Why, in words.
    pub text: String,
    /// How many there have been for this reason.
    pub count: u64,
}

/// How far one lane has been read.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// The stream that the numbers are about; `None` while there has been none.
    stream_id: Option<String>,
    /// The stream's last message when reading began; `None` before that.
    goal: Option<u64>,
    read: u64,
    pending: u64,
}

/// An aggregator's whole state.
pub struct Core {
    mesh: MeshName,
    budgets: Vec<Budget>,
    /// Shared with a checkpoint while that is written; copied when it changes meanwhile.
    nodes: BTreeMap<NodeName, Arc<Node>>,
    fleet: Arc<Operations>,
    judged: BTreeSet<Operation>,
    alerts: Alerts,
    changes: Vec<Notice>,
    notices: Notices,
    counts: Counts,
    lanes: BTreeMap<Lane, Progress>,
    ready: bool,
    evaluates_at: Mono,
    unsaved: Unsaved,
}

impl Core {
    /// An aggregator that has read nothing yet.
    #[must_use]
    pub fn new(mesh: MeshName, budgets: Vec<Budget>, now: Now) -> Self {
        Self {
            mesh,
            nodes: BTreeMap::new(),
            fleet: Arc::default(),
            judged: budgets.iter().map(|budget| budget.operation.clone()).collect(),
            alerts: Alerts::default(),
            changes: Vec::new(),
            notices: Notices::default(),
            counts: Counts::default(),
            lanes: Lane::ALL.map(|lane| (lane, Progress::default())).into(),
            ready: false,
            evaluates_at: now.mono.plus(EVALUATE_EVERY),
            unsaved: Unsaved::default(),
            budgets,
        }
    }

    /// Hears which messages a lane's stream holds at the moment reading begins. Until all of
    /// them have been read, answers would be parts of the truth and are withheld.
    pub fn on_positioned(&mut self, lane: Lane, first_seq: u64, last_seq: u64, stream_id: &str) {
        let progress = self.lanes.entry(lane).or_default();
        if !stream_id.is_empty() {
            progress.stream_id = Some(stream_id.to_owned());
        }
        self.unsaved.touch();
        progress.goal.get_or_insert(last_seq);
        // What the stream has forgotten, or never held, need not be waited for.
        progress.read = progress.read.max(first_seq.saturating_sub(1));
        self.update_readiness();
    }

    /// The lane's stream was made anew: positions begin again, merged samples stay merged.
    pub fn on_reset(&mut self, lane: Lane, last_seq: u64) {
        self.lanes.insert(lane, Progress { goal: Some(last_seq), ..Progress::default() });
        self.unsaved.touch();
        self.update_readiness();
    }

    /// Takes one message. One that cannot be read costs itself alone.
    ///
    /// # Errors
    /// When it cannot be read; it has been counted.
    pub fn on_message(&mut self, now: Now, message: Delivered<'_>) -> Result<(), Unreadable> {
        let progress = self.lanes.entry(message.lane).or_default();
        progress.read = progress.read.max(message.stream_seq);
        progress.pending = message.pending;
        self.unsaved.touch();
        let read = read(message).map(|snapshot| self.on_snapshot(now, snapshot));
        self.update_readiness();
        read.map_err(|unreadable| {
            let count = self.counts.undecodable.entry(unreadable.reason.into()).or_default();
            *count += 1;
            Unreadable { count: *count, ..unreadable }
        })
    }

    fn update_readiness(&mut self) {
        let caught_up = |lane: &Progress| lane.goal.is_some_and(|goal| lane.read >= goal);
        self.ready = self.ready || self.lanes.values().all(caught_up);
    }

    fn on_snapshot(&mut self, now: Now, Snapshot { header, body }: Snapshot) {
        // An interval's samples count from the moment at which all of them had been taken.
        let ended = header.start.plus(Duration::from_nanos(header.length_ns));
        let (taken, timeliness) = place(now.wall, ended);
        // While the past is read again, a node was heard when it spoke, not now.
        let heard = if self.ready { now.wall } else { taken };
        let Some(node) = bounded_entry(&mut self.nodes, &header.node, NODES_MAX) else {
            return self.count_over_cap("node", 1);
        };
        let node = Arc::make_mut(node);
        let order = match node.account.book(&header, body.samples()) {
            Decision::Merge(order) => order,
            Decision::Duplicate => return self.counts.duplicates += 1,
            Decision::Forgotten => return self.counts.forgotten += 1,
        };
        self.unsaved.touch_node(&header.node);
        node.last_heard = node.last_heard.max(heard);
        *self.counts.merged.entry(body.kind().as_str().into()).or_default() += 1;
        match timeliness {
            Timeliness::InTime => {}
            Timeliness::Late => {
                let late = &mut self.counts.late_samples;
                *late = late.saturating_add(body.samples());
            }
            Timeliness::Ahead => self.counts.clock_ahead += 1,
        }
        match body {
            Body::Latency(latency) => self.on_latency((now.wall, taken), &header, &latency),
            Body::Hardware(hardware) => {
                let unknown = node.take_readings((order, header.seq), hardware);
                self.count_over_cap("unknown_sensor", unknown);
            }
            Body::Bus(bus) => {
                node.bus.offer((order, header.seq), bus);
            }
        }
    }

    fn on_latency(&mut self, times: (Wall, Wall), header: &Header, latency: &Latency) {
        let Some(node) = self.nodes.get_mut(&header.node).map(Arc::make_mut) else { return };
        let fleet = Arc::make_mut(&mut self.fleet);
        let numbers = node.take_numbers(&latency.counters, &latency.gauges);
        let (mut in_node, mut in_fleet) = (0, 0);
        for (Series { operation, .. }, samples) in &latency.histograms {
            let judged = self.judged.contains(operation);
            in_node += node.operations.add(operation, judged, times, samples);
            in_fleet += fleet.add(operation, judged, times, samples);
        }
        self.count_over_cap("number", numbers);
        self.count_over_cap("node_sample", in_node);
        self.count_over_cap("fleet_sample", in_fleet);
    }

    fn count_over_cap(&mut self, kind: &'static str, n: u64) {
        if n > 0 {
            *self.counts.over_cap.entry(kind.into()).or_default() += n;
        }
    }

    /// Lets time pass: once a second windows move on and every budget is judged.
    pub fn on_deadline(&mut self, now: Now) {
        if now.mono < self.evaluates_at {
            return;
        }
        self.evaluates_at = now.mono.plus(EVALUATE_EVERY);
        // The past is read as it was: a node long gone may still have messages to come.
        if self.ready {
            self.expire(now.wall);
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
            self.unsaved.touch_node(&name);
        }
        Arc::make_mut(&mut self.fleet).expire(now);
        self.nodes.values_mut().for_each(|node| Arc::make_mut(node).operations.expire(now));
    }

    fn evaluate(&mut self, now: Now) {
        for (budget, scope, judgement) in self.judgements(now.wall) {
            let key =
                AlertKey { rule: budget.name.clone(), scope, operation: budget.operation.clone() };
            let patience =
                Patience { fire_after: budget.fire_after, clear_after: budget.clear_after };
            let moved = self.alerts.on_verdict(now.wall, &key, judgement.verdict, patience);
            if judgement.verdict != Verdict::Insufficient {
                self.unsaved.touch();
            }
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

    /// Messages still to be read, by lane.
    #[must_use]
    pub fn pending(&self) -> Vec<(Lane, u64)> {
        self.lanes.iter().map(|(lane, progress)| (*lane, progress.pending)).collect()
    }

    /// True once everything that the stream held at the start has been read.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready
    }
}

fn read(message: Delivered<'_>) -> Result<Snapshot, Unreadable> {
    let refuse = |reason, text| Unreadable { reason, text, count: 0 };
    let subject: SnapshotSubject = message
        .subject
        .parse()
        .map_err(|error: SubjectError| refuse("subject", error.to_string()))?;
    wire::decode(&subject, message.payload)
        .map_err(|error| refuse(error.reason(), error.to_string()))
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
pub(crate) mod tests;
