//! Values of jobs' metrics that wait for the next checkpoint, by metric and slot of 10 s.
//!
//! Names are bounded, in all and for each node: a job that names a metric by its step must cost
//! neither memory nor the metrics of others. What finds no room is counted and kept nowhere.
//!
//! DESIGN A194.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::summary::MetricKind;

use super::metric::{MetricKey, MetricTotals};
use super::resolution::Resolution;
use crate::core::fleet::{Group, MergedSamples, Pool, Rollups};
use crate::limits::{
    HISTORY_METRICS_IDLE_SLOTS, HISTORY_METRICS_MAX, HISTORY_METRICS_OF_NODE_MAX,
    HISTORY_PENDING_VALUES_MAX,
};

type Slots = BTreeMap<u64, MetricTotals>;

#[derive(Debug, Default)]
pub(super) struct PendingMetrics {
    counters: OfKind,
    gauges: OfKind,
    room: MetricRoom,
}

/// All metrics of one kind. Looked up by reference: a message has many, and each second brings one
/// of each node.
#[derive(Debug, Default)]
struct OfKind {
    fleet: BTreeMap<Operation, Slots>,
    /// By the roll-up's name, then by group.
    groups: BTreeMap<String, BTreeMap<Group, Slots>>,
}

#[derive(Debug, Default)]
struct MetricRoom {
    /// Slots of all metrics.
    used: usize,
    known: BTreeMap<MetricKey, KnownMetric>,
    /// Metrics that each node was the first to bring, of those that are known.
    by_node: BTreeMap<NodeName, usize>,
    /// The slot in which idle ones were last looked for.
    searched: u64,
    /// Values for which there was no room.
    dropped: u64,
}

#[derive(Debug)]
struct KnownMetric {
    by: NodeName,
    /// The latest slot with a value.
    slot: u64,
}

/// Who sends values.
#[derive(Clone, Copy)]
pub(super) struct MetricSource<'m> {
    pub(super) node: &'m NodeName,
    /// It has bounded the metrics of each of its nodes itself.
    pub(super) of_shard: bool,
}

/// A value that a node sends, and the slot in which its interval ended.
#[derive(Clone, Copy)]
struct NodeValue<'m> {
    source: MetricSource<'m>,
    number: u64,
    value: f64,
}

impl PendingMetrics {
    pub(super) fn add(
        &mut self,
        source: MetricSource<'_>,
        samples: &MergedSamples,
        rollups: &Rollups,
    ) {
        let number = Resolution::TenSeconds.number(samples.taken);
        let latency = &samples.latency;
        let kinds = [
            (MetricKind::Counter, &latency.counters, &mut self.counters),
            (MetricKind::Gauge, &latency.gauges, &mut self.gauges),
        ];

        for (kind, values, of_kind) in kinds {
            for (series, value) in values {
                let of = NodeValue { source, number, value: *value };
                of_kind.add_to_fleet(kind, &series.operation, of, &mut self.room);

                for rollup in rollups.iter() {
                    let Some(group) = rollup.group_of(series, &samples.node_labels) else {
                        continue;
                    };
                    let name = rollup.definition.name.as_str();
                    of_kind.add_to_group(kind, name, group, of, &mut self.room);
                }
            }
        }
    }

    /// Everything; from here on nothing waits.
    pub(super) fn take(&mut self) -> BTreeMap<MetricKey, Slots> {
        self.room.used = 0;
        let counters = std::mem::take(&mut self.counters).into_keys(MetricKind::Counter);
        let gauges = std::mem::take(&mut self.gauges).into_keys(MetricKind::Gauge);
        counters.chain(gauges).collect()
    }

    pub(super) fn get(&self, key: &MetricKey) -> Option<&Slots> {
        let of_kind = match key.kind {
            MetricKind::Counter => &self.counters,
            MetricKind::Gauge => &self.gauges,
        };
        match &key.pool {
            Pool::Fleet(operation) => of_kind.fleet.get(operation),
            Pool::Group(rollup, group) => of_kind.groups.get(rollup)?.get(group),
            Pool::Selected(_) => None,
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = MetricKey> {
        let counters = self.counters.keys(MetricKind::Counter);
        counters.chain(self.gauges.keys(MetricKind::Gauge))
    }

    pub(super) fn dropped(&self) -> u64 {
        self.room.dropped
    }

    /// Slots of all metrics.
    pub(super) fn used(&self) -> usize {
        self.room.used
    }

    pub(super) fn is_empty(&self) -> bool {
        self.room.used == 0
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.room.used > HISTORY_PENDING_VALUES_MAX / 2
    }
}

impl OfKind {
    fn add_to_fleet(
        &mut self,
        kind: MetricKind,
        name: &Operation,
        of: NodeValue<'_>,
        room: &mut MetricRoom,
    ) {
        if let Some(slot) = self.fleet.get_mut(name).and_then(|slots| slots.get_mut(&of.number)) {
            return slot.add_value(of.value);
        }
        if room.take(MetricKey { kind, pool: Pool::Fleet(name.clone()) }, of) {
            let slots = self.fleet.entry(name.clone()).or_default();
            slots.insert(of.number, MetricTotals::of(of.value));
        }
    }

    fn add_to_group(
        &mut self,
        kind: MetricKind,
        rollup: &str,
        group: Group,
        of: NodeValue<'_>,
        room: &mut MetricRoom,
    ) {
        let slots = self.groups.get_mut(rollup).and_then(|groups| groups.get_mut(&group));
        if let Some(slot) = slots.and_then(|slots| slots.get_mut(&of.number)) {
            return slot.add_value(of.value);
        }
        let pool = Pool::Group(rollup.to_owned(), group.clone());
        if room.take(MetricKey { kind, pool }, of) {
            let groups = self.groups.entry(rollup.to_owned()).or_default();
            groups.entry(group).or_default().insert(of.number, MetricTotals::of(of.value));
        }
    }

    fn into_keys(self, kind: MetricKind) -> impl Iterator<Item = (MetricKey, Slots)> {
        let groups = self.groups.into_iter().flat_map(|(rollup, groups)| {
            groups
                .into_iter()
                .map(move |(group, slots)| (Pool::Group(rollup.clone(), group), slots))
        });
        let fleet = self.fleet.into_iter().map(|(name, slots)| (Pool::Fleet(name), slots));
        fleet.chain(groups).map(move |(pool, slots)| (MetricKey { kind, pool }, slots))
    }

    fn keys(&self, kind: MetricKind) -> impl Iterator<Item = MetricKey> {
        let groups = self.groups.iter().flat_map(|(rollup, groups)| {
            groups.keys().map(|group| Pool::Group(rollup.clone(), group.clone()))
        });
        let fleet = self.fleet.keys().cloned().map(Pool::Fleet);
        fleet.chain(groups).map(move |pool| MetricKey { kind, pool })
    }
}

impl MetricRoom {
    /// Takes room for a slot that begins; false, and counted, where there is none.
    fn take(&mut self, key: MetricKey, of: NodeValue<'_>) -> bool {
        let has_room = self.used < HISTORY_PENDING_VALUES_MAX && self.knows(key, of);
        match has_room {
            true => self.used += 1,
            false => self.dropped = self.dropped.saturating_add(1),
        }
        has_room
    }

    /// Whether a metric is known, or there is room for one more of its node.
    fn knows(&mut self, key: MetricKey, of: NodeValue<'_>) -> bool {
        if let Some(known) = self.known.get_mut(&key) {
            known.slot = known.slot.max(of.number);
            return true;
        }
        if !self.has_place(of.source) {
            self.forget_idle(of.number);
        }
        if !self.has_place(of.source) {
            return false;
        }
        let node = of.source.node;
        *self.by_node.entry(node.clone()).or_default() += 1;
        self.known.insert(key, KnownMetric { by: node.clone(), slot: of.number });
        true
    }

    fn has_place(&self, MetricSource { node, of_shard }: MetricSource<'_>) -> bool {
        let brought = self.by_node.get(node).copied().unwrap_or_default();
        let has_its_own = of_shard || brought < HISTORY_METRICS_OF_NODE_MAX;
        self.known.len() < HISTORY_METRICS_MAX && has_its_own
    }

    /// Makes room: metrics of jobs that ended an hour ago are brought anew if they come again.
    fn forget_idle(&mut self, number: u64) {
        // Once in a slot: it visits all of them.
        if self.searched == number {
            return;
        }
        self.searched = number;
        let is_idle = |known: &KnownMetric| known.slot + HISTORY_METRICS_IDLE_SLOTS < number;
        for (_, gone) in self.known.extract_if(.., |_, known| is_idle(known)) {
            if let Some(brought) = self.by_node.get_mut(&gone.by) {
                *brought = brought.saturating_sub(1);
            }
        }
        self.by_node.retain(|_, brought| *brought > 0);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::{Labels, Series};
    use plimsoll_schemas::time::Wall;
    use plimsoll_schemas::wire::Latency;

    use super::*;
    use crate::core::fleet::Definition;

    fn samples(seconds: u64, names: impl Iterator<Item = String>) -> MergedSamples {
        let series = |name: String| (Series::plain(Operation::new(name).unwrap()), 2.5);
        let latency = Latency { counters: names.map(series).collect(), ..Latency::default() };
        let node_labels = Labels::new([("run", "v42")]).unwrap();
        MergedSamples { taken: Wall(seconds * 1_000_000_000), node_labels, latency }
    }

    fn of(node: &NodeName) -> MetricSource<'_> {
        MetricSource { node, of_shard: false }
    }

    fn names(prefix: &str, n: usize) -> impl Iterator<Item = String> + use<> {
        let prefix = prefix.to_owned();
        (0..n).map(move |n| format!("{prefix}{n}"))
    }

    #[test]
    fn a_counter_is_of_the_fleet_and_of_each_group_that_it_is_in() {
        let mut pending = PendingMetrics::default();
        let rollups = Rollups::default().redefined(&[Definition::of_label("run")]);
        let node = NodeName::new("n").unwrap();
        pending.add(of(&node), &samples(5, names("tokens", 1)), &rollups);
        pending.add(of(&node), &samples(6, names("tokens", 1)), &rollups);
        let taken = pending.take();
        let names: Vec<String> = taken.keys().map(|key| key.pool.to_string()).collect();
        assert_eq!(names, ["fleet tokens0", "rollup run tokens0 [\"v42\"]"]);
        let sums: Vec<f64> = taken.values().map(|slots| slots[&0].sum.value()).collect();
        assert_eq!((sums, pending.is_empty()), (vec![5.0, 5.0], true));
    }

    #[test]
    fn a_node_that_names_metrics_without_end_leaves_room_for_others() {
        let mut pending = PendingMetrics::default();
        let rollups = Rollups::default();
        let loud = NodeName::new("loud").unwrap();
        let most = HISTORY_METRICS_OF_NODE_MAX;
        pending.add(of(&loud), &samples(5, names("loud", most + 7)), &rollups);
        assert_eq!((pending.used(), pending.dropped()), (most, 7));
        pending.add(of(&NodeName::new("calm").unwrap()), &samples(5, names("calm", 3)), &rollups);
        assert_eq!((pending.used(), pending.dropped()), (most + 3, 7));
        // Those that it has go on.
        pending.add(of(&loud), &samples(15, names("loud", most)), &rollups);
        assert_eq!(pending.dropped(), 7);
        // A shard stands for many nodes.
        let shard = MetricSource { node: &loud, of_shard: true };
        pending.add(shard, &samples(15, names("more", 1)), &rollups);
        assert_eq!(pending.dropped(), 7);
    }

    #[test]
    fn a_node_gets_its_places_back_once_its_metrics_are_idle() {
        let mut pending = PendingMetrics::default();
        let (node, rollups) = (NodeName::new("n").unwrap(), Rollups::default());
        pending.add(of(&node), &samples(5, names("first", HISTORY_METRICS_OF_NODE_MAX)), &rollups);
        pending.add(of(&node), &samples(3_600, names("second", 1)), &rollups);
        assert_eq!(pending.dropped(), 1, "they may come again");
        pending.add(of(&node), &samples(3_700, names("second", 1)), &rollups);
        assert_eq!(pending.dropped(), 1);
    }

    #[test]
    fn idle_metrics_make_room_once_all_places_are_in_use() {
        let mut pending = PendingMetrics::default();
        let rollups = Rollups::default();
        for node in 0..HISTORY_METRICS_MAX / HISTORY_METRICS_OF_NODE_MAX {
            let name = NodeName::new(format!("n{node}")).unwrap();
            let names = names(&format!("m{node}."), HISTORY_METRICS_OF_NODE_MAX);
            pending.add(of(&name), &samples(5, names), &rollups);
        }
        let late = NodeName::new("late").unwrap();
        pending.add(of(&late), &samples(3_600, names("x", 1)), &rollups);
        assert_eq!(pending.dropped(), 1, "they may come again");
        pending.add(of(&late), &samples(3_700, names("x", 1)), &rollups);
        assert_eq!(pending.dropped(), 1);
    }
}
