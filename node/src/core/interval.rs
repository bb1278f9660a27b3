//! The open interval: one slot for each series that spoke since it began.
//!
//! A line's name and tags lead to its slot by their raw bytes, so tags are read once a series
//! and interval, not once a sample. Past the series cap, latencies and counters fold into one
//! series `other` and stay counted; a gauge cannot be folded and is refused. So are samples
//! beyond what a reader takes: a message that nobody can read would lose all its series.

use std::collections::BTreeMap;

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::histogram::layout::MAX_NS;
use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::limits::wire::{COUNT_MAX, SAMPLES_MAX};
use plimsoll_schemas::time::Now;
use plimsoll_schemas::wire::Latency;

use super::dogstatsd::{self, Metric, MetricType, Reject};
use super::labels::labels;
use super::places::{Key, Places};

/// The operation that takes what the series cap leaves no room for.
pub const OVERFLOW: &str = "other";

/// Raw ways to write one series (orders of tags) that are remembered, per series.
const SPELLINGS: usize = 4;

/// All series of one interval.
pub struct Interval {
    /// When it began.
    pub started: Now,
    places: Places,
    /// Samples that the incarnation may still record.
    samples_left: u64,
    spellings_max: usize,
    /// Type, name and tags as they stand in a line, to the slot.
    by_bytes: BTreeMap<Vec<u8>, usize>,
    by_series: BTreeMap<Key, usize>,
    slots: Vec<Slot>,
    key: Vec<u8>,
}

/// What one series collected.
struct Slot {
    value: SlotValue,
    /// False for what the series cap does not bound: [`OVERFLOW`] and the node's own latencies.
    has_place: bool,
    /// The part of a sample that 1 / rate left over, so that odd rates stay right on average.
    remainder: f64,
}

enum SlotValue {
    Latency(Histogram),
    Counter(f64),
    Gauge(f64),
}

/// What one line added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Values read.
    pub values: u64,
    /// Latency samples they stand for.
    pub samples: u64,
    /// Samples above one hour, recorded as one hour.
    pub clamped: u64,
    /// True when the series cap folded the line into [`OVERFLOW`].
    pub folded: bool,
}

impl Interval {
    /// An empty interval that begins now.
    #[must_use]
    pub fn new(started: Now, series_max: usize) -> Self {
        Self {
            started,
            places: Places::new(series_max),
            samples_left: COUNT_MAX,
            spellings_max: series_max.saturating_mul(SPELLINGS),
            by_bytes: BTreeMap::new(),
            by_series: BTreeMap::new(),
            slots: Vec::new(),
            key: Vec::new(),
        }
    }

    /// Number of series so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True when nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Records all values of a line, or none of them.
    ///
    /// # Errors
    /// When a value is no number, a latency is negative, a gauge meets the series cap, or
    /// latencies meet the cap on samples.
    pub fn record(&mut self, metric: &Metric<'_>) -> Result<Admitted, Reject> {
        let mut samples_max = 0.0;
        for text in metric.values.split(':') {
            let value = dogstatsd::number(text)?;
            if metric.metric_type == MetricType::Latency {
                dogstatsd::latency_ns(value)?;
                samples_max += metric.weight + 1.0;
            }
        }
        let (index, folded) = self.slot(metric)?;
        if samples_max > self.room(index) {
            return Err(Reject::SamplesCap);
        }
        let mut admitted = Admitted { folded, ..Admitted::default() };
        for value in metric.values.split(':').flat_map(dogstatsd::number) {
            self.slots[index].add(value, metric.weight, &mut admitted);
        }
        self.samples_left = self.samples_left.saturating_sub(admitted.samples);
        Ok(admitted)
    }

    /// Records one latency that the node measured itself; never refused for the series cap.
    /// Tells whether there was room for it among the samples.
    pub fn record_latency(&mut self, operation: &Operation, labels: &Labels, ns: u64) -> bool {
        let series = Series { operation: operation.clone(), labels: labels.clone() };
        let index = self.slot_of((MetricType::Latency, series), false);
        let has_room = self.room(index) >= 1.0;
        if let (true, SlotValue::Latency(histogram)) = (has_room, &mut self.slots[index].value) {
            histogram.record(ns);
            self.samples_left -= 1;
        }
        has_room
    }

    /// Samples that a slot can still take.
    #[expect(clippy::cast_precision_loss, reason = "both caps are at most 2^53")]
    fn room(&self, index: usize) -> f64 {
        let count = match &self.slots[index].value {
            SlotValue::Latency(histogram) => histogram.count(),
            SlotValue::Counter(_) | SlotValue::Gauge(_) => 0,
        };
        SAMPLES_MAX.saturating_sub(count).min(self.samples_left) as f64
    }

    fn slot(&mut self, metric: &Metric<'_>) -> Result<(usize, bool), Reject> {
        self.key.clear();
        self.key.push(metric.metric_type as u8);
        self.key.extend_from_slice(metric.name.as_bytes());
        self.key.push(0);
        self.key.extend_from_slice(metric.tags.as_bytes());
        if let Some(index) = self.by_bytes.get(self.key.as_slice()) {
            return Ok((*index, false));
        }
        let operation = Operation::new(metric.name).map_err(|_| Reject::Name)?;
        let key = (metric.metric_type, Series { operation, labels: labels(metric.tags) });
        if !self.by_series.contains_key(&key) && !self.places.admit(&key) {
            return self.overflow(metric.metric_type);
        }
        let index = self.slot_of(key, true);
        if self.by_bytes.len() < self.spellings_max {
            self.by_bytes.insert(self.key.clone(), index);
        }
        Ok((index, false))
    }

    fn overflow(&mut self, metric_type: MetricType) -> Result<(usize, bool), Reject> {
        if metric_type == MetricType::Gauge {
            return Err(Reject::SeriesCap);
        }
        let operation = Operation::new(OVERFLOW).expect("a constant name of plain letters");
        Ok((self.slot_of((metric_type, Series::plain(operation)), false), true))
    }

    fn slot_of(&mut self, key: Key, has_place: bool) -> usize {
        let value = match key.0 {
            MetricType::Latency => SlotValue::Latency(Histogram::default()),
            MetricType::Counter => SlotValue::Counter(0.0),
            MetricType::Gauge => SlotValue::Gauge(0.0),
        };
        *self.by_series.entry(key).or_insert_with(|| {
            self.slots.push(Slot { value, has_place, remainder: 0.0 });
            self.slots.len() - 1
        })
    }

    /// Ends the interval and hands over what it holds, in order of series; the next begins.
    pub fn take(&mut self, now: Now) -> Latency {
        self.started = now;
        self.by_bytes.clear();
        let by_series = std::mem::take(&mut self.by_series);
        let placed = by_series.iter().filter(|(_, index)| self.slots[**index].has_place);
        self.places.renew(placed.map(|(key, _)| key.clone()).collect());
        let mut slots: Vec<Option<Slot>> = self.slots.drain(..).map(Some).collect();
        let mut latency = Latency::default();
        for ((_, series), index) in by_series {
            match slots[index].take().map(|slot| slot.value) {
                Some(SlotValue::Latency(h)) if !h.is_empty() => {
                    latency.histograms.push((series, h));
                }
                Some(SlotValue::Counter(sum)) => latency.counters.push((series, sum)),
                Some(SlotValue::Gauge(value)) => latency.gauges.push((series, value)),
                Some(SlotValue::Latency(_)) | None => {}
            }
        }
        latency
    }
}

impl Slot {
    fn add(&mut self, value: f64, weight: f64, admitted: &mut Admitted) {
        admitted.values += 1;
        match &mut self.value {
            SlotValue::Gauge(last) => *last = value,
            SlotValue::Counter(sum) => {
                // Two finite numbers may add up to infinity, which the wire refuses.
                *sum = (*sum + value * weight).clamp(f64::MIN, f64::MAX);
            }
            SlotValue::Latency(histogram) => {
                let Ok(value_ns) = dogstatsd::latency_ns(value) else { return };
                let exact = weight + self.remainder;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "between 0 and WEIGHT_MAX + 1"
                )]
                let n = exact.floor() as u64;
                self.remainder = exact - exact.floor();
                histogram.record_n(value_ns, n);
                admitted.samples += n;
                admitted.clamped += if value_ns > MAX_NS { n } else { 0 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(series_max: usize) -> Interval {
        Interval::new(Now::default(), series_max)
    }

    fn record(interval: &mut Interval, line: &str) -> Result<Admitted, Reject> {
        interval.record(&dogstatsd::parse(line.as_bytes())?)
    }

    #[test]
    fn tags_in_any_order_are_one_series() {
        let mut interval = interval(10);
        record(&mut interval, "a:1|ms|#x:1,y:2").unwrap();
        record(&mut interval, "a:2|ms|#y:2,x:1").unwrap();
        let latency = interval.take(Now::default());
        assert_eq!(latency.histograms.len(), 1);
        assert_eq!(latency.histograms[0].1.count(), 2);
        assert_eq!(latency.histograms[0].0.to_string(), "a{x=1,y=2}");
    }

    #[test]
    fn one_name_may_be_latency_counter_and_gauge() {
        let mut interval = interval(10);
        for line in ["a:1|ms", "a:2|c|@0.5", "a:3|c", "a:4|g", "a:5|g"] {
            record(&mut interval, line).unwrap();
        }
        let latency = interval.take(Now::default());
        assert_eq!(latency.histograms[0].1.max_ns(), 1_000_000);
        assert_eq!(latency.counters[0].1, 7.0);
        assert_eq!(latency.gauges[0].1, 5.0);
        assert!(interval.is_empty());
    }

    #[test]
    fn a_sample_rate_counts_what_it_stands_for_on_average() {
        let mut interval = interval(10);
        for _ in 0..300 {
            record(&mut interval, "a:1|ms|@0.3").unwrap();
        }
        let count = interval.take(Now::default()).histograms[0].1.count();
        assert!((999..=1_000).contains(&count), "300 / 0.3 came out as {count}");
    }

    #[test]
    fn one_bad_value_refuses_the_whole_line() {
        let mut interval = interval(10);
        assert_eq!(record(&mut interval, "a:1:x:3|ms"), Err(Reject::Number));
        assert_eq!(record(&mut interval, "a:1:-3|ms"), Err(Reject::Negative));
        assert!(interval.is_empty());
        assert_eq!(record(&mut interval, "a:-3|c").map(|a| a.values), Ok(1));
    }

    #[test]
    fn past_the_series_cap_latencies_fold_into_other_and_stay_counted() {
        let mut interval = interval(2);
        for name in ["a", "b", "c", "d"] {
            let admitted = record(&mut interval, &format!("{name}:1|ms")).unwrap();
            assert_eq!(admitted.folded, name > "b", "{name}");
        }
        assert_eq!(record(&mut interval, "e:1|g"), Err(Reject::SeriesCap));
        let latency = interval.take(Now::default());
        let counts: Vec<(String, u64)> =
            latency.histograms.iter().map(|(s, h)| (s.to_string(), h.count())).collect();
        assert_eq!(counts, [("a".into(), 1), ("b".into(), 1), ("other".into(), 2)]);
    }

    #[test]
    fn a_series_of_the_last_interval_keeps_its_place_against_new_names() {
        let mut interval = interval(2_000);
        record(&mut interval, "epoch_hook:1|ms").unwrap();
        interval.take(Now::default());
        for name in 0..3_000 {
            record(&mut interval, &format!("new{name}:1|ms")).unwrap();
        }
        for _ in 0..100 {
            assert!(!record(&mut interval, "epoch_hook:1|ms").unwrap().folded);
        }
        let latency = interval.take(Now::default());
        let count = |name: &str| {
            latency.histograms.iter().find(|(s, _)| s.to_string() == name).unwrap().1.count()
        };
        assert_eq!((count("epoch_hook"), count("other"), count("new1998")), (100, 1_001, 1));
        assert_eq!(latency.histograms.len(), 2_001);
    }

    #[test]
    fn samples_past_the_cap_are_refused_and_the_series_stays_readable() {
        let mut interval = interval(2);
        let line = format!("a:{}1|ms|@0.000001", "1:".repeat(4_000));
        let outcomes: Vec<_> = (0..300).map(|_| record(&mut interval, &line)).collect();
        assert_eq!(outcomes[299], Err(Reject::SamplesCap));
        assert_eq!(record(&mut interval, "b:1|ms").map(|admitted| admitted.samples), Ok(1));
        let taken: u64 = outcomes.iter().flatten().map(|admitted| admitted.samples).sum();
        assert_eq!(interval.take(Now::default()).histograms[0].1.count(), taken);
        assert!((SAMPLES_MAX - 4_002_000_000..=SAMPLES_MAX).contains(&taken), "{taken}");
    }

    #[test]
    fn an_incarnation_counts_no_further_than_a_reader_does() {
        let mut interval = interval(2);
        interval.samples_left = 3;
        let publish = Operation::new("publish").unwrap();
        assert_eq!(record(&mut interval, "a:1|ms").map(|admitted| admitted.samples), Ok(1));
        assert!(interval.record_latency(&publish, &Labels::default(), 1));
        assert_eq!(record(&mut interval, "a:1|ms"), Err(Reject::SamplesCap));
        assert!(interval.record_latency(&publish, &Labels::default(), 1));
        assert!(!interval.record_latency(&publish, &Labels::default(), 1));
        assert_eq!(record(&mut interval, "a:1|c").map(|admitted| admitted.values), Ok(1));
    }

    #[test]
    fn a_latency_above_an_hour_is_clamped_and_counted() {
        let admitted = record(&mut interval(2), "a:3600000.000001|ms").unwrap();
        assert_eq!((admitted.samples, admitted.clamped), (1, 1));
        let admitted = record(&mut interval(2), "a:3600000|ms").unwrap();
        assert_eq!((admitted.samples, admitted.clamped), (1, 0));
    }

    #[test]
    fn a_counter_never_leaves_the_finite_numbers() {
        let mut interval = interval(2);
        record(&mut interval, "a:1e308:1e308|c|@0.01").unwrap();
        assert!(interval.take(Now::default()).counters[0].1.is_finite());
    }
}
