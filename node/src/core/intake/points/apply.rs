//! Records what of one point is new in its series.
//!
//! The number of samples is exact. The position of a sample within the bucket of its producer is
//! unknown and is kept as such: see [`Histogram::record_within`]. The smallest and the largest
//! value narrow it; those of a cumulative stream hold since its start, so for what is new as well.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::time::{Now, Wall};

use super::buckets::BucketCounts;
use super::known_edges::KnownEdges;
use super::point::{Latencies, Point, Temporality, Value};
use super::previous::{BucketDifference, BucketMismatch, PreviousBuckets};
use super::stats::PointStats;
use super::streams::{FirstPoint, LastValue, StreamState};
use crate::core::intake::reject::Reject;
use crate::core::intake::series::{Interval, RecordCounts, SeriesType, SlotRef};

pub(super) struct PointRecorder<'a, 'p> {
    pub(super) now: Now,
    pub(super) point: &'a Point<'p>,
    pub(super) interval: &'a mut Interval,
    pub(super) edges: &'a mut KnownEdges,
    pub(super) stats: &'a mut PointStats,
}

impl PointRecorder<'_, '_> {
    /// Records what is new and updates the state of the stream; `first` if the stream is unknown.
    pub(super) fn record(
        &mut self,
        state: &mut StreamState,
        first: Option<FirstPoint>,
        difference: &mut BucketDifference,
    ) -> Result<RecordCounts, Reject> {
        let is_delta = self.point.temporality == Temporality::Delta;
        match self.point.value {
            Value::Gauge(value) => self.set(state, value),
            Value::Sum { value, monotonic: false } if is_delta => self.on_change(state, value),
            Value::Sum { value, monotonic: false } => self.set(state, value),
            Value::Sum { value, monotonic: true } => self.on_sum(state, first, value),
            Value::Latencies(latencies) if is_delta => {
                let counts = BucketCounts::validated(&latencies)?;
                self.record_latencies(&mut state.slot, &latencies, counts, latencies.sum)
            }
            Value::Latencies(latencies) => self.on_latencies(state, first, &latencies, difference),
        }
    }

    fn set(&mut self, state: &mut StreamState, value: f64) -> Result<RecordCounts, Reject> {
        let value = finite(value)?;
        let slot = self.slot(&mut state.slot, SeriesType::Gauge)?;
        Ok(self.interval.set(self.now.wall, slot, value))
    }

    /// A sum that may also decrease, reported by its changes.
    fn on_change(&mut self, state: &mut StreamState, change: f64) -> Result<RecordCounts, Reject> {
        let before = if let LastValue::Number(before) = state.last { before } else { 0.0 };
        let value = (before + finite(change)?).clamp(f64::MIN, f64::MAX);
        let recorded = self.set(state, value)?;

        // Only once it is recorded: what was rejected is still new with the next point.
        state.last = LastValue::Number(value);
        Ok(recorded)
    }

    /// A sum that only grows.
    fn on_sum(
        &mut self,
        state: &mut StreamState,
        first: Option<FirstPoint>,
        value: f64,
    ) -> Result<RecordCounts, Reject> {
        if finite(value)? < 0.0 {
            return Err(Reject::Negative);
        }
        if self.point.temporality == Temporality::Delta {
            return self.add(&mut state.slot, value);
        }

        let last = match (first, &state.last) {
            (Some(FirstPoint::New | FirstPoint::Restart), _) => Some(0.0),
            (None, LastValue::Number(last)) => Some(*last),
            (Some(FirstPoint::Baseline | FirstPoint::Ambiguous) | None, _) => None,
        };

        let is_down = last.is_some_and(|last| value < last);
        let new = last.map_or(0.0, |last| if is_down { value } else { value - last });
        let recorded = self.add(&mut state.slot, new)?;
        state.last =
            LastValue::Number(if first == Some(FirstPoint::Ambiguous) { 0.0 } else { value });
        self.stats.baselines += u64::from(last.is_none());
        self.stats.restarts += u64::from(is_down || first == Some(FirstPoint::Restart));
        Ok(recorded)
    }

    fn add(&mut self, slot: &mut Option<SlotRef>, amount: f64) -> Result<RecordCounts, Reject> {
        // A counter at rest takes no slot.
        if amount == 0.0 {
            return Ok(RecordCounts::default());
        }
        let slot = self.slot(slot, SeriesType::Counter)?;
        Ok(self.interval.add(slot, amount))
    }

    /// A distribution since the start of its producer.
    fn on_latencies(
        &mut self,
        state: &mut StreamState,
        first: Option<FirstPoint>,
        latencies: &Latencies<'_>,
        difference: &mut BucketDifference,
    ) -> Result<RecordCounts, Reject> {
        let counts = BucketCounts::validated(latencies)?;
        let StreamState { slot, last } = state;

        let (mut previous, first) = match std::mem::take(last) {
            LastValue::Buckets(previous) => (previous, first),
            LastValue::Nothing | LastValue::Number(_) => {
                (PreviousBuckets::nothing(&counts), first.or(Some(FirstPoint::Baseline)))
            }
        };

        let taken = match first {
            None => self.on_next(slot, &previous, latencies, &counts, difference),
            Some(FirstPoint::New) => self.record_latencies(slot, latencies, counts, latencies.sum),
            Some(FirstPoint::Restart) => self.restarted(slot, latencies, counts),
            Some(FirstPoint::Baseline | FirstPoint::Ambiguous) => Ok(self.baseline()),
        };

        // After an ambiguous start nothing is kept, so that all is new if it repeats its start.
        if taken.is_ok() && first != Some(FirstPoint::Ambiguous) {
            previous.replace(&counts, latencies.sum);
        }
        *last = LastValue::Buckets(previous);
        taken
    }

    /// One that follows a recorded point.
    fn on_next(
        &mut self,
        slot: &mut Option<SlotRef>,
        previous: &PreviousBuckets,
        latencies: &Latencies<'_>,
        counts: &BucketCounts<'_>,
        difference: &mut BucketDifference,
    ) -> Result<RecordCounts, Reject> {
        match difference.subtract(counts, previous) {
            Ok(()) => {
                let sum = latencies.sum.zip(previous.sum).map(|(now, before)| now - before);
                self.record_latencies(
                    slot,
                    latencies,
                    difference.counts(),
                    sum.filter(|sum| *sum >= 0.0),
                )
            }
            Err(BucketMismatch::Layout) => Ok(self.baseline()),
            Err(BucketMismatch::Decreased) if self.point.start == Wall::default() => {
                self.restarted(slot, latencies, *counts)
            }
            Err(BucketMismatch::Decreased) => Err(Reject::Counts),
        }
    }

    fn baseline(&mut self) -> RecordCounts {
        self.stats.baselines += 1;
        RecordCounts::default()
    }

    fn restarted(
        &mut self,
        slot: &mut Option<SlotRef>,
        latencies: &Latencies<'_>,
        counts: BucketCounts<'_>,
    ) -> Result<RecordCounts, Reject> {
        let recorded = self.record_latencies(slot, latencies, counts, latencies.sum)?;
        self.stats.restarts += 1;
        Ok(recorded)
    }

    fn record_latencies(
        &mut self,
        slot: &mut Option<SlotRef>,
        latencies: &Latencies<'_>,
        counts: BucketCounts<'_>,
        sum: Option<f64>,
    ) -> Result<RecordCounts, Reject> {
        let (samples, mut clamped) = (counts.samples(), 0);
        if samples == 0 {
            return Ok(RecordCounts::default());
        }
        let slot = self.slot(slot, SeriesType::Latency)?;
        let recorded = self.interval.merge_latencies(slot, samples, |limits_ns| {
            let mut histogram = Histogram::default();
            // Before anything is recorded: only then is the share over a limit between two edges
            // exact.
            histogram.watch(limits_ns);
            clamped = counts.fill(latencies, sum, self.edges, &mut histogram);
            histogram
        })?;
        Ok(RecordCounts { clamped, ..recorded })
    }

    /// The slot of the series; a folded one is looked up again each time.
    fn slot(
        &mut self,
        known: &mut Option<SlotRef>,
        series_type: SeriesType,
    ) -> Result<SlotRef, Reject> {
        if let Some(slot) = known.filter(|slot| slot.series_type == series_type) {
            return Ok(slot);
        }
        let slot = self.interval.slot_ref(series_type, (self.point.series)()?)?;
        *known = Some(slot).filter(|slot| !slot.folded);
        Ok(slot)
    }
}

fn finite(value: f64) -> Result<f64, Reject> {
    if value.is_finite() { Ok(value) } else { Err(Reject::Number) }
}
