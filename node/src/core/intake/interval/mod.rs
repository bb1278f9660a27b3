//! The open interval: one slot for each series that spoke since it began, or in the one before.
//!
//! A series that spoke in the last interval keeps its slot, spoken or not yet; new ones compete
//! for the rest, so that a flood of new names does not push out whoever speaks late. Past the
//! series cap, latencies and counters fold into one series `other` and stay counted; a gauge
//! cannot be folded and is refused. So are samples beyond what a reader takes: a message that
//! nobody can read would lose all its series.

use std::collections::BTreeMap;

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::histogram::layout::MAX_NS;
use plimsoll_schemas::ids::{Operation, Series};
use plimsoll_schemas::limits::wire::COUNT_MAX;
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::wire::Latency;

use super::dogstatsd::{Letter, Line};
use super::labels::LineFigures;
use super::limits::Limits;
use super::number;
use super::reject::Reject;
use super::rules::Rules;
use super::slot::{Key, MetricType, Slot, SlotValue};
use super::spellings::{Known, Spellings};
use super::units::TimeUnit;

/// The operation that takes what the series cap leaves no room for.
pub const OVERFLOW: &str = "other";

/// All series of one interval.
pub(super) struct Interval {
    /// When it began.
    started: Now,
    series_max: usize,
    rules: Rules,
    limits: Limits,
    /// Samples that the incarnation may still record.
    samples_left: u64,
    spellings: Spellings,
    by_series: BTreeMap<Key, usize>,
    slots: Vec<Slot>,
    /// Slots that the series cap bounds.
    placed: usize,
    /// The latencies of one line.
    latencies: Vec<u64>,
}

/// What one line, or one series of a frame, added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Admitted {
    /// Values read.
    pub(super) values: u64,
    /// Latency samples they stand for.
    pub(super) samples: u64,
    /// Samples above one hour, recorded as one hour.
    pub(super) clamped: u64,
    /// True when the series cap folded the line into [`OVERFLOW`].
    pub(super) folded: bool,
    /// What became of the tags, if not all became labels.
    pub(super) labels: Option<LineFigures>,
}

/// Where a series is counted, in this interval and, once its slots have moved, the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// What is counted there.
    pub(super) metric_type: MetricType,
    /// True when it is that of [`OVERFLOW`].
    pub(super) folded: bool,
    slot: usize,
    labels: Option<LineFigures>,
}

impl Place {
    /// The same after slots have moved, if it still has one.
    pub(super) fn moved(self, slot: impl Fn(usize) -> Option<usize>) -> Option<Self> {
        slot(self.slot).map(|slot| Self { slot, ..self })
    }

    fn admitted(self) -> Admitted {
        Admitted { folded: self.folded, labels: self.labels, ..Admitted::default() }
    }
}

/// The values of a line: latencies in [`Interval::latencies`], else one number.
#[derive(Clone, Copy)]
struct Read {
    values: u64,
    /// What a counter grows by, or the last value of a gauge.
    number: f64,
}

impl Interval {
    /// An empty interval that begins now.
    pub(super) fn new(started: Now, series_max: usize, rules: Rules, seed: u64) -> Self {
        Self {
            started,
            series_max,
            rules,
            limits: Limits::default(),
            samples_left: COUNT_MAX,
            spellings: Spellings::new(series_max, seed),
            by_series: BTreeMap::new(),
            slots: Vec::new(),
            placed: 0,
            latencies: Vec::new(),
        }
    }

    /// When it began.
    pub(super) fn started(&self) -> Now {
        self.started
    }

    /// Which tags become labels.
    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Number of series that spoke in it.
    pub(super) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_spoken).count()
    }

    /// Hears limits: what is over them is counted exactly from now on, and what is there already
    /// is counted from the buckets.
    pub(super) fn hear_limits(&mut self, now: Mono, told: &[(Operation, u64)]) {
        for operation in self.limits.hear(now, told) {
            let limits = self.limits.of(&operation);
            let of_same =
                self.by_series.iter().filter(|((_, series), _)| series.operation == operation);
            of_same.for_each(|(_, slot)| self.slots[*slot].watch(&limits));
        }
    }

    /// The limits known, in nanoseconds.
    pub(super) fn limits(&self) -> Vec<(Operation, u64)> {
        self.limits.all()
    }

    /// Takes up to `samples` of those that the incarnation may still count.
    pub(super) fn reserve(&mut self, samples: u64) -> u64 {
        let reserved = samples.min(self.samples_left);
        self.samples_left -= reserved;
        reserved
    }

    /// Records all values of a line, or none of them.
    ///
    /// # Errors
    /// When the name is none, a value is no number or no latency, a latency is negative, a gauge
    /// meets the series cap, or latencies meet the cap on samples.
    pub(super) fn record(&mut self, now: Wall, mut line: Line<'_>) -> Result<Admitted, Reject> {
        if !self.rules.labels.container {
            line.container = b"";
        }
        let hash = self.spellings.hash(&line);
        let Some(known) = self.spellings.find(hash, &line) else {
            return self.record_new(now, &line, hash);
        };
        let read = self.read(&line, known.unit)?;
        self.put(now, &line, known, read)
    }

    /// Records a line of a form that was not seen in this interval or the one before.
    fn record_new(&mut self, now: Wall, line: &Line<'_>, hash: u64) -> Result<Admitted, Reject> {
        let text = |bytes| str::from_utf8(bytes).map_err(|_| Reject::Encoding);
        let name = str::from_utf8(line.name).map_err(|_| Reject::Name)?;
        let operation = Operation::new(name).map_err(|_| Reject::Name)?;
        let (tags, container) = (text(line.tags)?, text(line.container)?);
        let metric_type = MetricType::of(line.letter);
        let unit = match metric_type {
            MetricType::Latency => self.rules.units.of(line.letter, name)?,
            MetricType::Counter | MetricType::Gauge => TimeUnit::Nanoseconds,
        };
        let read = self.read(line, unit)?;
        let (kept, labels) = self.rules.labels.read(tags, container);
        let key = (metric_type, Series { operation, labels: kept });
        let (slot, folded) = self.slot(key)?;
        let known = Known { slot, unit, labels };
        if !folded {
            self.spellings.remember(hash, line, known);
        }
        self.put(now, line, known, read).map(|admitted| Admitted { folded, ..admitted })
    }

    fn read(&mut self, line: &Line<'_>, unit: TimeUnit) -> Result<Read, Reject> {
        let (mut values, mut number, mut rest) = (0, 0.0, line.values);
        self.latencies.clear();
        loop {
            match line.letter {
                Letter::Ms | Letter::H | Letter::D => {
                    self.latencies.push(number::take_latency(&mut rest, unit)?);
                }
                // Two finite numbers may add up to infinity, which the wire refuses.
                Letter::C => {
                    let amount = number::take_amount(&mut rest)? * line.weight;
                    number = (number + amount).clamp(f64::MIN, f64::MAX);
                }
                Letter::G => number = number::take_amount(&mut rest)?,
            }
            values += 1;
            match rest {
                [_, after @ ..] => rest = after,
                [] => return Ok(Read { values, number }),
            }
        }
    }

    fn put(
        &mut self,
        now: Wall,
        line: &Line<'_>,
        known: Known,
        read: Read,
    ) -> Result<Admitted, Reject> {
        let Self { slots, latencies, samples_left, .. } = self;
        let slot = &mut slots[known.slot];
        slot.is_spoken = true;
        let mut admitted =
            Admitted { values: read.values, labels: known.labels, ..Admitted::default() };
        match &mut slot.value {
            SlotValue::Counter(counter) => counter.add(read.number),
            SlotValue::Gauge(gauge) => gauge.set(read.number, line.at, now),
            SlotValue::Latency(latency) => {
                if !latency.has_room(line.weight, latencies.len(), *samples_left) {
                    return Err(Reject::SamplesCap);
                }
                for value_ns in latencies {
                    let n = latency.record(*value_ns, line.weight);
                    admitted.samples += n;
                    admitted.clamped += if *value_ns > MAX_NS { n } else { 0 };
                }
                *samples_left = samples_left.saturating_sub(admitted.samples);
            }
        }
        Ok(admitted)
    }

    /// Records one latency that the node measured itself; never refused for the series cap.
    /// Tells whether there was room for it among the samples.
    pub(super) fn record_own(&mut self, operation: &Operation, ns: u64) -> bool {
        let slot = self.slot_of((MetricType::Latency, Series::plain(operation.clone())), false);
        self.record_in(slot, ns)
    }

    /// Records one latency of a series whose labels were made elsewhere.
    ///
    /// # Errors
    /// When there is no room for it among the samples.
    pub(super) fn record_one(&mut self, series: Series, ns: u64) -> Result<Admitted, Reject> {
        let place = self.place(MetricType::Latency, series)?;
        if !self.record_in(place.slot, ns) {
            return Err(Reject::SamplesCap);
        }
        Ok(Admitted { samples: 1, clamped: (ns > MAX_NS).into(), ..place.admitted() })
    }

    /// Tells whether there was room for it.
    fn record_in(&mut self, slot: usize, ns: u64) -> bool {
        let (slot, samples_left) = (&mut self.slots[slot], &mut self.samples_left);
        slot.is_spoken = true;
        let SlotValue::Latency(latency) = &mut slot.value else { return false };
        let has_room = latency.has_room(1.0, 1, *samples_left);
        if has_room {
            latency.record(ns, 1.0);
            *samples_left -= 1;
        }
        has_room
    }

    /// Merges one distribution of a frame, all of it or nothing.
    ///
    /// # Errors
    /// When there is no room for its samples.
    pub(super) fn merge(&mut self, series: Series, other: Histogram) -> Result<Admitted, Reject> {
        let place = self.place(MetricType::Latency, series)?;
        self.put_latencies(place, other.count(), |_| other)
    }

    /// Merges samples, as many as is said, all of them or nothing. `make` is given the limits over
    /// which they are to be counted.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(super) fn put_latencies(
        &mut self,
        place: Place,
        samples: u64,
        make: impl FnOnce(&[u64]) -> Histogram,
    ) -> Result<Admitted, Reject> {
        let samples_left = self.samples_left;
        if let SlotValue::Latency(latency) = &mut self.spoken(place).value {
            latency.merge(samples, samples_left, make)?;
        }
        self.samples_left -= samples;
        Ok(Admitted { samples, ..place.admitted() })
    }

    /// Adds to one counter.
    pub(super) fn add(&mut self, place: Place, amount: f64) -> Admitted {
        if let SlotValue::Counter(counter) = &mut self.spoken(place).value {
            counter.add(amount);
        }
        place.admitted()
    }

    /// Sets one gauge.
    pub(super) fn set(&mut self, now: Wall, place: Place, to: f64) -> Admitted {
        if let SlotValue::Gauge(gauge) = &mut self.spoken(place).value {
            gauge.set(to, None, now);
        }
        place.admitted()
    }

    fn spoken(&mut self, place: Place) -> &mut Slot {
        let slot = &mut self.slots[place.slot];
        slot.is_spoken = true;
        slot
    }

    /// Where a series is counted whose labels were made elsewhere.
    ///
    /// # Errors
    /// When it is a gauge, is new, and the series cap is reached.
    pub(super) fn place(
        &mut self,
        metric_type: MetricType,
        series: Series,
    ) -> Result<Place, Reject> {
        let (kept, labels) = self.rules.labels.sift(series.labels);
        let series = Series { operation: series.operation, labels: kept };
        let (slot, folded) = self.slot((metric_type, series))?;
        Ok(Place { metric_type, slot, folded, labels })
    }

    /// The slot of a series, or that of [`OVERFLOW`], and which of the two it is.
    fn slot(&mut self, key: Key) -> Result<(usize, bool), Reject> {
        if self.placed < self.series_max || self.by_series.contains_key(&key) {
            return Ok((self.slot_of(key, true), false));
        }
        if key.0 == MetricType::Gauge {
            return Err(Reject::SeriesCap);
        }
        let operation = Operation::new(OVERFLOW).expect("a constant name of plain letters");
        Ok((self.slot_of((key.0, Series::plain(operation)), false), true))
    }

    fn slot_of(&mut self, key: Key, has_place: bool) -> usize {
        if let Some(slot) = self.by_series.get(&key) {
            return *slot;
        }
        self.placed += usize::from(has_place);
        let mut slot = Slot::new(key.0, has_place);
        slot.watch(&self.limits.of(&key.1.operation));
        self.slots.push(slot);
        self.by_series.insert(key, self.slots.len() - 1);
        self.slots.len() - 1
    }

    /// Ends the interval and hands over what it holds, in order of series, and where each slot
    /// is in the next, which begins.
    pub(super) fn close(&mut self, now: Now) -> (Latency, Vec<Option<usize>>) {
        self.started = now;
        let mut latency = Latency::default();
        for ((_, series), slot) in &self.by_series {
            self.slots[*slot].take(series, &mut latency);
        }
        (latency, self.renew())
    }

    /// Gives up the slots of series that did not speak in the interval that has ended.
    fn renew(&mut self) -> Vec<Option<usize>> {
        let mut kept = 0;
        let moved: Vec<Option<usize>> = self
            .slots
            .iter()
            .map(|slot| {
                kept += usize::from(slot.is_spoken);
                slot.is_spoken.then(|| kept - 1)
            })
            .collect();
        self.spellings.renew(|slot| moved[slot]);
        self.by_series.retain(|_, slot| {
            let now = moved[*slot];
            *slot = now.unwrap_or_default();
            now.is_some()
        });
        self.slots.retain_mut(|slot| std::mem::take(&mut slot.is_spoken));
        if self.slots.is_empty() {
            self.slots = Vec::new();
        }
        self.placed = self.slots.iter().filter(|slot| slot.has_place).count();
        moved
    }
}

#[cfg(test)]
mod tests;
