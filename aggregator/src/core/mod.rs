//! The aggregator's decisions, without clock, socket or task: messages in, alerts out.
//!
//! A message's way: decoded and checked, booked by [`ledger`] at most once, its samples added
//! to the [`window`]s of node and fleet; once a second [`judge`] weighs every budget and
//! [`alert`] moves, which leaves [`notices`]. The state is a fold over the stream: the same
//! messages in any order give the same answer.

pub mod alerting;
pub mod durable;
pub mod fleet;
pub mod ingest;
pub mod rules;
pub mod view;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{EVALUATE_EVERY, NODES_MAX};
use plimsoll_schemas::alert::Notice;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::{Lane, SnapshotSubject, SubjectError};
use plimsoll_schemas::summary::Ledger;
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::wire::{self, Body, Events, Snapshot};
use serde::{Deserialize, Serialize};

use alerting::alert::Alerts;
use alerting::announce::Watched;
use alerting::dashboard::Dashboard;
use alerting::delivery::Deliveries;
use alerting::notifications::Notices;
use alerting::silences::Silences;
use durable::Unsaved;
use fleet::duplicate_names::Conflicts;
use fleet::events::Newest;
use fleet::gaps::Gaps;
use fleet::ledger::Decision;
use fleet::node::{Node, Operations, bounded_entry};
use fleet::retention::Keepings;
use fleet::rollup::{Definition, Rollups};
use fleet::window::{Timeliness, Times};
use ingest::broker_health::Hearing;
use ingest::catch_up::Past;
use ingest::event_time::Moment;
use ingest::progress::Progress;
use rules::self_monitoring::Itself;
use rules::unmatched::Matches;

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
    /// The accounts of nodes that were forgotten, so that sums over the fleet never fall.
    #[serde(default)]
    pub gone: Ledger,
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
    /// When the broker stored it; `None` without a stream.
    pub at: Option<Wall>,
    /// When its node sent it, by the node's clock; `None` when the node does not say.
    pub sent: Option<Wall>,
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

/// An aggregator's whole state.
pub struct Core {
    mesh: MeshName,
    rules: Arc<Rules>,
    /// Shared with a checkpoint while that is written; copied when it changes meanwhile.
    nodes: BTreeMap<NodeName, Arc<Node>>,
    fleet: Arc<Operations>,
    rollups: Rollups,
    keepings: Keepings,
    matches: Matches,
    alerts: Alerts,
    /// After a restart: what standing alerts were about.
    watched_before: Option<Watched>,
    silences: Silences,
    changes: Vec<Notice>,
    notices: Notices,
    dashboard: Dashboard,
    deliveries: Deliveries,
    counts: Counts,
    lanes: BTreeMap<Lane, Progress>,
    ready: bool,
    evaluates_at: Mono,
    /// When time was last let pass.
    passed: Now,
    /// False while it is known that no node is hidden.
    may_hide_some: bool,
    /// Of nodes with samples over a limit, how great their share was when it was last judged, in
    /// thousandths of what the budget allows.
    shares: Arc<BTreeMap<NodeName, u64>>,
    /// When budgets were last judged.
    judged_at: Option<Wall>,
    /// What is missing from nodes' accounts, and for how long.
    gaps: Gaps,
    /// Whether the broker can be heard.
    hearing: Hearing,
    /// How the aggregator itself is.
    itself: Itself,
    conflicts: Conflicts,
    /// Not part of a checkpoint: after a restart it begins empty.
    events: Newest,
    /// What is being caught up with after a restart.
    past: Option<Past>,
    unsaved: Unsaved,
}

impl Core {
    /// An aggregator that has read nothing yet.
    #[must_use]
    pub fn new(mesh: MeshName, rules: impl Into<Rules>, now: Now) -> Self {
        let rules = Arc::new(rules.into());
        Self {
            mesh,
            nodes: BTreeMap::new(),
            fleet: Arc::default(),
            rollups: Rollups::default(),
            keepings: Keepings::new(&rules.budgets, fleet::retention::NODES_UP_TO),
            matches: Matches::new(&rules.budgets),
            alerts: Alerts::default(),
            watched_before: None,
            silences: Silences::default(),
            changes: Vec::new(),
            notices: Notices::default(),
            dashboard: Dashboard::default(),
            deliveries: Deliveries::default(),
            counts: Counts::default(),
            lanes: Lane::ALL.map(|lane| (lane, Progress::default())).into(),
            ready: false,
            evaluates_at: now.mono.plus(EVALUATE_EVERY),
            passed: now,
            may_hide_some: true,
            shares: Arc::default(),
            judged_at: None,
            gaps: Gaps::default(),
            hearing: Hearing::default(),
            itself: Itself::default(),
            conflicts: Conflicts::default(),
            events: Newest::default(),
            past: None,
            unsaved: Unsaved::default(),
            rules,
        }
    }

    /// The same core where nodes keep windows up to this one, and samples are grouped so; a
    /// roll-up that was not defined so before begins empty.
    #[must_use]
    pub fn measuring(mut self, nodes_up_to: Window, rollups: &[Definition]) -> Self {
        self.keepings = Keepings::new(&self.rules.budgets, nodes_up_to);
        self.keep_windows();
        self.rollups = self.rollups.redefined(rollups);
        self
    }

    /// Samples by label.
    #[must_use]
    pub fn rollups(&self) -> &Rollups {
        &self.rollups
    }

    /// Hears which messages a lane's stream holds at the moment reading begins. Until all of
    /// them have been read, answers would be parts of the truth and are withheld.
    pub fn on_positioned(&mut self, lane: Lane, first_seq: u64, last_seq: u64, stream_id: &str) {
        let progress = self.lanes.entry(lane).or_default();
        if !stream_id.is_empty() {
            progress.stream_id = Some(stream_id.to_owned());
        }
        self.unsaved.touch();
        progress.on_positioned(first_seq, last_seq);
        self.update_readiness();
    }

    /// The lane's stream was made anew: positions begin again, merged samples stay merged.
    pub fn on_reset(&mut self, lane: Lane, last_seq: u64) {
        self.lanes.entry(lane).or_default().reset(last_seq);
        self.unsaved.touch();
        self.update_readiness();
    }

    /// Takes one message. One that cannot be read costs itself alone.
    ///
    /// # Errors
    /// When it cannot be read; it has been counted.
    pub fn on_message(&mut self, now: Now, message: Delivered<'_>) -> Result<(), Unreadable> {
        if self.ready {
            self.end_past(now);
        }
        self.on_stored_at(now, message.lane, message.at);
        let progress = self.lanes.entry(message.lane).or_default();
        progress.on_read(now.mono, message.stream_seq, message.pending);
        self.unsaved.touch();
        let moment = self.moment(now.wall, &message);
        let read = read(message).map(|snapshot| self.on_snapshot(moment, snapshot));
        self.update_readiness();
        read.map_err(|unreadable| {
            let count = self.counts.undecodable.entry(unreadable.reason.into()).or_default();
            *count += 1;
            Unreadable { count: *count, ..unreadable }
        })
    }

    fn update_readiness(&mut self) {
        self.ready = self.ready || self.lanes.values().all(Progress::has_read_the_past);
    }

    fn on_snapshot(&mut self, moment: Moment, Snapshot { header, body }: Snapshot<Packed>) {
        // An interval's samples count from the moment at which all of them had been taken.
        let ended = header.start.plus(Duration::from_nanos(header.length_ns));
        self.make_room_for(&header.node);
        let Some(node) = bounded_entry(&mut self.nodes, &header.node, NODES_MAX) else {
            return self.count_over_cap("node", 1);
        };
        let node = Arc::make_mut(node);
        let conflicts = node.account.conflicts();
        let decision = node.account.book(&header, body.samples());
        if node.account.conflicts() > conflicts {
            self.conflicts.notice(&header.node);
        }
        match decision {
            Decision::Merge => {}
            Decision::Duplicate => {
                // Who sends again has not heard that it need not.
                self.unsaved.touch_node(&header.node);
                return self.counts.duplicates += 1;
            }
            Decision::Forgotten => return self.counts.forgotten += 1,
        }
        self.unsaved.touch_node(&header.node);
        let (taken, timeliness) = moment.place(ended, node.skew);
        node.last_heard = node.last_heard.max(moment.heard.unwrap_or(taken));
        node.hidden = false;
        node.see_clock(moment.skew);
        node.operations.expire(moment.shown);
        *self.counts.merged.entry(body.kind().as_str().into()).or_default() += 1;
        match timeliness {
            Timeliness::InTime => {}
            Timeliness::Late => {
                let late = &mut self.counts.late_samples;
                *late = late.saturating_add(body.samples());
            }
            Timeliness::Ahead => self.counts.clock_ahead += 1,
        }
        node.watch_counters(header.incarnation);
        match body {
            Body::Latency(latency) => {
                let times = Times { shown: moment.shown, now: moment.now, taken };
                self.on_latency(times, &header, &latency);
            }
            Body::Hardware(hardware) => {
                let unknown = node.take_readings((header.incarnation, header.seq), hardware);
                node.watch_readings();
                self.count_over_cap("unknown_sensor", unknown);
            }
            // What an heir says of a crashed run is no news of the way to the broker.
            Body::Bus(_) if header.heir.is_some() => {}
            Body::Bus(bus) => {
                node.take_bus((header.incarnation, header.seq), bus);
                node.watch_bus();
                node.watch_counters(header.incarnation);
            }
            Body::Event(Events { events }) => {
                let without_room = node.take_events((header.incarnation, header.seq), &events);
                self.events.push(&header.node, moment.now, events);
                self.count_over_cap("service_check", without_room);
            }
        }
    }

    fn count_over_cap(&mut self, kind: &'static str, n: u64) {
        if n > 0 {
            let count = self.counts.over_cap.entry(kind.into()).or_default();
            *count = count.saturating_add(n);
        }
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

fn read(message: Delivered<'_>) -> Result<Snapshot<Packed>, Unreadable> {
    let refuse = |reason, text| Unreadable { reason, text, count: 0 };
    let subject: SnapshotSubject = message
        .subject
        .parse()
        .map_err(|error: SubjectError| refuse("subject", error.to_string()))?;
    wire::decode_packed(&subject, message.payload)
        .map_err(|error| refuse(error.reason(), error.to_string()))
}

#[cfg(test)]
pub(crate) mod tests;
