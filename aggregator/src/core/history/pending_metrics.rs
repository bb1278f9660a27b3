//! Values of jobs' metrics that wait for the next checkpoint, by metric and slot of 10 s.
//!
//! Names are bounded, in all and for each node: a job that names a metric by its step must cost
//! neither memory nor the metrics of others. What finds no room is counted and kept nowhere.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::{NodeName, Series};
use plimsoll_schemas::summary::MetricKind;

use super::metric::{MetricKey, MetricTotals};
use super::resolution::Resolution;
use crate::core::fleet::{MergedSamples, Pool, Rollups};
use crate::limits::{
    HISTORY_METRICS_IDLE_SLOTS, HISTORY_METRICS_MAX, HISTORY_METRICS_OF_NODE_MAX,
    HISTORY_PENDING_VALUES_MAX,
};

type Slots = BTreeMap<u64, MetricTotals>;

#[derive(Debug, Default)]
pub(super) struct PendingMetrics {
    slots: BTreeMap<MetricKey, Slots>,
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

impl PendingMetrics {
    pub(super) fn add(&mut self, node: &NodeName, samples: &MergedSamples, rollups: &Rollups) {
        let number = Resolution::TenSeconds.number(samples.taken);
        let counters = samples.latency.counters.iter().map(|of| (MetricKind::Counter, of));
        let gauges = samples.latency.gauges.iter().map(|of| (MetricKind::Gauge, of));

        for (kind, (series, value)) in counters.chain(gauges) {
            for pool in pools(series, samples, rollups) {
                self.add_value(MetricKey { kind, pool }, number, *value, node);
            }
        }
    }

    fn add_value(&mut self, key: MetricKey, number: u64, value: f64, node: &NodeName) {
        let value = MetricTotals::of(value);
        if let Some(slot) = self.slots.get_mut(&key).and_then(|slots| slots.get_mut(&number)) {
            return slot.add(&value);
        }
        if self.used >= HISTORY_PENDING_VALUES_MAX || !self.takes(&key, number, node) {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        self.used += 1;
        self.slots.entry(key).or_default().insert(number, value);
    }

    /// Whether a metric is known, or there is room for one more of its node.
    fn takes(&mut self, key: &MetricKey, number: u64, node: &NodeName) -> bool {
        if let Some(known) = self.known.get_mut(key) {
            known.slot = known.slot.max(number);
            return true;
        }
        if self.known.len() >= HISTORY_METRICS_MAX {
            self.forget_idle(number);
        }

        let brought = self.by_node.get(node).copied().unwrap_or_default();
        if self.known.len() >= HISTORY_METRICS_MAX || brought >= HISTORY_METRICS_OF_NODE_MAX {
            return false;
        }
        self.by_node.insert(node.clone(), brought + 1);
        self.known.insert(key.clone(), KnownMetric { by: node.clone(), slot: number });
        true
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

    /// Everything; from here on nothing waits.
    pub(super) fn take(&mut self) -> BTreeMap<MetricKey, Slots> {
        self.used = 0;
        std::mem::take(&mut self.slots)
    }

    pub(super) fn get(&self, key: &MetricKey) -> Option<&Slots> {
        self.slots.get(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &MetricKey> {
        self.slots.keys()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Slots of all metrics.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.used > HISTORY_PENDING_VALUES_MAX / 2
    }
}

/// The fleet, and each group that a series is in by its own labels and those of its node.
fn pools(series: &Series, samples: &MergedSamples, rollups: &Rollups) -> Vec<Pool> {
    let groups = rollups.iter().filter_map(|rollup| {
        let group = rollup.group_of(series, &samples.node_labels)?;
        Some(Pool::Group(rollup.definition.name.clone(), group))
    });
    [Pool::Fleet(series.operation.clone())].into_iter().chain(groups).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::{Labels, Operation};
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

    fn names(prefix: &str, n: usize) -> impl Iterator<Item = String> + use<> {
        let prefix = prefix.to_owned();
        (0..n).map(move |n| format!("{prefix}{n}"))
    }

    #[test]
    fn a_counter_is_of_the_fleet_and_of_each_group_that_it_is_in() {
        let mut pending = PendingMetrics::default();
        let rollups = Rollups::default().redefined(&[Definition::of_label("run")]);
        let node = NodeName::new("n").unwrap();
        pending.add(&node, &samples(5, names("tokens", 1)), &rollups);
        pending.add(&node, &samples(6, names("tokens", 1)), &rollups);
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
        pending.add(&loud, &samples(5, names("loud", most + 7)), &rollups);
        assert_eq!((pending.used(), pending.dropped()), (most, 7));
        pending.add(&NodeName::new("calm").unwrap(), &samples(5, names("calm", 3)), &rollups);
        assert_eq!((pending.used(), pending.dropped()), (most + 3, 7));
        // Those that it has go on.
        pending.add(&loud, &samples(15, names("loud", most)), &rollups);
        assert_eq!(pending.dropped(), 7);
    }

    #[test]
    fn idle_metrics_make_room_once_all_places_are_in_use() {
        let mut pending = PendingMetrics::default();
        let rollups = Rollups::default();
        for node in 0..HISTORY_METRICS_MAX / HISTORY_METRICS_OF_NODE_MAX {
            let name = NodeName::new(format!("n{node}")).unwrap();
            let names = names(&format!("m{node}."), HISTORY_METRICS_OF_NODE_MAX);
            pending.add(&name, &samples(5, names), &rollups);
        }
        let late = NodeName::new("late").unwrap();
        pending.add(&late, &samples(3_600, names("x", 1)), &rollups);
        assert_eq!(pending.dropped(), 1, "they may come again");
        pending.add(&late, &samples(3_700, names("x", 1)), &rollups);
        assert_eq!(pending.dropped(), 1);
    }
}
