//! Fleet: everything that was merged of all nodes.
//!
//! Owns every node with its ledger entry and windows, the fleet's own windows, roll-ups, retention,
//! sequence gaps, crashed incarnations, duplicate names, recent events and the counts of what was
//! merged. It decides what is new, what expires and what is evicted. It judges no rule, moves no
//! alert and decodes nothing.
//!
//! Interface: [`Fleet::merge`] takes a decoded snapshot with its event time; [`Fleet::expire`],
//! [`Fleet::on_clock_jump`] and [`Fleet::watch`] advance time; the rest is read access for
//! rules, alerts, checkpoints and views.
//!
//! DESIGN A14.

mod bounded;
mod buckets;
mod budgets_record;
pub mod catalogue;
mod changed;
mod completeness;
mod counts;
mod crashes;
mod duplicate_names;
mod events;
mod gaps;
mod ledger;
mod merge;
mod message_delivery;
mod node;
mod node_at;
mod operations;
mod pool;
mod retention;
mod rollup;
mod shares;
mod tables;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::blame::NO_STEPS_AFTER;
use crate::limits::{
    ABSENT_WITHIN, CLOCK_LEAP_MIN, CLOCK_STEP_MIN, NODE_RETURNS_NO_MORE, NODE_SILENT_AFTER,
    NODES_MAX, SPENT_SLOTS_MAX,
};
use plimsoll_schemas::alert::{AlertEndReason, Scope};
use plimsoll_schemas::budget::{Budget, Window};
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{NodeName, Operation, RuleName};
use plimsoll_schemas::limits::rules::BUDGETS_MAX;
use plimsoll_schemas::own_operations::{MESSAGE_DELIVERY, is_of_aggregators};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::wire::{Body, Events, Header, Interval, ShardReport, ShardSlot, Snapshot};
use serde::{Deserialize, Serialize};

pub(crate) use bounded::shorten;
pub use buckets::{Buckets, Native, ends};
pub use budgets_record::{BudgetsRecord, SpentBudget};
pub use completeness::{Completeness, ReportingNode};
pub use counts::MergeCounts;
pub use events::EventsQuery;
pub use ledger::{Decision, Gap, IncarnationEntry, LedgerEntry, Seqs};
pub use merge::{MergedSamples, MergedSnapshot};
pub(crate) use node::{CounterIncrease, KnownReading, ReadingTable, SensedFigure, WorstReadings};
pub use node::{Latest, MessageKey, Node, NodeMetrics, Trouble};
pub use node_at::NodeAt;
pub use operations::{OVERFLOW, Operations};
pub use pool::{Pool, Pools};
pub use rollup::{Definition, DefinitionError, Group, Rollup, Rollups};
pub use tables::TablesUsed;
pub use window::{
    Batch, Limits, Merged, Overdispersion, Phase, Ranks, Retention, SlotCounts, Sums, Times,
    Windows,
};

use super::ingest::{ClockJump, EventTime};
use bounded::bounded_entry;
use changed::ChangedNodes;
use crashes::{Crashes, NodeIncarnation};
use duplicate_names::DuplicateNames;
use events::RecentEvents;
use gaps::Gaps;
use merge::{FleetPools, Merging, run_reports_of};
use message_delivery::MessageDelivery;
use retention::{NODES_UP_TO, RetentionPlan, Selected};
use rollup::GroupShares;
use shares::Shares;

/// All nodes, and all of them together.
#[derive(Debug)]
pub struct Fleet {
    /// Shared with a checkpoint while that is written; copied when it changes meanwhile.
    nodes: BTreeMap<NodeName, Arc<Node>>,
    operations: Arc<Operations>,
    shares: Shares<Operation>,
    rollups: Rollups,
    group_shares: GroupShares,
    retention: RetentionPlan,
    pub(super) gaps: Gaps,
    crashes: Crashes,
    /// Nodes with too many gaps in their messages: the normal lane is read first.
    fragmented: BTreeSet<NodeName>,
    pub(super) duplicate_names: DuplicateNames,
    /// Not part of a checkpoint: after a restart it begins empty.
    pub(super) events: RecentEvents,
    pub(super) counts: MergeCounts,
    deliveries: MessageDelivery,
    /// False while it is known that no node has expired.
    may_hold_expired: bool,
    /// Nodes that have not left and may reconnect, when expiry was last looked at; 0 before that.
    /// One that was last seen ten minutes before the newest is not expected to.
    pub(super) present: usize,
    /// When any node was last seen, one without room too.
    newest_seen: Wall,
    changed: ChangedNodes,
    /// When this process first watched it, after it had read what the streams held.
    watched_since: Option<Wall>,
    /// As of the latest [`Self::watch`].
    pub(super) tables: TablesUsed,
}

#[derive(Clone, Copy, Debug)]
pub struct LastSeen {
    /// The time; 0 before any was.
    pub at: Wall,
    /// Whether no node sends messages since, unless all have left.
    pub is_silent: bool,
}

/// What a checkpoint stores of the fleet beside nodes and pools.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredFleet {
    /// Number of nodes, and of their records.
    pub nodes: usize,
    pub operations: usize,
    /// Number of what the fleet keeps apart for budgets.
    pub selected_operations: usize,
    /// Each roll-up and its number of groups.
    pub rollups: Vec<(Definition, usize)>,
    /// What budgets select; nothing else is kept apart for them.
    selected: Selected,
    counts: MergeCounts,
}

/// What a checkpoint takes from the fleet.
#[derive(Debug)]
pub struct FleetChanges {
    /// Nodes that have changed, `None` for those that are gone; all nodes if `everything`.
    pub nodes: Vec<(NodeName, Option<Arc<Node>>)>,
    /// Whether `nodes` are all there are.
    pub everything: bool,
    pub pools: Pools,
    pub rest: StoredFleet,
}

impl Fleet {
    /// A fleet of which nothing has been merged yet.
    pub fn new(rules: &Rules) -> Self {
        Self::kept_so(RetentionPlan::new(rules, NODES_UP_TO))
    }

    fn kept_so(retention: RetentionPlan) -> Self {
        Self {
            nodes: BTreeMap::new(),
            operations: Arc::default(),
            shares: Shares::default(),
            rollups: Rollups::default(),
            group_shares: GroupShares::default(),
            retention,
            gaps: Gaps::default(),
            crashes: Crashes::default(),
            duplicate_names: DuplicateNames::default(),
            fragmented: BTreeSet::new(),
            events: RecentEvents::default(),
            counts: MergeCounts::default(),
            deliveries: MessageDelivery::default(),
            may_hold_expired: true,
            present: 0,
            newest_seen: Wall(0),
            changed: ChangedNodes::default(),
            watched_since: None,
            tables: TablesUsed::default(),
        }
    }

    /// The fleet as it is now, for rules that are judged while messages are merged: without what no
    /// rule is judged by. What changes while it exists is copied first.
    pub fn frozen(&self) -> Self {
        Self {
            nodes: self.nodes.clone(),
            operations: Arc::clone(&self.operations),
            gaps: self.gaps.clone(),
            may_hold_expired: self.may_hold_expired,
            present: self.present,
            newest_seen: self.newest_seen,
            watched_since: self.watched_since,
            tables: self.tables.clone(),
            ..Self::kept_so(self.retention.clone())
        }
    }

    /// The fleet as a checkpoint holds it. Without the rest of it, what was kept apart for budgets
    /// counts as what they select now.
    pub fn restore(
        rules: &Rules,
        nodes: BTreeMap<NodeName, Arc<Node>>,
        pools: Pools,
        rest: Option<StoredFleet>,
    ) -> Self {
        let Pools { operations, rollups } = pools;
        let mut fleet = Self { nodes, operations, rollups, ..Self::new(rules) };
        if let Some(StoredFleet { counts, selected, .. }) = rest {
            fleet.counts = counts;
            fleet.drop_other_selections(&selected);
        }
        fleet
    }

    /// What was spent of error budgets counts from this record, up to when it was taken: the
    /// samples of before could not all be read.
    pub fn carry(&mut self, budgets: &[Budget], record: BudgetsRecord) {
        let until = record.at;
        // The record is a file beside the state: whatever
        // it holds is taken within the bounds of rules.
        for spent in record.budgets.into_iter().take(BUDGETS_MAX) {
            let Some(budget) = budgets.iter().find(|budget| spent.is_of(budget)) else { continue };
            let retention = match budget.selector.is_everything() {
                true => Some(self.retention.of_node(&budget.operation)),
                false => self.retention.of_selection(&budget.name),
            };
            let Some(retention) = retention else { continue };
            let operations = Arc::make_mut(&mut self.operations);
            let slots = spent.slots.into_iter().take(SPENT_SLOTS_MAX).collect();
            let windows = operations.judged_mut(budget, &retention.of_fleet());
            windows.carry(until, budget.limit_ns, slots);
        }
    }

    /// Nodes keep windows up to this one from now on, and samples are grouped so; a roll-up that
    /// was not defined so before begins empty.
    pub fn measure(&mut self, rules: &Rules, nodes_up_to: Window, rollups: &[Definition]) {
        self.retention = RetentionPlan::new(rules, nodes_up_to);
        self.apply_retention();
        self.group_by(rollups);
    }

    /// Samples are grouped so from now on; a roll-up that was not defined so before begins empty.
    pub fn group_by(&mut self, rollups: &[Definition]) {
        self.rollups = std::mem::take(&mut self.rollups).redefined(rollups);
        // Shares lie by a roll-up's place in the configuration, which may be another one now. Which
        // node brings a group shows again with its next samples.
        self.group_shares = GroupShares::default();
    }

    /// Other rules are judged from now on; what is kept for budgets that stay is kept.
    pub fn on_rules(&mut self, rules: &Rules) {
        let before = self.retention.selected();
        self.retention = self.retention.under(rules);
        self.drop_other_selections(&before);
        self.apply_retention();
    }

    /// Drops what was kept apart for a budget of this name that selected other samples.
    fn drop_other_selections(&mut self, before: &Selected) {
        let selected = self.retention.selected();
        let same = |name: &RuleName| before.get(name) == selected.get(name);
        let drop_others = |operations: &mut Operations| operations.retain_selected(same);
        let others = |operations: &Operations| operations.selected().any(|(name, _)| !same(name));
        // Asked first: to change what a view or a checkpoint shares copies all of it.
        if others(&self.operations) {
            drop_others(Arc::make_mut(&mut self.operations));
        }
        for (name, node) in self.nodes.iter_mut().filter(|(_, node)| others(&node.operations)) {
            drop_others(&mut Arc::make_mut(node).operations);
            self.changed.touch(name);
        }
    }

    /// Keeps all windows as the retention has them, whatever kept them before.
    fn apply_retention(&mut self) {
        let operation = |name: &Operation| self.retention.of_node(name);
        let budget = |name: &RuleName| self.retention.of_selection(name);
        for (name, node) in &mut self.nodes {
            if !node.operations.are_kept(operation, budget) {
                Arc::make_mut(node).operations.keep(operation, budget);
                self.changed.touch(name);
            }
        }
        let of_fleet = |name: &Operation| operation(name).of_fleet();
        let of_budget = |name: &RuleName| Some(budget(name)?.of_fleet());
        Arc::make_mut(&mut self.operations).keep(of_fleet, of_budget);
    }

    /// Whether a snapshot's number is so far ahead of its incarnation's newest that the incarnation
    /// cannot have sent as many messages.
    pub fn is_far_ahead(&self, header: &Header, arrived: Wall) -> bool {
        self.nodes.get(&header.node).is_some_and(|node| node.account.is_far_ahead(header, arrived))
    }

    /// Merges a snapshot at most once. Returns it if it was new.
    pub fn merge(
        &mut self,
        time: &EventTime,
        Snapshot { mut header, body }: Snapshot<Packed>,
    ) -> Option<MergedSnapshot> {
        // Before the table may refuse the node: idle names are evicted only while any node is seen,
        // so a full table would never have room again (A167).
        self.newest_seen = self.newest_seen.max(time.seen.unwrap_or_default());
        self.make_room_for(&header.node);

        let Some(node) = bounded_entry(&mut self.nodes, &header.node, NODES_MAX) else {
            self.counts.reject("node", 1);
            return None;
        };

        let node = Arc::make_mut(node);

        // Before it is booked, since booking replaces the totals that these are compared with.
        let lost = node.account.newly_lost(&header);
        let conflicts = node.account.conflicts();
        let decision = node.account.book(&header, body.samples());
        if node.account.conflicts() > conflicts {
            self.duplicate_names.add(&header.node);
        }
        node.account.on_arrival(&header, time.arrived);

        if node.account.is_fragmented(header.incarnation) {
            self.fragmented.insert(header.node.clone());
        } else {
            self.fragmented.remove(&header.node);
        }

        if decision != Decision::Evicted {
            // A node that resends has not received the confirmation yet.
            self.changed.touch(&header.node);
        }

        // The ledger alone decides what is new. Whatever follows is added up and would count a
        // repetition twice: samples, events, counters of jobs.
        if self.counts.is_refused(decision) {
            return None;
        }

        // An interval's samples count from its end, since by then all of them had been taken.
        let ended = header.start.plus(Duration::from_nanos(header.length_ns));
        let (taken, timeliness) = node.see(&header.node, time, ended);
        node.account.add_own(header.incarnation, body.own_samples());
        self.counts.merge(body.kind(), timeliness, body.samples());

        let from = MessageKey { incarnation: header.incarnation, seq: header.seq };

        let of_shard = matches!(body, Body::Shard(_));
        let (slots, Interval { latency, hardware, bus, event }) = match body {
            Body::Shard(ShardReport { slots, .. }) => (slots, Interval::default()),
            body => (Vec::new(), body.into_parts()),
        };

        if let Some(hardware) = hardware {
            let unknown = node.take_readings(from, hardware);
            self.counts.reject_of(node, "unknown_sensor", unknown);
        }

        // What a successor reports of a crashed incarnation is no news of the way to the broker.
        let bus = bus.filter(|_| header.successor.is_none());
        let reported = bus.as_ref().map(|_| header.length_ns);

        if let Some(bus) = bus {
            node.account.on_report(&header, &bus);
            // Only of steps and of operations with a budget it is ever asked whether their jobs
            // have ended; names of others would fill the bounded list.
            let ended = bus
                .ended_operations
                .iter()
                .filter(|of| self.retention.is_judged(of) || node.operations.has_phases(of));
            let ended: Vec<_> = ended.collect();
            node.take_ended(taken, ended.into_iter());
            node.take_bus(from, bus);
            node.observe_bus();
        }

        let mut run_reports = Vec::new();
        if let Some(Events { events }) = event {
            run_reports = run_reports_of(&events, &header, taken);
            let without_room = node.take_events(from, &events);
            self.events.push(&header.node, time.arrived, events);
            self.counts.reject_of(node, "service_check", without_room);
        }

        // After the report, whose totals are among these counts.
        node.observe_counts(header.incarnation);
        if let Some(since_stored) = time.since_stored {
            self.deliveries.on_merged(node, since_stored);
        }

        if let Some(latency) = &latency {
            let without_room = node.take_numbers(from, latency);
            self.counts.reject_of(node, "number", without_room);
            node.observe_jobs(&self.retention.watched_counters, latency);
            node.take_labels(from, &header.labels);
        }

        let skew = node.skew;

        let own = latency.map(|latency| MergedSamples {
            taken,
            node_labels: std::mem::take(&mut header.labels),
            latency,
        });

        // A shard's slots lie at other times than its
        // interval; its clock is off by as much for all.
        let of_slots = slots.into_iter().map(|ShardSlot { taken, labels, latency }| {
            let (taken, _) = time.taken(taken, skew);
            MergedSamples { taken, node_labels: labels, latency }
        });

        let samples: Vec<MergedSamples> = own.into_iter().chain(of_slots).collect();

        let pools = FleetPools {
            operations: Arc::make_mut(&mut self.operations),
            shares: &mut self.shares,
            rollups: &mut self.rollups,
            group_shares: &mut self.group_shares,
        };

        let mut merging = Merging { pools, counts: &mut self.counts, plan: &self.retention };
        for of in &samples {
            let times = Times { shown: time.judged_up_to, now: time.arrived, taken: of.taken };
            merging.add(times, &header.node, of, node);
        }

        let node = header.node;
        Some(MergedSnapshot { node, taken, run_reports, reported, of_shard, samples, lost })
    }

    /// Adds a sample of the aggregator's own to the fleet's windows. It is in no ledger.
    pub fn record(&mut self, now: Wall, operation: &str, value_ns: u64) {
        let mut sample = Histogram::default();
        sample.record(value_ns);
        self.record_all(now, operation, &Packed::from(&sample));
    }

    /// Adds the message deliveries of the second that ends to the fleet's windows.
    pub fn record_deliveries(&mut self, now: Wall) {
        if let Some(deliveries) = self.deliveries.take() {
            self.record_all(now, MESSAGE_DELIVERY, &deliveries);
        }
    }

    fn record_all(&mut self, now: Wall, operation: &str, samples: &Packed) {
        let operation = Operation::new(operation).expect("a constant name of plain letters");
        let retention = self.retention.of_node(&operation).of_fleet();
        let batch = Batch::new(samples, &retention.limits);
        let times = Times { shown: now, now, taken: now };
        let operations = Arc::make_mut(&mut self.operations);
        let folded = operations.add(&operation, &retention, times, &batch);
        self.counts.reject("fleet_sample", folded);
    }

    /// Advances to `now`: nodes that have been gone for long expire, expired ones are evicted in
    /// time, and windows move on. Returns the nodes that have expired.
    ///
    /// An expired node keeps its ledger entry for as long as merged messages may come again, out of
    /// a spool or from a node that was cut off. A node that sends again is shown again.
    pub fn expire(&mut self, now: Wall) -> BTreeSet<NodeName> {
        let (mut expired, mut evicted) = (BTreeSet::new(), Vec::new());
        // A clock that was set back leaves no node in the
        // future, as of which names would be idle early.
        self.newest_seen = self.newest_seen.min(now);

        // Nodes that were seen with the newest one: in an outage that is all of them.
        let gone = self.newest_seen.minus(NODE_RETURNS_NO_MORE);
        // Silence counts up to the newest node and not up to now: in an outage all nodes are silent
        // alike, and those known for a short time would be evicted (A167).
        let is_crowded = bounded::is_crowded(self.nodes.len(), NODES_MAX);
        let crowded_as_of = is_crowded.then_some(self.newest_seen);

        self.present = 0;

        for (name, node) in &mut self.nodes {
            self.newest_seen = self.newest_seen.max(node.last_seen.min(now));

            if !node.hidden && node.may_be_hidden(now, crowded_as_of) {
                // What its ledger entry has merged may come again
                // out of a spool, so the entry stays (A14).
                *node = Arc::new(node.expired());
                self.may_hold_expired = true;
                self.gaps.watched.remove(name);
                self.changed.touch(name);
                expired.insert(name.clone());
            } else if !node.hidden {
                let may_return = !node.account.has_left() && node.last_seen >= gone;
                self.present += usize::from(may_return);
            }

            if node.may_be_evicted(now) {
                evicted.push(name.clone());
            }

            expire_windows_of_silent(node, now);
            let (as_of, plan) = (self.newest_seen, &self.retention);

            while let Some(idle) = node.operations.idle(as_of, |of| plan.is_judged(of)) {
                Arc::make_mut(node).operations.evict(&idle);
                self.changed.touch(name);
                self.counts.reject("node_operation", 1);
            }
        }

        evicted.iter().for_each(|name| self.evict(name));
        self.evict_idle_operations();
        Arc::make_mut(&mut self.operations).expire(now, Phase::NONE);
        self.expire_rollups(now);
        expired
    }

    fn expire_rollups(&mut self, now: Wall) {
        let evicted = self.rollups.expire(now, self.newest_seen, &mut self.group_shares);
        self.counts.reject("rollup_group", evicted);
    }

    /// In an outage nothing is idle: all were seen as long ago as the newest.
    fn evict_idle_operations(&mut self) {
        let as_of = self.newest_seen;
        while let Some(idle) = self.operations.idle(as_of, |of| self.retention.is_judged(of)) {
            Arc::make_mut(&mut self.operations).evict(&idle);
            self.shares.on_evicted(&idle);
            self.counts.reject("operation", 1);
        }
        // While there is room no share decides anything,
        // and to follow them costs each message a search.
        if !self.operations.are_crowded() {
            self.shares.clear();
        }
    }

    /// When any node was last seen, from what a checkpoint stores: a restart changes no answer.
    pub fn last_seen(&self, now: Wall) -> LastSeen {
        let (mut at, mut shown, mut left) = (Wall(0), 0_usize, 0_usize);
        for node in self.nodes.values() {
            at = at.max(node.last_seen);
            shown += usize::from(!node.hidden);
            left += usize::from(!node.hidden && node.account.has_left());
        }

        // Of nodes that left in order nothing is missing: they make no figure stale (A178).
        let are_all_left = shown > 0 && left == shown;
        let is_quiet = at.0 > 0 && now.since(at) >= NODE_SILENT_AFTER;
        LastSeen { at, is_silent: is_quiet && !are_all_left }
    }

    /// Expires slots of all windows, and no node.
    pub fn expire_windows(&mut self, now: Wall) {
        Arc::make_mut(&mut self.operations).expire(now, Phase::NONE);
        self.expire_rollups(now);
        self.nodes.values_mut().for_each(|node| expire_windows_of_silent(node, now));
    }

    /// Whether messages of the normal lane are to fill gaps before the emergency lane makes more.
    pub fn is_fragmented(&self) -> bool {
        !self.fragmented.is_empty()
    }

    fn evict(&mut self, name: &NodeName) {
        self.fragmented.remove(name);
        if let Some(node) = self.nodes.remove(name) {
            let mut ledger = node.account.ledger();
            // What it still held will not come any more.
            ledger.unaccounted =
                ledger.unaccounted.saturating_add(std::mem::take(&mut ledger.held));
            // Sums over the fleet are counters on pages and must not fall with a node.
            self.counts.gone.add(&ledger);
        }
        self.changed.touch(name);
    }

    /// Where there is no room for one node more, the expired one last seen longest ago is evicted.
    fn make_room_for(&mut self, name: &NodeName) {
        let is_full = self.nodes.len() >= NODES_MAX && !self.nodes.contains_key(name);
        // Any number of names may come: all nodes are searched only when that may help.
        if !is_full || !self.may_hold_expired {
            return;
        }
        let expired = self.nodes.iter().filter(|(_, node)| node.hidden);
        let longest = expired.min_by_key(|(_, node)| node.last_seen).map(|(name, _)| name.clone());
        let Some(longest) = longest else {
            self.may_hold_expired = false;
            return;
        };
        self.evict(&longest);
        self.counts.reject("account", 1);
    }

    /// A clock that jumps forward is no silence of a node: all were seen so much later. One that
    /// is set back is no sign of life: no node has been seen in the future.
    pub fn on_clock_jump(&mut self, now: Wall, jump: ClockJump) {
        if jump.is_back {
            self.turn_windows_back(now);
        }

        let forward = if jump.forward > CLOCK_LEAP_MIN { jump.forward } else { Duration::ZERO };
        // What was seen of the nodes' clocks was seen by the clock of before: a message would seem
        // to have been on its way for as long as ours was set forward.
        let is_set = jump.forward >= CLOCK_STEP_MIN;

        if !forward.is_zero() {
            self.newest_seen = self.newest_seen.plus(forward);
            Arc::make_mut(&mut self.operations).pass_over(forward);
            self.rollups.pass_over(forward);
        }

        for (name, node) in &mut self.nodes {
            let seen = node.last_seen.plus(forward).min(now);
            if seen != node.last_seen || (is_set && node.skew.is_some()) {
                let node = Arc::make_mut(node);
                // Both times move, since the one between them
                // is for how long the node was known (A152).
                node.first_seen = node.first_seen.plus(seen.since(node.last_seen));
                node.last_seen = seen;
                node.operations.pass_over(forward);
                if is_set {
                    node.reset_clock();
                }
                self.changed.touch(name);
            }
        }
    }

    fn turn_windows_back(&mut self, now: Wall) {
        Arc::make_mut(&mut self.operations).turn_back(now);
        self.rollups.turn_back(now);
        for (name, node) in &mut self.nodes {
            Arc::make_mut(node).operations.turn_back(now);
            self.changed.touch(name);
        }
    }

    /// Closes crashed incarnations, detects sequence gaps and looks at tables, once a second.
    /// `read_up_to` is the time up to which all lanes had been read; a history that is kept has
    /// this many series. Returns the latest round trips to the broker of the nodes that report.
    ///
    /// With thousands of nodes each pass waits for memory, so there is one.
    pub fn watch(
        &mut self,
        now: Now,
        read_up_to: Option<Mono>,
        history_series: Option<usize>,
    ) -> Vec<Duration> {
        self.watched_since.get_or_insert(now.wall);
        let (mut ended, mut open, mut round_trips) = (BTreeSet::new(), BTreeMap::new(), Vec::new());

        let mut seen = Wall::default();

        // Expired nodes too: what an incarnation held when it crashed
        // is in the fleet's sums, whether or not the node is shown.
        for (name, node) in &self.nodes {
            let of_node = |incarnation| NodeIncarnation { node: name.clone(), incarnation };
            ended.extend(node.account.awaiting_close().map(of_node));
            seen = seen.max(node.last_seen);
            if node.hidden {
                continue;
            }
            open.extend(node.account.gap().map(|gap| (name.clone(), gap)));
            // The last report of a silent node is about the broker of before.
            if node.presence(now.wall) == Presence::Up {
                round_trips.extend(node.round_trip());
            }
        }

        let all = self.nodes.values().map(|node| &**node);
        self.tables = TablesUsed::of(all, &self.operations, &self.rollups, history_series);

        // What was lost with an incarnation that is closed now is no gap.
        for name in self.close_crashed_incarnations(now.mono, read_up_to, ended) {
            let node = self.nodes.get(&name).filter(|node| !node.hidden);
            match node.and_then(|node| node.account.gap()) {
                Some(gap) => open.insert(name, gap),
                None => open.remove(&name),
            };
        }

        self.watch_gaps(now, seen, read_up_to, open);
        round_trips
    }

    fn watch_gaps(
        &mut self,
        now: Now,
        seen: Wall,
        read_up_to: Option<Mono>,
        open: BTreeMap<NodeName, Gap>,
    ) {
        self.gaps.on_unknown();
        let Some(read_up_to) = read_up_to else { return };
        let read = self.gaps.on_read(read_up_to);
        // An aggregator that reads of no node may be cut off.
        if now.wall.since(seen) < NODE_SILENT_AFTER {
            self.gaps.watch(now.mono, read, open);
        }
    }

    /// Closes incarnations that ended without a final message, as soon as everything that the
    /// streams may hold of them was read; `ended` are all that wait for it. Returns their nodes.
    fn close_crashed_incarnations(
        &mut self,
        now: Mono,
        read_up_to: Option<Mono>,
        ended: BTreeSet<NodeIncarnation>,
    ) -> Vec<NodeName> {
        let mut closed = Vec::new();
        for NodeIncarnation { node: name, incarnation } in
            self.crashes.watch(now, read_up_to, ended)
        {
            let Some(node) = self.nodes.get_mut(&name).map(Arc::make_mut) else { continue };
            node.account.close(incarnation);
            node.observe_counts(incarnation);
            self.changed.touch(&name);
            closed.push(name);
        }
        closed
    }

    /// Every node, expired ones among them.
    pub fn nodes(&self) -> &BTreeMap<NodeName, Arc<Node>> {
        &self.nodes
    }

    pub fn shown(&self) -> impl Iterator<Item = (&NodeName, &Node)> {
        let shown = self.nodes.iter().filter(|(_, node)| !node.hidden);
        shown.map(|(name, node)| (name, &**node))
    }

    /// The nodes of a scope that have not expired.
    pub fn shown_in(&self, scope: &Scope) -> impl Iterator<Item = (&NodeName, &Node)> {
        let nodes = match scope {
            Scope::Fleet => self.nodes.range::<NodeName, _>(..),
            Scope::Node(name) => self.nodes.range::<NodeName, _>(name..=name),
        };
        nodes.map(|(name, node)| (name, &**node)).filter(|(_, node)| !node.hidden)
    }

    pub fn operations(&self) -> &Arc<Operations> {
        &self.operations
    }

    pub fn windows_of(&self, budget: &Budget, scope: &Scope) -> Option<&Windows> {
        match scope {
            Scope::Fleet => self.operations.judged(budget),
            Scope::Node(name) => self.nodes.get(name)?.operations.judged(budget),
        }
    }

    /// Why no more samples of a budget are to be expected in a scope, or, without a budget, nothing
    /// more of a node: the node has left in order or its jobs have ended; of the fleet, each
    /// node that brought samples `within` so long of the newest. `None` while there may be more.
    pub fn reason_of_end(
        &self,
        now: Wall,
        scope: &Scope,
        within: Duration,
        budget: Option<&Budget>,
    ) -> Option<AlertEndReason> {
        let of_node = |node: &Node| {
            let has_ended = budget.is_some_and(|budget| node.has_ended(&budget.operation));
            match node.presence(now) {
                Presence::Left => Some(AlertEndReason::NodeLeft),
                _ => has_ended.then_some(AlertEndReason::JobEnded),
            }
        };

        if let Scope::Node(name) = scope {
            let Some(node) = self.nodes.get(name) else {
                // Its record was lost, so that it never expires here. It is known again as soon
                // as it sends.
                let waited = self.watched_since.map(|since| now.since(since));
                let is_over = waited.is_some_and(|waited| waited >= NODE_RETURNS_NO_MORE);
                return is_over.then_some(AlertEndReason::NodeForgotten);
            };
            return of_node(node);
        }

        if budget.is_some_and(|budget| is_of_aggregators(&budget.operation)) {
            // No node has samples of it, and without nodes nothing is delivered.
            let has_left = |(_, node): (_, &Node)| node.presence(now) == Presence::Left;
            return self.shown().all(has_left).then_some(AlertEndReason::NodeLeft);
        }

        let newest = self.operations.judged(budget?)?.newest();
        let brought = |node: &Node| {
            let own = node.operations.judged(budget?).map(Windows::newest)?;
            // A job that moved on is over at the node where it
            // was killed, which never reports its end (A59).
            (newest.since(own) <= within).then(|| of_node(node))
        };

        let reasons: Option<Vec<AlertEndReason>> =
            self.nodes.values().filter_map(|node| brought(node)).collect();
        let reasons = reasons?;
        let of_jobs = reasons.iter().find(|reason| **reason == AlertEndReason::JobEnded);
        of_jobs.or(reasons.first()).copied()
    }

    /// Why no more steps are to be expected of a node, as far as that is known of steps alone.
    pub fn end_of_steps(
        &self,
        now: Wall,
        scope: &Scope,
        operation: &Operation,
    ) -> Option<AlertEndReason> {
        let Scope::Node(node) = scope else { return None };
        let node = self.nodes.get(node)?;
        if node.has_ended(operation) {
            return Some(AlertEndReason::JobEnded);
        }
        let newest = node.operations.get(operation).map(Windows::newest).unwrap_or_default();
        let is_over = node.presence(now) == Presence::Up && now.since(newest) >= NO_STEPS_AFTER;
        is_over.then_some(AlertEndReason::NoSteps)
    }

    /// Whether a node reports and has received no gauge of an operation for so long that the job
    /// that sent it is over, as an operation without samples is given up.
    pub fn has_gauge_ended(&self, now: Wall, scope: &Scope, operation: &Operation) -> bool {
        let Scope::Node(name) = scope else { return false };
        let Some(node) = self.nodes.get(name) else { return false };
        let received = node.gauge_received_at(operation);
        node.presence(now) == Presence::Up
            && received.is_some_and(|at| now.since(at) >= ABSENT_WITHIN)
    }

    pub fn longest_node_window(&self, budget: &Budget) -> Window {
        self.retention.of_budget(budget).up_to
    }

    pub fn rollups(&self) -> &Rollups {
        &self.rollups
    }

    /// Every node that has not expired belongs to the next checkpoint, changed or not: the limits
    /// in its confirmation have changed.
    pub fn touch_shown(&mut self) {
        for (name, _) in self.nodes.iter().filter(|(_, node)| !node.hidden) {
            self.changed.touch(name);
        }
    }

    /// Whether anything has changed since [`Self::checkpoint`].
    pub fn has_changed(&self) -> bool {
        self.changed.any
    }

    /// The names of nodes that have changed or are gone; from here on nothing has changed. `None`
    /// where there are too many to name.
    pub fn take_changed(&mut self) -> Option<BTreeSet<NodeName>> {
        self.changed.take()
    }

    /// What a checkpoint stores of the fleet, of all nodes if it stores `everything`; from here on
    /// nothing has changed.
    pub fn checkpoint(&mut self, everything: bool) -> FleetChanges {
        // Taken in either case, so that the next checkpoint counts from this one.
        let changed = self.take_changed().filter(|_| !everything);
        let everything = changed.is_none();

        FleetChanges {
            everything,
            nodes: match &changed {
                Some(names) => changed::with_nodes(names, &self.nodes),
                None => {
                    self.nodes.iter().map(|(name, of)| (name.clone(), Some(of.clone()))).collect()
                }
            },
            pools: Pools {
                operations: Arc::clone(&self.operations),
                rollups: self.rollups.clone(),
            },
            rest: StoredFleet {
                nodes: self.nodes.len(),
                operations: self.operations.iter().count(),
                selected_operations: self.operations.selected().count(),
                rollups: self.rollups.sizes(),
                selected: self.retention.selected(),
                counts: self.counts.clone(),
            },
        }
    }

    #[cfg(test)]
    pub(crate) fn rollups_mut(&mut self) -> &mut Rollups {
        &mut self.rollups
    }
}

/// A node's windows expire slots when it reports; when it is silent, all that every window has
/// passed is dropped at once.
fn expire_windows_of_silent(node: &mut Arc<Node>, now: Wall) {
    // Asked before `make_mut`, which copies a node that a view or a checkpoint holds: otherwise all
    // silent nodes would be copied each second.
    if now.since(node.last_seen) >= NODE_SILENT_AFTER && node.operations.are_stale(now) {
        Arc::make_mut(node).operations.expire(now, Phase::NONE);
    }
}

#[cfg(test)]
mod tests;
