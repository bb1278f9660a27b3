//! A slot: what one series collects in an interval.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::Series;
use plimsoll_schemas::limits::wire::SAMPLES_MAX;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::Latency;

use super::sources::Sources;
use crate::core::intake::jobs::Source;
use crate::core::intake::lines::MetricType;
use crate::core::intake::reject::Reject;

/// What the values of a series are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SeriesType {
    Latency,
    Counter,
    Gauge,
}

impl SeriesType {
    pub(crate) fn of(metric_type: MetricType) -> Self {
        match metric_type {
            MetricType::Timing
            | MetricType::Histogram
            | MetricType::Distribution
            | MetricType::Picoseconds
            | MetricType::Bytes
            | MetricType::Count => Self::Latency,
            MetricType::Counter => Self::Counter,
            MetricType::Gauge => Self::Gauge,
        }
    }
}

pub(crate) type SlotKey = (SeriesType, Series);

pub(crate) struct SeriesEntry {
    pub(crate) value: SlotValue,
    /// False for series that the series cap does not bound: `other` and the node's own latencies.
    pub(crate) is_capped: bool,
    /// True once something was recorded in this interval.
    pub(crate) is_active: bool,
}

pub(crate) enum SlotValue {
    Latency(LatencySlot),
    Counter(CounterSlot),
    Gauge(GaugeSlot),
}

#[derive(Default)]
pub(crate) struct LatencySlot {
    histogram: Histogram,
    /// The fraction of a sample that 1 / rate left over, so that all rates are right on average.
    remainder: f64,
    /// Who brought its samples in this interval.
    pub(crate) sources: Sources,
}

#[derive(Default)]
pub(crate) struct CounterSlot(f64);

#[derive(Default)]
pub(crate) struct GaugeSlot {
    value: f64,
    /// Its time in seconds since 1970.
    at: u64,
}

impl SeriesEntry {
    pub(crate) fn new(series_type: SeriesType, is_capped: bool) -> Self {
        let value = match series_type {
            SeriesType::Latency => SlotValue::Latency(LatencySlot::default()),
            SeriesType::Counter => SlotValue::Counter(CounterSlot::default()),
            SeriesType::Gauge => SlotValue::Gauge(GaugeSlot::default()),
        };
        Self { value, is_capped, is_active: false }
    }

    /// Counts samples over these limits exactly from now on.
    pub(crate) fn watch(&mut self, limits_ns: &[u64]) {
        if let SlotValue::Latency(slot) = &mut self.value {
            slot.histogram.watch(limits_ns);
        }
    }

    /// Who brought its latencies in this interval.
    pub(crate) fn sources(&self) -> impl Iterator<Item = Source> {
        let latency = match &self.value {
            SlotValue::Latency(slot) if self.is_active => Some(&slot.sources),
            _ => None,
        };
        latency.into_iter().flat_map(Sources::iter)
    }

    /// Moves what was collected into `latency` and empties the slot.
    pub(crate) fn take(&mut self, series: &Series, latency: &mut Latency) {
        if !self.is_active {
            return;
        }
        if let SlotValue::Latency(slot) = &mut self.value {
            slot.sources = Sources::default();
        }

        match &mut self.value {
            SlotValue::Latency(slot) if slot.histogram.is_empty() => {}
            SlotValue::Latency(slot) => {
                let histogram = slot.histogram.take();
                latency.histograms.push((series.clone(), histogram));
            }
            SlotValue::Counter(slot) => {
                latency.counters.push((series.clone(), std::mem::take(&mut slot.0)));
            }
            SlotValue::Gauge(slot) => {
                latency.gauges.push((series.clone(), std::mem::take(slot).value));
            }
        }
    }
}

impl LatencySlot {
    /// Whether there is room for `values` values that represent `weight` samples each.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a line has some thousand values of at most WEIGHT_MAX samples each"
    )]
    pub(crate) fn has_room(&self, weight: f64, values: usize, samples_left: u64) -> bool {
        let samples = match is_one(weight) {
            true => values as u64,
            // Each may use the fraction that the one before it left over.
            false => ((weight + 1.0) * values as f64).ceil() as u64,
        };
        self.has_room_for(samples, samples_left)
    }

    fn has_room_for(&self, samples: u64, samples_left: u64) -> bool {
        let count = self.histogram.count();
        samples <= samples_left && count.saturating_add(samples) <= SAMPLES_MAX
    }

    /// Merges `samples` samples, which `make` returns as a histogram. It gets the limits to watch;
    /// other limits that a client watched are dropped.
    pub(crate) fn merge(
        &mut self,
        samples: u64,
        samples_left: u64,
        make: impl FnOnce(&[u64]) -> Histogram,
    ) -> Result<(), Reject> {
        if !self.has_room_for(samples, samples_left) {
            return Err(Reject::SamplesCap);
        }

        let limits: Vec<u64> = self.histogram.overs().limits().collect();
        let mut other = make(&limits);
        // A client's own limits would take the room of those that aggregators judge.
        other.watch(&limits);
        match self.histogram.is_empty() {
            true => self.histogram = other,
            false => self.histogram.merge(&other),
        }
        Ok(())
    }

    /// Records a value that represents `weight` samples, and returns how many were counted.
    pub(crate) fn record(&mut self, value_ns: u64, weight: f64) -> u64 {
        if is_one(weight) {
            self.histogram.record(value_ns);
            return 1;
        }

        let exact = weight + self.remainder;

        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and WEIGHT_MAX + 1"
        )]
        let n = exact.floor() as u64;
        self.remainder = exact - exact.floor();
        self.histogram.record_n(value_ns, n);
        n
    }
}

/// Exactly one, unless a rate was given.
fn is_one(weight: f64) -> bool {
    weight == 1.0
}

impl CounterSlot {
    /// The sum of two finite numbers may be infinite, which the wire rejects.
    pub(crate) fn add(&mut self, amount: f64) {
        self.0 = (self.0 + amount).clamp(f64::MIN, f64::MAX);
    }
}

impl GaugeSlot {
    /// A value with a timestamp is superseded by a later one. A value without one is of now and
    /// supersedes everything before it, even if the clock was set back.
    pub(crate) fn set(&mut self, value: f64, at: Option<u64>, now: Wall) {
        let time = at.unwrap_or(now.0 / 1_000_000_000);
        if at.is_none() || time >= self.at {
            *self = Self { value, at: time };
        }
    }
}
