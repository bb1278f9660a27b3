//! What one point of another system adds to the open interval. A point is a figure that somebody
//! else has merged; how it was written is the business of its reader.
//!
//! - Delta: all of it is new. One of a time that was taken, in part or whole, is refused.
//! - Cumulative: the difference to the last point of the stream is new. The first one is new as a
//!   whole when its producer began after this node did, else it adds nothing: it may hold what a
//!   former run of the node has sent. A start later than what was taken is a restart.
//! - A count that went down is a restart where no start is told, as in Prometheus. Where one is, the
//!   producer contradicts itself, or is two that call themselves the same: distributions are
//!   refused, since nobody knows what of them is new; a sum is taken from zero.
//! - Other bounds than before, from the same start: nothing is added, the next is compared.
//!
//! The number of samples is exact. Where in its producer's bucket a sample lies is not known and
//! not made up: see [`Histogram::record_within`]. Smallest and largest narrow that; of a cumulative
//! stream they hold since its start, which is true of what is new as well.

mod edges;
mod kept;
mod streams;
mod told;

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::time::{Now, Wall};

use super::interval::{Admitted, Interval, Place};
use super::point::{Latencies, Point, Temporality, Value};
use super::reject::Reject;
use super::slot::MetricType;
use kept::{Changed, Difference, Kept};
use streams::{First, Last, Memory, Streams};
use told::Counted;

/// What came of points so far; refusals are among all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointFigures {
    /// Points taken, those that added nothing included.
    pub taken: u64,
    /// Of those, points that only say from where to count on.
    pub baselines: u64,
    /// Of those, points of a process that began anew.
    pub restarts: u64,
    /// Streams known at this moment.
    pub streams: usize,
    /// Streams that gave way to others.
    pub forgotten: u64,
}

/// What is known of all who tell points.
pub(super) struct Points {
    streams: Streams,
    difference: Difference,
    figures: PointFigures,
}

impl Points {
    /// Nobody yet. `seed` is a number that a sender does not choose.
    pub(super) fn new(now: Now, seed: u64) -> Self {
        Self {
            streams: Streams::new(now, seed),
            difference: Difference::default(),
            figures: PointFigures::default(),
        }
    }

    /// Takes a point, all of it or nothing.
    ///
    /// # Errors
    /// Says why nothing of it was taken.
    pub(super) fn take(
        &mut self,
        now: Now,
        point: &Point<'_>,
        interval: &mut Interval,
    ) -> Result<Admitted, Reject> {
        let Self { streams, difference, figures } = self;
        let start = if is_since_start(point) { point.start } else { Wall::default() };
        check_time(point)?;
        let mut taking = Taking { now, point, interval, figures };
        let admitted = if let Some(stream) = streams.get(point.stream, start) {
            check_order(point, stream.time)?;
            let before = stream.memory.bytes();
            let admitted = taking.take(&mut stream.memory, None, difference)?;
            stream.time = point.time;
            let bytes = stream.memory.bytes();
            streams.on_kept(now, bytes, before);
            admitted
        } else {
            let first = if is_since_start(point) { streams.first(now, point) } else { First::New };
            let mut memory = Memory::default();
            let admitted = taking.take(&mut memory, Some(first), difference)?;
            streams.insert(now, start, point, memory);
            admitted
        };
        self.figures.taken += 1;
        Ok(admitted)
    }

    /// Hears where the slots of all series are now.
    pub(super) fn renew(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        self.streams.renew(moved);
    }

    /// What came so far.
    pub(super) fn figures(&self) -> PointFigures {
        let (streams, forgotten) = (self.streams.len(), self.streams.forgotten());
        PointFigures { streams, forgotten, ..self.figures.clone() }
    }
}

/// Whether it matters since when it counts.
fn is_since_start(point: &Point<'_>) -> bool {
    let grows = match point.value {
        Value::Latencies(_) => true,
        Value::Sum { monotonic, .. } => monotonic,
        Value::Gauge(_) => false,
    };
    grows && point.temporality == Temporality::Cumulative
}

fn check_time(point: &Point<'_>) -> Result<(), Reject> {
    let is_gauge = matches!(point.value, Value::Gauge(_));
    let holds = point.time != Wall::default() && (is_gauge || point.start <= point.time);
    if holds { Ok(()) } else { Err(Reject::Timestamp) }
}

/// Whether a point goes on from what was taken up to `last`.
fn check_order(point: &Point<'_>, last: Wall) -> Result<(), Reject> {
    let is_delta = match point.value {
        Value::Gauge(_) => false,
        Value::Latencies(_) | Value::Sum { .. } => point.temporality == Temporality::Delta,
    };
    if point.time < last {
        return Err(Reject::OutOfOrder);
    }
    let is_told = point.start != Wall::default();
    match point.time == last || is_delta && is_told && point.start < last {
        true => Err(Reject::Duplicate),
        false => Ok(()),
    }
}

/// One point on its way into the interval.
struct Taking<'a, 'p> {
    now: Now,
    point: &'a Point<'p>,
    interval: &'a mut Interval,
    figures: &'a mut PointFigures,
}

impl Taking<'_, '_> {
    /// Adds what is new to what is remembered of its stream; `first` if nothing is.
    fn take(
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

#[cfg(test)]
mod tests;
