//! What the aggregator keeps about one node.

mod events;
mod grown;
mod operations;
mod sensed;
mod shared;
mod ticks;
mod trouble;
mod vitals;

use std::collections::BTreeMap;

use crate::limits::{
    ACCOUNT_FORGET_AFTER, NODE_HIDE_AFTER, NODE_HIDE_SILENT_AFTER, NODE_SERIES_MAX,
    NODE_SILENT_AFTER,
};
use plimsoll_schemas::hardware::Reading;
use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::ids::{Incarnation, Labels, Seq, Series};
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{AlertType, Bus, EventSource, Hardware, Latency};
use serde::{Deserialize, Serialize};

pub use operations::{OVERFLOW, Operations};
pub use shared::Shared;
pub use trouble::Trouble;
pub use vitals::{NodeAt, Vitals};

pub(crate) use grown::Counted;
pub(crate) use sensed::{Sensed, Worst};

use crate::core::fleet::catalogue;
use crate::core::fleet::ledger::Account;
use crate::core::ingest::event_time::Skew;

/// One node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Node {
    /// Which of its snapshots were merged.
    pub account: Account,
    /// When it last spoke, on the aggregator's clock.
    pub last_heard: Wall,
    /// True once it has been gone for so long that it is not shown any more. Its account stays.
    #[serde(default)]
    pub hidden: bool,
    /// What it is called by beside its name.
    #[serde(default)]
    pub labels: Latest<Labels>,
    /// How far its clock is off, as last seen; `None` where nothing tells.
    #[serde(default)]
    pub skew: Option<Skew>,
    /// Its operations.
    pub operations: Operations,
    /// Sums of its counters.
    pub counters: Shared<BTreeMap<Series, f64>>,
    /// Latest values of its gauges.
    pub gauges: Shared<BTreeMap<Series, Latest<f64>>>,
    /// Latest readings, of sensors in the catalogue only.
    pub readings: Latest<Shared<Vec<Reading>>>,
    /// Its own account of its way to the broker.
    pub bus: Latest<Shared<Bus>>,
    /// Events and service checks that it sent, by source and how bad they were.
    #[serde(default)]
    pub events: Shared<BTreeMap<(EventSource, AlertType), u64>>,
    /// The latest status of each service check.
    #[serde(default)]
    pub checks: Shared<BTreeMap<String, Latest<AlertType>>>,
    /// How it is now.
    #[serde(default)]
    pub vitals: Vitals,
}

/// Where a snapshot stands among a node's: its incarnation's number in their order, its seq.
pub type Position = (u64, Seq);

/// A value that a newer snapshot replaces and an older one, arriving late, does not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latest<T> {
    /// The value.
    pub value: T,
    /// When it was heard; unknown in what was stored before this was kept.
    #[serde(default)]
    pub at: Wall,
    from: Position,
    /// Of which run it is; unknown in what was stored before this was kept.
    #[serde(default)]
    of: Option<Incarnation>,
}

impl<T> Latest<T> {
    /// Takes `value`, of number `seq` of a run, unless a newer one is there. Runs may have
    /// changed places since that one was taken: `account` knows where they stand now.
    fn offer(&mut self, (account, at): (&Account, Wall), from: (Incarnation, Seq), value: T) {
        let (of, seq) = from;
        let place = |run: Incarnation| account.order(run);
        let order = self.of.and_then(place).unwrap_or(self.from.0);
        let from = (place(of).unwrap_or_default(), seq);
        if from > (order, self.from.1) {
            *self = Self { value, at, from, of: Some(of) };
        }
    }
}

impl Node {
    /// Whether the node is to be expected.
    #[must_use]
    pub fn presence(&self, now: Wall) -> Presence {
        let silence = now.since(self.last_heard);
        if self.account.has_left() {
            Presence::Left
        } else if silence >= NODE_SILENT_AFTER {
            Presence::Silent
        } else {
            Presence::Heard
        }
    }

    /// True once a node has been gone for so long that nobody asks: soon after a farewell,
    /// else when the streams no longer hold anything of it.
    #[must_use]
    pub fn may_be_hidden(&self, now: Wall) -> bool {
        let left = self.account.has_left();
        let patience = if left { NODE_HIDE_AFTER } else { NODE_HIDE_SILENT_AFTER };
        now.since(self.last_heard) >= patience
    }

    /// True once nothing that was merged can come again, wherever it was kept.
    #[must_use]
    pub fn may_be_forgotten(&self, now: Wall) -> bool {
        now.since(self.last_heard) >= ACCOUNT_FORGET_AFTER
    }

    /// What is kept of the node while it is not shown: its account, and when it was heard.
    #[must_use]
    pub fn hidden(&self) -> Self {
        let (account, last_heard) = (self.account.clone(), self.last_heard);
        Self { account, last_heard, vitals: self.vitals.hidden(), hidden: true, ..Self::default() }
    }

    /// Hears how far its clock is off.
    pub fn see_clock(&mut self, skew: Option<Skew>) {
        let better = |skew: &Skew| self.skew.is_none_or(|known| skew.is_better_than(&known));
        self.skew = skew.filter(better).or(self.skew);
    }

    /// Takes what it is called by beside its name.
    pub fn take_labels(&mut self, from: (Incarnation, Seq), labels: &Labels) {
        self.labels.offer((&self.account, self.last_heard), from, labels.clone());
    }

    /// Adds to counters and replaces gauges; tells how many series found no room.
    pub fn take_numbers(&mut self, from: (Incarnation, Seq), latency: &Latency<Packed>) -> u64 {
        let mut without_room = 0;
        for (series, amount) in &latency.counters {
            match bounded_entry(self.counters.make_mut(), series, NODE_SERIES_MAX) {
                // Two finite numbers may add up to infinity.
                Some(sum) => *sum = (*sum + amount).clamp(f64::MIN, f64::MAX),
                None => without_room += 1,
            }
        }
        for (series, value) in &latency.gauges {
            match bounded_entry(self.gauges.make_mut(), series, NODE_SERIES_MAX) {
                Some(gauge) => gauge.offer((&self.account, self.last_heard), from, *value),
                None => without_room += 1,
            }
        }
        without_room
    }

    /// Takes readings of known sensors; tells how many were of unknown ones.
    pub fn take_readings(&mut self, from: (Incarnation, Seq), hardware: Hardware) -> u64 {
        let all = hardware.readings.len();
        let mut known = hardware.readings;
        known.retain(|reading| catalogue::place(&reading.sensor).is_some());
        let unknown = all - known.len();
        self.readings.offer((&self.account, self.last_heard), from, known.into());
        unknown as u64
    }

    /// Takes its account of its way to the broker.
    pub fn take_bus(&mut self, from: (Incarnation, Seq), bus: Bus) {
        self.bus.offer((&self.account, self.last_heard), from, bus.into());
    }
}

/// The entry under `key`, made if there is room for it.
pub fn bounded_entry<'a, K: Ord + Clone, V: Default>(
    map: &'a mut BTreeMap<K, V>,
    key: &K,
    max: usize,
) -> Option<&'a mut V> {
    if map.len() >= max && !map.contains_key(key) {
        return None;
    }
    Some(map.entry(key.clone()).or_default())
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::LOAD1;
    use plimsoll_schemas::ids::{NodeName, Operation};
    use plimsoll_schemas::wire::{Header, Totals};

    use super::*;

    /// A node that has heard one message of each of these runs.
    fn node(runs: &[u64]) -> Node {
        let mut node = Node::default();
        for run in runs {
            let header = Header {
                node: NodeName::new("n").unwrap(),
                incarnation: Incarnation(*run),
                seq: Seq(1),
                start: Wall(*run),
                length_ns: 1,
                totals: Totals::default(),
                last: false,
                heir: None,
                labels: Labels::default(),
            };
            node.account.book(&header, 0);
        }
        node
    }

    fn load(value: f64) -> Hardware {
        Hardware { readings: vec![Reading::ok(&LOAD1, Labels::default(), value)] }
    }

    #[test]
    fn a_late_reading_does_not_replace_a_newer_one() {
        let mut node = node(&[1, 2]);
        node.take_readings((Incarnation(1), Seq(5)), load(5.0));
        node.take_readings((Incarnation(1), Seq(4)), load(4.0));
        assert_eq!(node.readings.value[0].value, Some(5.0));
        node.take_readings((Incarnation(2), Seq(1)), load(1.0));
        assert_eq!(node.readings.value[0].value, Some(1.0));
    }

    #[test]
    fn a_former_run_that_is_heard_late_masks_nothing_of_the_living_one() {
        let mut node = node(&[9]);
        node.take_readings((Incarnation(9), Seq(1)), load(9.0));
        node.account = self::node(&[9, 7]).account;
        node.take_readings((Incarnation(7), Seq(500)), load(7.0));
        assert_eq!(node.readings.value[0].value, Some(9.0));
        node.take_readings((Incarnation(9), Seq(2)), load(9.5));
        assert_eq!(node.readings.value[0].value, Some(9.5));
    }

    #[test]
    fn readings_of_unknown_sensors_are_counted_and_not_kept() {
        let mut node = node(&[1]);
        let mut strange = Reading::ok(&LOAD1, Labels::default(), 1.0);
        strange.sensor = "mood".to_owned();
        let hardware = Hardware { readings: vec![strange] };
        assert_eq!(node.take_readings((Incarnation(1), Seq(1)), hardware), 1);
        assert!(node.readings.value.is_empty());
    }

    #[test]
    fn a_node_is_silent_after_a_while_unless_it_said_farewell() {
        let node = Node { last_heard: Wall(1), ..Node::default() };
        let later = Wall(1).plus(NODE_SILENT_AFTER);
        assert_eq!(node.presence(Wall(1)), Presence::Heard);
        assert_eq!(node.presence(later), Presence::Silent);
        assert!(!node.may_be_hidden(later.plus(NODE_HIDE_AFTER)));
        assert!(node.may_be_hidden(later.plus(NODE_HIDE_SILENT_AFTER)));
        assert!(!node.may_be_forgotten(later.plus(NODE_HIDE_SILENT_AFTER)));
    }

    #[test]
    fn a_late_gauge_does_not_replace_a_newer_one() {
        let mut node = Node::default();
        let series = Series::plain(Operation::new("depth").unwrap());
        for (seq, value) in [(5, 5.0), (4, 4.0), (6, 6.0), (3, 3.0)] {
            let latency = Latency { gauges: vec![(series.clone(), value)], ..Latency::default() };
            node.take_numbers((Incarnation(1), Seq(seq)), &latency);
        }
        assert_eq!(node.gauges[&series].value, 6.0);
    }

    #[test]
    fn a_flood_of_series_is_bounded_and_counted() {
        let mut node = Node::default();
        let flood: Vec<(Series, f64)> = (0..NODE_SERIES_MAX + 7)
            .map(|i| (Series::plain(Operation::new(format!("c{i}")).unwrap()), 1.0))
            .collect();
        let latency = Latency { counters: flood, ..Latency::default() };
        assert_eq!(node.take_numbers((Incarnation(1), Seq(1)), &latency), 7);
        assert_eq!(node.counters.len(), NODE_SERIES_MAX);
    }
}
