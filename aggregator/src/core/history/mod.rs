//! History: the fleet's and the roll-ups' samples and metrics of the past, in tiers of 10 s, 1 min,
//! 10 min and 1 h, each of which holds every sample of the time that it keeps.
//!
//! Owns what was merged and is not stored yet, and which batch of it the store holds. It writes no
//! file: a checkpoint takes a [`HistoryBatch`], and `io::history` adds that to the store. Nothing
//! is judged by the past, and no page but the query API shows it.
//!
//! Interface: [`History::on_merged`] and [`History::on_tick`] take what happens;
//! [`History::take`], [`History::on_stored`] and [`History::on_lost`] are the store's side;
//! [`History::unstored`] is what a query adds to what it reads from the store.
//!
//! DESIGN A75.

mod answer;
mod batch;
mod exact_sum;
mod metric;
mod pending;
mod pending_metrics;
mod plan;
mod query;
mod resolution;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Now, Wall};

pub use answer::{Accumulator, Received};
pub use batch::{BatchId, Coverage, HistoryBatch, SlotSamples, Unstored, by_slot};
pub use exact_sum::ExactSum;
pub use metric::{HistoryKey, MetricKey, MetricTotals};
pub use pending::Known;
pub use plan::{KeptFrom, Span, resolution_at, spans, widened};
pub use query::{AskedNodes, HistoryQuery, Layout, NoHistory};
pub use resolution::{Bound, Bounds, Resolution, default_bounds};

use self::pending::Pending;
use super::fleet::MergedSnapshot;
use super::ingest::Position;
use crate::limits::{HISTORY_PENDING_SLOTS_MAX, HISTORY_PENDING_VALUES_MAX, TICK_LONGEST};

/// What a store held when it was opened.
#[derive(Clone, Debug, Default)]
pub struct StoredHistory {
    /// Its latest batch, or the one before its first.
    pub batch: BatchId,
    /// Whether it holds none: it states no batch of its own then.
    pub is_empty: bool,
    /// How far lanes had been read, if the state is gone that knows it: what the streams hold up to
    /// there is in the history already.
    pub read: BTreeMap<Lane, Position>,
    /// This many series it has slots of.
    pub series: usize,
}

/// What was merged and is not known to be stored.
#[derive(Debug, Default)]
pub struct History {
    /// False without a store.
    is_kept: bool,
    stored: BatchId,
    /// True until the store holds a batch.
    is_empty: bool,
    pending: Pending,
    /// Given to the store, which has not answered or has failed.
    taken: Option<Arc<HistoryBatch>>,
    read: BTreeMap<Lane, Position>,
    series: usize,
    ticked_at: Option<Now>,
}

impl History {
    pub fn kept(stored: StoredHistory) -> Self {
        let StoredHistory { batch, is_empty, read, series } = stored;
        Self { is_kept: true, stored: batch, is_empty, read, series, ..Self::default() }
    }

    /// No history is kept now; one that was kept before had reached this generation, and has it
    /// still when it is kept again.
    pub fn paused(generation: u64) -> Self {
        Self { stored: BatchId { generation, attempt: 0 }, ..Self::default() }
    }

    /// Whether a message of a lane's stream, of which `position` is about, is new to the history.
    pub fn is_new(&self, lane: Lane, seq: u64, position: impl FnOnce() -> Position) -> bool {
        let read = self.read.get(&lane);
        read.is_none_or(|read| {
            let is_numbered = read.stream_id.is_some();
            !is_numbered || seq > read.read || position().stream_id != read.stream_id
        })
    }

    /// A lane's stream was created anew: its numbers begin again.
    pub fn on_reset(&mut self, lane: Lane) {
        self.read.remove(&lane);
    }

    pub fn on_merged(&mut self, merged: &MergedSnapshot, known: Known<'_>) {
        if self.is_kept {
            self.pending.add(merged, known);
        }
    }

    /// Once a second: this many nodes are present.
    pub fn on_tick(&mut self, now: Now, present: usize) {
        let before = self.ticked_at.replace(now);
        let Some(before) = before.filter(|_| self.is_kept && present > 0) else { return };
        let span = now.mono.since(before.mono);
        // A process that was stopped received nothing, and nodes are not to blame for that.
        if span <= TICK_LONGEST {
            self.pending.expect(now.wall, span, present);
        }
    }

    /// The samples that no pending slot had room for; `None` when no history is kept.
    pub fn dropped(&self) -> Option<u64> {
        self.is_kept.then_some(self.pending.room.dropped)
    }

    /// The values of metrics that no pending slot had room for; `None` when no history is kept.
    pub fn dropped_values(&self) -> Option<u64> {
        self.is_kept.then(|| self.pending.metrics.dropped())
    }

    /// This many series the store has slots of.
    pub fn on_series(&mut self, series: usize) {
        self.series = series;
    }

    /// Series of which the store has slots; `None` when no history is kept.
    pub fn series(&self) -> Option<usize> {
        self.is_kept.then_some(self.series)
    }

    /// Whether anything waits to be stored.
    pub fn has_changed(&self) -> bool {
        !self.pending.is_empty() || self.taken.is_some()
    }

    /// Whether a checkpoint should not wait for its time: half of the room is taken.
    pub fn is_crowded(&self) -> bool {
        self.taken.is_none() && self.pending.is_crowded()
    }

    /// What the next checkpoint stores; `None` when nothing waits. A batch that failed is in it;
    /// one that leaves no room for more is tried again alone.
    pub fn take(
        &mut self,
        at: Wall,
        positions: BTreeMap<Lane, Position>,
    ) -> Option<Arc<HistoryBatch>> {
        if !self.is_kept || !self.has_changed() {
            return None;
        }
        let generation = self.stored.generation + 1;

        let batch = match self.taken.take().map(Arc::unwrap_or_clone) {
            None => {
                let id = BatchId { generation, attempt: 0 };
                HistoryBatch { id, at, positions, samples: self.pending.take() }
            }
            Some(failed) => {
                let id = BatchId { generation, attempt: failed.id.attempt + 1 };
                let slots = failed.samples.slots() + self.pending.room.used;

                let values = failed.samples.values() + self.pending.metrics.used();
                if slots > HISTORY_PENDING_SLOTS_MAX || values > HISTORY_PENDING_VALUES_MAX {
                    // With the positions of the failed one: what was read since is not in it.
                    HistoryBatch { id, at, ..failed }
                } else {
                    let mut samples = failed.samples;
                    samples.add(self.pending.take());
                    HistoryBatch { id, at, positions, samples }
                }
            }
        };

        self.taken = Some(Arc::new(batch));
        self.taken.clone()
    }

    pub fn on_stored(&mut self) {
        if let Some(taken) = self.taken.take() {
            (self.stored, self.is_empty) = (taken.id, false);
        }
    }

    /// The generation that the store holds once everything taken is stored.
    pub fn generation(&self) -> u64 {
        self.taken.as_ref().map_or(self.stored, |taken| taken.id).generation
    }

    /// What is to be added of these keys to what a store holds whose latest batch is `held`; `None`
    /// if that is neither of the two that this history knows of, so that the store is to be read
    /// again.
    pub fn unstored(&self, keys: &[HistoryKey], held: BatchId) -> Option<Unstored> {
        let mut samples = self.pending.of(keys);
        // A store that was created beside an older state reads as one before all batches.
        let stored = if self.is_empty { BatchId::default() } else { self.stored };
        match &self.taken {
            // Stored already, though the store has not answered yet: its samples would count twice.
            Some(taken) if taken.id == held => {}
            Some(taken) if stored == held => {
                samples.add(only(&taken.samples, keys));
            }
            None if stored == held => {}
            _ => return None,
        }
        Some(Unstored { samples })
    }

    /// Keys with values that are not stored yet.
    pub fn keys(&self) -> Vec<HistoryKey> {
        let taken = self.taken.iter().flat_map(|taken| taken.samples.keys());
        let mut keys: Vec<HistoryKey> = self.pending.keys().chain(taken).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// What these keys have, and all coverage.
fn only(samples: &SlotSamples, keys: &[HistoryKey]) -> SlotSamples {
    let mut of_keys = SlotSamples { coverage: samples.coverage.clone(), ..SlotSamples::default() };
    for key in keys {
        match key {
            HistoryKey::Samples(pool) => of_keys.pools.extend(entry(&samples.pools, pool)),
            HistoryKey::Metric(metric) => of_keys.metrics.extend(entry(&samples.metrics, metric)),
        }
    }
    of_keys
}

fn entry<K: Clone + Ord, V: Clone>(map: &BTreeMap<K, V>, key: &K) -> Option<(K, V)> {
    map.get(key).map(|value| (key.clone(), value.clone()))
}
