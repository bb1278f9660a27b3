//! What was merged since the latest report: samples and counters by second, labels of nodes and
//! series. The last value of a gauge is no sum, so gauges stay with the shard.

use std::collections::BTreeMap;

use plimsoll_schemas::histogram::{Histogram, Packed, codec};
use plimsoll_schemas::ids::{Labels, LossReason, Series};
use plimsoll_schemas::limits::wire::SHARD_SLOTS_MAX;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{Latency, ShardSlot};

use super::kept_labels::KeptLabels;
use crate::core::fleet::MergedSnapshot;
use crate::core::history::ExactSum;

const SECOND_NS: u64 = 1_000_000_000;
/// Bytes of a series beside its name, labels and counts.
const SERIES_BYTES: usize = 96;

/// Samples that are in no report yet.
#[derive(Debug, Default)]
pub(super) struct OpenReport {
    slots: BTreeMap<(u64, Labels), OpenSlot>,
    lost: BTreeMap<LossReason, u64>,
    /// What it takes at most as a message.
    bytes: usize,
}

/// What nodes with the same labels sent of one second.
#[derive(Debug, Default)]
struct OpenSlot {
    samples: BTreeMap<Series, Histogram>,
    /// What counters grew by, so that the order of messages changes no sum.
    counters: BTreeMap<Series, ExactSum>,
}

impl OpenReport {
    /// What samples add to a report at most.
    pub(super) fn cost(latency: &Latency<Packed>) -> usize {
        let one = |(series, packed): &(Series, Packed)| name_cost(series) + packed.heap_bytes();
        let counters = latency.counters.iter().map(|(series, _)| name_cost(series));
        latency.histograms.iter().map(one).chain(counters).sum()
    }

    /// What it takes at most as a message.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts its bytes anew: samples of many nodes take less together than apart.
    pub(super) fn measure(&mut self) {
        let slots = self.slots.values();
        let counters = slots.clone().flat_map(|slot| slot.counters.keys()).map(name_cost);
        let one = |(series, samples): (&Series, &Histogram)| {
            let counts =
                codec::encode(samples.counts()).map_or(usize::MAX / 2, |bytes| bytes.len());
            name_cost(series).saturating_add(counts)
        };
        let samples = slots.flat_map(|slot| &slot.samples).map(one);
        self.bytes = samples.chain(counters).fold(0, usize::saturating_add);
    }

    pub(super) fn add(&mut self, merged: &MergedSnapshot, kept: &KeptLabels) {
        for of in &merged.samples {
            self.bytes = self.bytes.saturating_add(Self::cost(&of.latency));
            let second = of.taken.0 / SECOND_NS;
            let slot = self.slots.entry((second, kept.node(&of.node_labels))).or_default();
            for (series, packed) in &of.latency.histograms {
                let labels = kept.series(&series.labels);
                let series = Series { operation: series.operation.clone(), labels };
                slot.samples.entry(series).or_default().merge_packed(packed);
            }
            for (series, grown) in &of.latency.counters {
                let labels = kept.series(&series.labels);
                let series = Series { operation: series.operation.clone(), labels };
                slot.counters.entry(series).or_default().push(*grown);
            }
        }
        for (reason, n) in &merged.lost {
            *self.lost.entry(reason.clone()).or_default() += n;
        }
    }

    /// Whether samples of one more node may be added.
    pub(super) fn has_room(&self) -> bool {
        self.slots.len() < SHARD_SLOTS_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.lost.is_empty()
    }

    /// Slots, each in the middle of its second so that no clock moves it into another one, or now
    /// if that is earlier, and losses.
    pub(super) fn into_parts(self, now: Wall) -> (Vec<ShardSlot>, BTreeMap<LossReason, u64>) {
        let slot = |((second, labels), OpenSlot { samples, counters }): (_, OpenSlot)| ShardSlot {
            taken: Wall(second * SECOND_NS + SECOND_NS / 2).min(now),
            labels,
            latency: Latency {
                histograms: samples.into_iter().collect(),
                counters: counters.into_iter().map(|(series, sum)| (series, sum.value())).collect(),
                ..Latency::default()
            },
        };
        let has_any = |slot: &OpenSlot| !slot.samples.is_empty() || !slot.counters.is_empty();
        let slots = self.slots.into_iter().filter(|(_, slot)| has_any(slot));
        (slots.map(slot).collect(), self.lost)
    }
}

fn name_cost(series: &Series) -> usize {
    let labels = series.labels.iter().map(|(name, value)| name.len() + value.len() + 4);
    SERIES_BYTES + series.operation.as_str().len() + labels.sum::<usize>()
}
