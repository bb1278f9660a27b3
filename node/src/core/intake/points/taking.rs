//! What of one point is new goes to its series.
//!
//! The number of samples is exact. Where in its producer's bucket a sample lies is not known and
//! not made up: see [`Histogram::record_within`]. Smallest and largest narrow that; of a cumulative
//! stream they hold since its start, which is true of what is new as well.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::time::{Now, Wall};

use super::PointFigures;
use super::kept::{Changed, Difference, Kept};
use super::streams::{First, Last, Memory};
use super::told::Counted;
use crate::core::intake::interval::{Admitted, Interval, Place};
use crate::core::intake::point::{Latencies, Point, Temporality, Value};
use crate::core::intake::reject::Reject;
use crate::core::intake::slot::MetricType;

/// One point on its way into the interval.
pub(super) struct Taking<'a, 'p> {
    pub(super) now: Now,
    pub(super) point: &'a Point<'p>,
    pub(super) interval: &'a mut Interval,
    pub(super) figures: &'a mut PointFigures,
}

impl Taking<'_, '_> {
    /// Adds what is new to what is remembered of its stream; `first` if nothing is.
    pub(super) fn take(
        &mut self,
        memory: &mut Memory,
        first: Option<First>,
        difference: &mut Difference,
    ) -> Result<Admitted, Reject> {
        let is_delta = self.point.temporality == Temporality::Delta;
        match self.point.value {
            Value::Gauge(value) => self.set(memory, value),
            Value::Sum { value, monotonic: false } if is_delta => self.on_change(memory, value),
            Value::Sum { value, monotonic: false } => self.set(memory, value),
            Value::Sum { value, monotonic: true } => self.on_sum(memory, first, value),
            Value::Latencies(told) if is_delta => {
                let counted = Counted::read(&told)?;
                self.record(&mut memory.place, &told, counted, told.sum)
            }
            Value::Latencies(told) => self.on_latencies(memory, first, &told, difference),
        }
    }

    fn set(&mut self, memory: &mut Memory, value: f64) -> Result<Admitted, Reject> {
        let value = finite(value)?;
        let place = self.place(&mut memory.place, MetricType::Gauge)?;
        Ok(self.interval.set(self.now.wall, place, value))
    }

    /// A sum that may also fall, told by its changes.
    fn on_change(&mut self, memory: &mut Memory, change: f64) -> Result<Admitted, Reject> {
        let before = if let Last::Number(before) = memory.last { before } else { 0.0 };
        let value = (before + finite(change)?).clamp(f64::MIN, f64::MAX);
        let admitted = self.set(memory, value)?;
        memory.last = Last::Number(value);
        Ok(admitted)
    }

    /// A sum that only grows.
    fn on_sum(
        &mut self,
        memory: &mut Memory,
        first: Option<First>,
        value: f64,
    ) -> Result<Admitted, Reject> {
        if finite(value)? < 0.0 {
            return Err(Reject::Negative);
        }
        if self.point.temporality == Temporality::Delta {
            return self.add(&mut memory.place, value);
        }
        let last = match (first, &memory.last) {
            (Some(First::New | First::Restart), _) => Some(0.0),
            (None, Last::Number(last)) => Some(*last),
            (Some(First::Baseline | First::Doubtful) | None, _) => None,
        };
        let is_down = last.is_some_and(|last| value < last);
        let new = last.map_or(0.0, |last| if is_down { value } else { value - last });
        let admitted = self.add(&mut memory.place, new)?;
        memory.last = Last::Number(if first == Some(First::Doubtful) { 0.0 } else { value });
        self.figures.baselines += u64::from(last.is_none());
        self.figures.restarts += u64::from(is_down || first == Some(First::Restart));
        Ok(admitted)
    }

    fn add(&mut self, place: &mut Option<Place>, amount: f64) -> Result<Admitted, Reject> {
        if amount == 0.0 {
            return Ok(Admitted::default());
        }
        let place = self.place(place, MetricType::Counter)?;
        Ok(self.interval.add(place, amount))
    }

    /// A distribution since the start of its producer.
    fn on_latencies(
        &mut self,
        memory: &mut Memory,
        first: Option<First>,
        told: &Latencies<'_>,
        difference: &mut Difference,
    ) -> Result<Admitted, Reject> {
        let counted = Counted::read(told)?;
        let Memory { place, last } = memory;
        let (mut kept, first) = match std::mem::take(last) {
            Last::Buckets(kept) => (kept, first),
            Last::Nothing | Last::Number(_) => {
                (Kept::nothing(&counted), first.or(Some(First::Baseline)))
            }
        };
        let taken = match first {
            None => self.on_next(place, &kept, told, &counted, difference),
            Some(First::New) => self.record(place, told, counted, told.sum),
            Some(First::Restart) => self.restarted(place, told, counted),
            Some(First::Baseline | First::Doubtful) => Ok(self.baseline()),
        };
        if taken.is_ok() && first != Some(First::Doubtful) {
            kept.keep(&counted, told.sum);
        }
        *last = Last::Buckets(kept);
        taken
    }

    /// One that goes on from what was kept.
    fn on_next(
        &mut self,
        place: &mut Option<Place>,
        kept: &Kept,
        told: &Latencies<'_>,
        counted: &Counted<'_>,
        difference: &mut Difference,
    ) -> Result<Admitted, Reject> {
        match difference.take(counted, kept) {
            Ok(()) => {
                let sum = told.sum.zip(kept.sum).map(|(now, before)| now - before);
                self.record(place, told, difference.counted(), sum.filter(|sum| *sum >= 0.0))
            }
            Err(Changed::Layout) => Ok(self.baseline()),
            Err(Changed::Down) if self.point.start == Wall::default() => {
                self.restarted(place, told, *counted)
            }
            Err(Changed::Down) => Err(Reject::Counts),
        }
    }

    fn baseline(&mut self) -> Admitted {
        self.figures.baselines += 1;
        Admitted::default()
    }

    fn restarted(
        &mut self,
        place: &mut Option<Place>,
        told: &Latencies<'_>,
        counted: Counted<'_>,
    ) -> Result<Admitted, Reject> {
        let admitted = self.record(place, told, counted, told.sum)?;
        self.figures.restarts += 1;
        Ok(admitted)
    }

    /// Records samples that are new.
    fn record(
        &mut self,
        place: &mut Option<Place>,
        told: &Latencies<'_>,
        counted: Counted<'_>,
        sum: Option<f64>,
    ) -> Result<Admitted, Reject> {
        let (samples, mut clamped) = (counted.samples(), 0);
        if samples == 0 {
            return Ok(Admitted::default());
        }
        let place = self.place(place, MetricType::Latency)?;
        let admitted = self.interval.put_latencies(place, samples, |limits_ns| {
            let mut histogram = Histogram::default();
            histogram.watch(limits_ns);
            clamped = counted.fill(told, sum, &mut histogram);
            histogram
        })?;
        Ok(Admitted { clamped, ..admitted })
    }

    /// Where the series is counted; what the series cap folds is asked again each time.
    fn place(
        &mut self,
        known: &mut Option<Place>,
        metric_type: MetricType,
    ) -> Result<Place, Reject> {
        if let Some(place) = known.filter(|place| place.metric_type == metric_type) {
            return Ok(place);
        }
        let place = self.interval.place(metric_type, (self.point.series)()?)?;
        *known = Some(place).filter(|place| !place.folded);
        Ok(place)
    }
}

fn finite(value: f64) -> Result<f64, Reject> {
    if value.is_finite() { Ok(value) } else { Err(Reject::Number) }
}
