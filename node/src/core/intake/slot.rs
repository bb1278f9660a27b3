//! What one series collects in an interval.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::Series;
use plimsoll_schemas::limits::wire::SAMPLES_MAX;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::Latency;

use super::dogstatsd::Letter;
use super::reject::Reject;

/// What kind of thing the values of a series are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MetricType {
    /// Latencies.
    Latency,
    /// Amounts to add.
    Counter,
    /// The value now.
    Gauge,
}

impl MetricType {
    /// What the values of a line are.
    pub(super) fn of(letter: Letter) -> Self {
        match letter {
            Letter::Ms | Letter::H | Letter::D => Self::Latency,
            Letter::C => Self::Counter,
            Letter::G => Self::Gauge,
        }
    }
}

/// What a slot is for.
pub(super) type Key = (MetricType, Series);

/// One series of an interval.
pub(super) struct Slot {
    pub(super) value: SlotValue,
    /// False for what the series cap does not bound: `other` and the node's own latencies.
    pub(super) has_place: bool,
    /// True once it was asked for in this interval.
    pub(super) is_spoken: bool,
}

pub(super) enum SlotValue {
    Latency(LatencySlot),
    Counter(CounterSlot),
    Gauge(GaugeSlot),
}

#[derive(Default)]
pub(super) struct LatencySlot {
    histogram: Histogram,
    /// The part of a sample that 1 / rate left over, so that odd rates stay right on average.
    remainder: f64,
}

#[derive(Default)]
pub(super) struct CounterSlot(f64);

#[derive(Default)]
pub(super) struct GaugeSlot {
    value: f64,
    /// Seconds since 1970 at which it held.
    at: u64,
}

impl Slot {
    /// A series that has not spoken yet.
    pub(super) fn new(metric_type: MetricType, has_place: bool) -> Self {
        let value = match metric_type {
            MetricType::Latency => SlotValue::Latency(LatencySlot::default()),
            MetricType::Counter => SlotValue::Counter(CounterSlot::default()),
            MetricType::Gauge => SlotValue::Gauge(GaugeSlot::default()),
        };
        Self { value, has_place, is_spoken: false }
    }

    /// Counts exactly, from now on, what is over these limits.
    pub(super) fn watch(&mut self, limits_ns: &[u64]) {
        if let SlotValue::Latency(slot) = &mut self.value {
            slot.histogram.watch(limits_ns);
        }
    }

    /// Moves what was collected into `latency` and begins anew.
    pub(super) fn take(&mut self, series: &Series, latency: &mut Latency) {
        if !self.is_spoken {
            return;
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
    /// Whether there is room for `values` values that stand for `weight` samples each.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a line has some thousand values of at most WEIGHT_MAX samples each"
    )]
    pub(super) fn has_room(&self, weight: f64, values: usize, samples_left: u64) -> bool {
        let samples = match is_one(weight) {
            true => values as u64,
            // Each may take what the one before it left over.
            false => ((weight + 1.0) * values as f64).ceil() as u64,
        };
        self.has_room_for(samples, samples_left)
    }

    /// Whether there is room for so many samples.
    fn has_room_for(&self, samples: u64, samples_left: u64) -> bool {
        let count = self.histogram.count();
        samples <= samples_left && count.saturating_add(samples) <= SAMPLES_MAX
    }

    /// Merges samples of a client, as many as is said. `make` is given the limits to be watched;
    /// what else a client may have watched is of no use here.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(super) fn merge(
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
        other.watch(&limits);
        match self.histogram.is_empty() {
            true => self.histogram = other,
            false => self.histogram.merge(&other),
        }
        Ok(())
    }

    /// Records a value that stands for `weight` samples, and says how many that makes.
    pub(super) fn record(&mut self, value_ns: u64, weight: f64) -> u64 {
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

#[expect(clippy::float_cmp, reason = "a weight is exactly one unless a rate was given")]
fn is_one(weight: f64) -> bool {
    weight == 1.0
}

impl CounterSlot {
    /// Two finite numbers may add up to infinity, which the wire refuses.
    pub(super) fn add(&mut self, amount: f64) {
        self.0 = (self.0 + amount).clamp(f64::MIN, f64::MAX);
    }
}

impl GaugeSlot {
    /// What says when it held gives way to what held later; what does not say so holds now, and
    /// wins over what came before it even when the clock was set back.
    pub(super) fn set(&mut self, value: f64, at: Option<u64>, now: Wall) {
        let held_at = at.unwrap_or(now.0 / 1_000_000_000);
        if at.is_none() || held_at >= self.at {
            *self = Self { value, at: held_at };
        }
    }
}
