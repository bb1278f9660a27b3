//! Samples that wait for the next checkpoint, by pool and slot of 10 s. Slots are bounded in
//! number, and no node takes all of them: what finds no room is counted, and is missing from the
//! history alone.
//!
//! Values of metrics wait beside them: [`super::pending_metrics`].

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{Labels, NodeName, Operation, Series};
use plimsoll_schemas::straggler::{CLASS_LABEL, class_of};
use plimsoll_schemas::time::{Wall, nanos};
use plimsoll_schemas::unit::Unit;

use super::batch::{Coverage, SlotSamples, node_time};
use super::metric::HistoryKey;
use super::pending_metrics::{MetricSource, PendingMetrics};
use super::resolution::Resolution;
use crate::core::fleet::{Group, MergedSnapshot, Operations, Pool, Rollups};
use crate::limits::{HISTORY_PENDING_SHARE, HISTORY_PENDING_SLOTS_MAX};

type Slots = BTreeMap<u64, Histogram>;

/// What the fleet has room for.
#[derive(Clone, Copy, Debug)]
pub struct Known<'f> {
    pub operations: &'f Operations,
    /// Its roll-ups with their groups.
    pub rollups: &'f Rollups,
}

#[derive(Debug, Default)]
pub(super) struct Pending {
    fleet: BTreeMap<Operation, Slots>,
    /// By the roll-up's name, then by group.
    groups: BTreeMap<String, BTreeMap<Group, Slots>>,
    pub(super) metrics: PendingMetrics,
    coverage: BTreeMap<u64, Coverage>,
    pub(super) room: Room,
}

#[derive(Debug, Default)]
pub(super) struct Room {
    /// Slots of all pools.
    pub(super) used: usize,
    /// Slots that each node has begun.
    by_node: BTreeMap<NodeName, usize>,
    /// Samples for which there was none.
    pub(super) dropped: u64,
}

#[derive(Clone, Copy)]
struct NodeSamples<'m> {
    node: &'m NodeName,
    number: u64,
    packed: &'m Packed,
}

impl Room {
    /// Takes room for a slot that a node begins; false if the node has its share already.
    fn take(&mut self, node: &NodeName) -> bool {
        let free = HISTORY_PENDING_SLOTS_MAX.saturating_sub(self.used);
        let begun = self.by_node.get(node).copied().unwrap_or_default();
        if begun >= HISTORY_PENDING_SHARE * free {
            return false;
        }
        self.used += 1;
        *self.by_node.entry(node.clone()).or_default() += 1;
        true
    }
}

impl Pending {
    pub(super) fn add(&mut self, merged: &MergedSnapshot, known: Known<'_>) {
        let dropped = self.room.dropped;

        for samples in &merged.samples {
            let number = Resolution::TenSeconds.number(samples.taken);
            for (series, packed) in &samples.latency.histograms {
                let of = NodeSamples { node: &merged.node, number, packed };
                self.add_to_fleet(&series.operation, of, known.operations);
                self.add_to_groups(series, &samples.node_labels, of, known.rollups);
                self.add_to_class(series, of, known);
            }
            let source = MetricSource { node: &merged.node, of_shard: merged.of_shard };
            self.metrics.add(source, samples, known.rollups);
        }

        // What found no room was not received, as far as the history is concerned.
        if let Some(length) = merged.reported.filter(|_| dropped == self.room.dropped) {
            let number = Resolution::TenSeconds.number(merged.taken);
            let received = Coverage { received_ns: length, ..Coverage::default() };
            self.coverage.entry(number).or_default().add(received);
        }
    }

    /// This many nodes are present for so long before `now`.
    pub(super) fn expect(&mut self, now: Wall, span: Duration, present: usize) {
        let number = Resolution::TenSeconds.number(now);
        let expected = Coverage {
            received_ns: 0,
            expected_ns: node_time(span, present),
            observed_ns: nanos(span),
        };
        self.coverage.entry(number).or_default().add(expected);
    }

    /// An operation for which the fleet had no room is among the others here too.
    fn add_to_fleet(&mut self, operation: &Operation, of: NodeSamples<'_>, known: &Operations) {
        let other;
        let operation = match known.get(operation) {
            Some(_) => operation,
            None => {
                other = Unit::of(operation.as_str()).overflow();
                &other
            }
        };
        // Looked up first: `entry` would take a copy of the name with each message.
        if !self.fleet.contains_key(operation) {
            self.fleet.insert(operation.clone(), Slots::new());
        }
        let Some(slots) = self.fleet.get_mut(operation) else { return };
        add(slots, of, &mut self.room);
    }

    fn add_to_groups(
        &mut self,
        series: &Series,
        of_node: &Labels,
        of: NodeSamples<'_>,
        rollups: &Rollups,
    ) {
        for (rollup, group) in rollups.groups_of(series, of_node) {
            self.add_to_group(rollup, group, of);
        }
    }

    /// Operations by their class of time, here alone: windows and metrics need no such roll-up.
    /// The words are few, so their number is bounded by that of the operations (A185).
    fn add_to_class(&mut self, series: &Series, of: NodeSamples<'_>, known: Known<'_>) {
        let Some(class) = series.labels.get(CLASS_LABEL) else { return };
        let is_of_site = |name: &str| known.rollups.iter().any(|of| of.definition.name == name);
        if known.operations.get(&series.operation).is_none() || is_of_site(CLASS_LABEL) {
            return;
        }
        let values = vec![class_of(class).into()];
        let group = Group { operation: series.operation.clone(), values };
        self.add_to_group(CLASS_LABEL, group, of);
    }

    fn add_to_group(&mut self, rollup: &str, group: Group, of: NodeSamples<'_>) {
        if !self.groups.contains_key(rollup) {
            self.groups.insert(rollup.to_owned(), BTreeMap::new());
        }
        let Some(groups) = self.groups.get_mut(rollup) else { return };
        let slots = groups.entry(group).or_default();
        add(slots, of, &mut self.room);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.room.used == 0 && self.metrics.is_empty() && self.coverage.is_empty()
    }

    /// Whether half of some room is used.
    pub(super) fn is_crowded(&self) -> bool {
        self.room.used > HISTORY_PENDING_SLOTS_MAX / 2 || self.metrics.is_crowded()
    }

    /// Everything; from here on nothing waits.
    pub(super) fn take(&mut self) -> SlotSamples {
        let room = Room { dropped: self.room.dropped, ..Room::default() };
        let metrics = self.metrics.take();
        let known = std::mem::take(&mut self.metrics);
        let next = Self { room, metrics: known, ..Self::default() };
        let taken = std::mem::replace(self, next);
        let fleet = taken.fleet.into_iter();
        let fleet = fleet.map(|(operation, slots)| (Pool::Fleet(operation), slots));
        let groups = taken.groups.into_iter().flat_map(|(rollup, groups)| {
            groups
                .into_iter()
                .map(move |(group, slots)| (Pool::Group(rollup.clone(), group), slots))
        });
        let pools = fleet.chain(groups).collect();
        SlotSamples { pools, metrics, coverage: taken.coverage }
    }

    /// What these keys have, and all coverage.
    pub(super) fn of(&self, keys: &[HistoryKey]) -> SlotSamples {
        let mut found = SlotSamples { coverage: self.coverage.clone(), ..SlotSamples::default() };
        for key in keys {
            match key {
                HistoryKey::Samples(pool) => {
                    let slots = self.slots(pool).cloned();
                    found.pools.extend(slots.map(|slots| (pool.clone(), slots)));
                }
                HistoryKey::Metric(metric) => {
                    let slots = self.metrics.get(metric).cloned();
                    found.metrics.extend(slots.map(|slots| (metric.clone(), slots)));
                }
            }
        }
        found
    }

    fn slots(&self, pool: &Pool) -> Option<&Slots> {
        match pool {
            Pool::Fleet(operation) => self.fleet.get(operation),
            Pool::Group(rollup, group) => self.groups.get(rollup).and_then(|of| of.get(group)),
            Pool::Selected(_) => None,
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = HistoryKey> {
        let groups = self.groups.iter().flat_map(|(rollup, groups)| {
            groups.keys().map(|group| Pool::Group(rollup.clone(), group.clone()))
        });
        let pools = self.fleet.keys().cloned().map(Pool::Fleet).chain(groups);
        pools.map(HistoryKey::Samples).chain(self.metrics.keys().map(HistoryKey::Metric))
    }
}

fn add(slots: &mut Slots, NodeSamples { node, number, packed }: NodeSamples<'_>, room: &mut Room) {
    if let Some(slot) = slots.get_mut(&number) {
        slot.merge_packed(packed);
    } else if room.take(node) {
        slots.entry(number).or_default().merge_packed(packed);
    } else {
        room.dropped = room.dropped.saturating_add(packed.exact().count);
    }
}
