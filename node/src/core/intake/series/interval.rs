//! The open interval: one slot for each series that was active in it or in the one before.
//!
//! A series of the last interval keeps its slot even before it is active again; new ones compete
//! for the rest, so a flood of new names does not evict a series that is merely slow. Beyond the
//! series cap, latencies and counters are folded into the series `other` and stay counted; a gauge
//! cannot be folded and is rejected. So are samples beyond what a message may carry, because a
//! reader would reject the whole message. What the system itself records has no slot for jobs.
//!
//! DESIGN N72.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::histogram::layout::MAX_NS;
use plimsoll_schemas::ids::{Operation, Series};
use plimsoll_schemas::limits::wire::COUNT_MAX;
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::unit::Unit;
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::confirmation::LatencyLimit;

use super::labels::{LabelRules, LineLabelStats};
use super::limits::LatencyLimits;
use super::slot::{SeriesEntry, SeriesType, SlotKey, SlotValue};
use crate::core::intake::jobs::Source;
use crate::core::intake::lines::{LineValues, Values};
use crate::core::intake::reject::Reject;

pub use plimsoll_schemas::limits::api::OVERFLOW;

pub(crate) struct Interval {
    pub(crate) started: Now,
    series_max: usize,
    pub(crate) label_rules: LabelRules,
    limits: LatencyLimits,
    /// Where what is recorded comes from.
    source: Source,
    /// Samples that the incarnation may still record.
    samples_left: u64,
    by_series: BTreeMap<SlotKey, usize>,
    slots: Vec<SeriesEntry>,
    /// Slots that count towards the series cap.
    capped: usize,
}

/// What one line, point or series of a frame added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordCounts {
    pub(crate) values: u64,
    /// Latency samples that they represent.
    pub(crate) samples: u64,
    /// Samples above one hour, recorded as one hour.
    pub(crate) clamped: u64,
    /// True when the series cap folded it into [`OVERFLOW`].
    pub(crate) folded: bool,
    /// Statistics of its tags, if not all became labels unchanged.
    pub(crate) labels: Option<LineLabelStats>,
}

/// The slot of a series, valid until slots move at the end of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotRef {
    pub(crate) series_type: SeriesType,
    /// True when it is the slot of [`OVERFLOW`], or of that with a unit.
    pub(crate) folded: bool,
    slot: usize,
    labels: Option<LineLabelStats>,
}

impl SlotRef {
    /// The same slot after slots have moved, if it still exists.
    pub(crate) fn moved(self, slot: impl Fn(usize) -> Option<usize>) -> Option<Self> {
        slot(self.slot).map(|slot| Self { slot, ..self })
    }

    fn counts(self) -> RecordCounts {
        RecordCounts { folded: self.folded, labels: self.labels, ..RecordCounts::default() }
    }
}

impl Interval {
    pub(crate) fn new(started: Now, series_max: usize, label_rules: LabelRules) -> Self {
        Self {
            started,
            series_max,
            label_rules,
            limits: LatencyLimits::default(),
            source: None,
            samples_left: COUNT_MAX,
            by_series: BTreeMap::new(),
            slots: Vec::new(),
            capped: 0,
        }
    }

    /// What is recorded from now on comes from this source.
    pub(crate) fn set_source(&mut self, source: Source) {
        self.source = source;
    }

    /// Which sources brought latencies of which operations; not those that the node measured.
    pub(crate) fn brought(&self) -> impl Iterator<Item = (&Operation, Source)> {
        self.by_series.iter().flat_map(|((_, series), slot)| {
            self.slots[*slot].sources().map(|source| (&series.operation, source))
        })
    }

    /// Number of series that were active in it.
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_active).count()
    }

    /// Adds limits: samples over them are counted exactly from now on, and those recorded before
    /// are counted from their buckets.
    pub(crate) fn on_limits(&mut self, now: Mono, received: &[LatencyLimit]) {
        for operation in self.limits.update(now, received) {
            let limits = self.limits.of(&operation);
            let of_same =
                self.by_series.iter().filter(|((_, series), _)| series.operation == operation);
            of_same.for_each(|(_, slot)| self.slots[*slot].watch(&limits));
        }
    }

    pub(crate) fn limits(&self) -> Vec<LatencyLimit> {
        self.limits.all()
    }

    pub(crate) fn breached(&self, latency: &Latency) -> BTreeSet<Operation> {
        self.limits.breached(latency)
    }

    /// Reserves up to `samples` of those that the incarnation may still count.
    pub(crate) fn reserve(&mut self, samples: u64) -> u64 {
        let reserved = samples.min(self.samples_left);
        self.samples_left -= reserved;
        reserved
    }

    /// The index of the slot of a series whose labels follow the rules, or that of [`OVERFLOW`],
    /// and whether it is the latter.
    ///
    /// # Errors
    /// When it is a new gauge and the series cap is reached, or a latency that only the system
    /// itself may record.
    pub(crate) fn slot(
        &mut self,
        series_type: SeriesType,
        series: Series,
    ) -> Result<(usize, bool), Reject> {
        if series_type == SeriesType::Latency && is_own(&series.operation) {
            return Err(Reject::Reserved);
        }
        let key = (series_type, series);
        // One that is known keeps its slot: a flood of new names displaces none.
        if self.capped < self.series_max || self.by_series.contains_key(&key) {
            return Ok((self.slot_of(key, true), false));
        }
        if series_type == SeriesType::Gauge {
            return Err(Reject::SeriesCap);
        }
        let unit = match series_type {
            SeriesType::Latency => Unit::of(key.1.operation.as_str()),
            SeriesType::Counter | SeriesType::Gauge => Unit::default(),
        };
        Ok((self.slot_of((series_type, Series::plain(unit.overflow())), false), true))
    }

    /// Records all values of a line in a slot of their type, or none of them.
    pub(crate) fn record_line(
        &mut self,
        now: Wall,
        slot: usize,
        labels: Option<LineLabelStats>,
        LineValues { count, values }: LineValues<'_>,
    ) -> Result<RecordCounts, Reject> {
        let Self { slots, samples_left, source, .. } = self;
        let slot = &mut slots[slot];
        slot.is_active = true;
        let mut counts = RecordCounts { values: count, labels, ..RecordCounts::default() };

        match (&mut slot.value, values) {
            (SlotValue::Latency(latency), Values::Latencies { latencies_ns, weight }) => {
                // Before the first value is recorded, so that a line counts as a whole or not at
                // all.
                if !latency.has_room(weight, latencies_ns.len(), *samples_left) {
                    return Err(Reject::SamplesCap);
                }
                latency.sources.add(*source);

                for latency_ns in latencies_ns {
                    let samples = latency.record(*latency_ns, weight);
                    counts.samples += samples;
                    counts.clamped += if *latency_ns > MAX_NS { samples } else { 0 };
                }

                *samples_left = samples_left.saturating_sub(counts.samples);
            }
            (SlotValue::Counter(counter), Values::Amount(amount)) => counter.add(amount),
            (SlotValue::Gauge(gauge), Values::Level { value, at }) => gauge.set(value, at, now),
            // A slot is found by name and type, so its values have that type.
            (SlotValue::Latency(_) | SlotValue::Counter(_) | SlotValue::Gauge(_), _) => {}
        }

        Ok(counts)
    }

    /// Records a latency that the node measured itself, which the series cap does not reject.
    /// Returns whether there was room for it among the samples.
    pub(crate) fn record_own(&mut self, operation: &Operation, ns: u64) -> bool {
        let key = (SeriesType::Latency, Series::plain(operation.clone()));
        let slot = self.slot_of(key, false);
        self.record_in(slot, ns)
    }

    pub(crate) fn record_one(&mut self, series: Series, ns: u64) -> Result<RecordCounts, Reject> {
        let slot = self.slot_ref(SeriesType::Latency, series)?;
        if !self.record_in(slot.slot, ns) {
            return Err(Reject::SamplesCap);
        }
        if let SlotValue::Latency(latency) = &mut self.slots[slot.slot].value {
            latency.sources.add(self.source);
        }
        Ok(RecordCounts { samples: 1, clamped: (ns > MAX_NS).into(), ..slot.counts() })
    }

    /// Records one latency; returns whether there was room for it.
    fn record_in(&mut self, slot: usize, ns: u64) -> bool {
        let (slot, samples_left) = (&mut self.slots[slot], &mut self.samples_left);
        slot.is_active = true;
        let SlotValue::Latency(latency) = &mut slot.value else { return false };
        let has_room = latency.has_room(1.0, 1, *samples_left);
        if has_room {
            latency.record(ns, 1.0);
            *samples_left -= 1;
        }
        has_room
    }

    /// Merges one distribution of a frame as a whole.
    pub(crate) fn merge(
        &mut self,
        series: Series,
        other: Histogram,
    ) -> Result<RecordCounts, Reject> {
        let slot = self.slot_ref(SeriesType::Latency, series)?;
        self.merge_latencies(slot, other.count(), |_| other)
    }

    /// Merges `samples` samples as a whole. `make` gets the limits over which they are counted.
    pub(crate) fn merge_latencies(
        &mut self,
        slot: SlotRef,
        samples: u64,
        make: impl FnOnce(&[u64]) -> Histogram,
    ) -> Result<RecordCounts, Reject> {
        let (samples_left, source) = (self.samples_left, self.source);
        if let SlotValue::Latency(latency) = &mut self.activate(slot).value {
            latency.merge(samples, samples_left, make)?;
            latency.sources.add(source);
        }
        self.samples_left -= samples;
        Ok(RecordCounts { samples, ..slot.counts() })
    }

    pub(crate) fn add(&mut self, slot: SlotRef, amount: f64) -> RecordCounts {
        if let SlotValue::Counter(counter) = &mut self.activate(slot).value {
            counter.add(amount);
        }
        slot.counts()
    }

    pub(crate) fn set(&mut self, now: Wall, slot: SlotRef, value: f64) -> RecordCounts {
        if let SlotValue::Gauge(gauge) = &mut self.activate(slot).value {
            gauge.set(value, None, now);
        }
        slot.counts()
    }

    fn activate(&mut self, slot: SlotRef) -> &mut SeriesEntry {
        let slot = &mut self.slots[slot.slot];
        slot.is_active = true;
        slot
    }

    /// The slot of a series whose labels are filtered by the rules first.
    pub(crate) fn slot_ref(
        &mut self,
        series_type: SeriesType,
        series: Series,
    ) -> Result<SlotRef, Reject> {
        let (kept, labels) = self.label_rules.filter(series.labels);
        let series = Series { operation: series.operation, labels: kept };
        let (slot, folded) = self.slot(series_type, series)?;
        Ok(SlotRef { series_type, slot, folded, labels })
    }

    fn slot_of(&mut self, key: SlotKey, is_capped: bool) -> usize {
        if let Some(slot) = self.by_series.get(&key) {
            return *slot;
        }
        self.capped += usize::from(is_capped);

        // It watches before its first sample, whose share over a limit is then exact (S3).
        let mut slot = SeriesEntry::new(key.0, is_capped);
        slot.watch(&self.limits.of(&key.1.operation));
        self.slots.push(slot);
        self.by_series.insert(key, self.slots.len() - 1);
        self.slots.len() - 1
    }

    /// Ends the interval and starts the next. Returns what was recorded in order of series, and
    /// the new index of each slot.
    pub(crate) fn close(&mut self, now: Now) -> (Latency, Vec<Option<usize>>) {
        self.started = now;
        let mut latency = Latency::default();
        for ((_, series), slot) in &self.by_series {
            self.slots[*slot].take(series, &mut latency);
        }
        (latency, self.remove_inactive())
    }

    /// Removes the slots of series that were not active in the interval that has ended.
    fn remove_inactive(&mut self) -> Vec<Option<usize>> {
        let mut kept = 0;
        let moved: Vec<Option<usize>> = self
            .slots
            .iter()
            .map(|slot| {
                kept += usize::from(slot.is_active);
                slot.is_active.then(|| kept - 1)
            })
            .collect();

        self.by_series.retain(|_, slot| {
            let now = moved[*slot];
            *slot = now.unwrap_or_default();
            now.is_some()
        });

        self.slots.retain_mut(|slot| std::mem::take(&mut slot.is_active));
        if self.slots.is_empty() {
            self.slots = Vec::new();
        }
        self.capped = self.slots.iter().filter(|slot| slot.is_capped).count();
        moved
    }
}

#[cfg(test)]
impl Interval {
    pub(crate) fn set_samples_left(&mut self, samples: u64) {
        self.samples_left = samples;
    }

    /// Memory that the slots take.
    pub(crate) fn slots_held(&self) -> (usize, usize) {
        (self.slots.capacity(), self.by_series.len())
    }
}
