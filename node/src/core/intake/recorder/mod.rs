//! The recorder: counts parsed input into the open interval. The one way into it for lines, frames,
//! points and spans.
//!
//! Owns the [`Interval`] with its series cache, the streams of [`Points`], the unit check, what was
//! lost before it could be recorded, and the counters of all that. Every input is counted as
//! recorded or as rejected. Parses no formats: readers of pages and requests pass points and
//! latencies.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::ids::{Operation, Series};
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::unit;
use plimsoll_schemas::wire::confirmation::LatencyLimit;
use plimsoll_schemas::wire::{Events, Latency};

use super::jobs::Source;
use super::lines::{Line, TimeUnit, Unit, Units, ValueReader, ValueUnit};
use super::points::{Point, Points};
use super::reject::Reject;
use super::series::{CachedSeries, Interval, LabelRules, RecordCounts, SeriesCache, SeriesType};
use super::stats::IntakeStats;
use super::unit_check::UnitCheck;
use crate::core::loss::SAMPLES_CAP;

pub(in crate::core) struct ClosedInterval {
    pub(in crate::core) started: Now,
    pub(in crate::core) latency: Latency,
    /// Operations of which more samples than allowed exceed a limit.
    pub(in crate::core) breached: BTreeSet<Operation>,
    pub(in crate::core) events: Events,
    /// Samples that count as recorded and as lost, by reason.
    pub(in crate::core) lost: BTreeMap<&'static str, u64>,
}

pub(super) struct Recorder {
    units: Units,
    values: ValueReader,
    cache: SeriesCache,
    interval: Interval,
    points: Points,
    unit_check: UnitCheck,
    /// Samples lost before they could be recorded, by reason. They enter the ledger with the
    /// interval in which the loss was noticed.
    lost: BTreeMap<&'static str, u64>,
    /// Samples recorded and lost in the open interval.
    pub(super) open_samples: u64,
    /// Of all input, also of what never came here; they only grow.
    stats: IntakeStats,
}

impl Recorder {
    /// A recorder with an empty interval. `seed` is a number that a sender does not choose.
    pub(super) fn new(
        now: Now,
        series_max: usize,
        labels: LabelRules,
        units: Units,
        seed: u64,
    ) -> Self {
        Self {
            units,
            values: ValueReader::default(),
            cache: SeriesCache::new(series_max, seed),
            interval: Interval::new(now, series_max, labels),
            points: Points::new(now, seed),
            unit_check: UnitCheck::default(),
            lost: BTreeMap::new(),
            open_samples: 0,
            stats: IntakeStats::default(),
        }
    }

    pub(super) fn set_source(&mut self, source: Source) {
        self.interval.set_source(source);
    }

    pub(super) fn brought(&self) -> impl Iterator<Item = (&Operation, Source)> {
        self.interval.brought()
    }

    /// Records all values of a line and counts them.
    pub(super) fn on_line(&mut self, now: Wall, line: Line<'_>) -> Result<(), Reject> {
        let is_timestamped = line.at.is_some();
        let counts = self.record_line(now, line)?;
        self.stats.values += counts.values;
        self.stats.timestamped += if is_timestamped { counts.values } else { 0 };
        self.stats.overflowed += if counts.folded { counts.values } else { 0 };
        self.on_recorded(counts, counts.values);
        Ok(())
    }

    /// Records all values of a line, or none of them.
    fn record_line(&mut self, now: Wall, mut line: Line<'_>) -> Result<RecordCounts, Reject> {
        // A container that becomes no label must not divide the cache either: the lines of each
        // would take an entry of their own.
        if !self.interval.label_rules.container {
            line.container = b"";
        }
        let hash = self.cache.hash(&line);
        let Some(cached) = self.cache.find(hash, &line) else {
            return self.record_new_line(now, &line, hash);
        };
        let values = self.values.read(&line, cached.unit)?;
        self.interval.record_line(now, cached.slot, cached.labels, values)
    }

    /// Records a line whose form is not cached.
    fn record_new_line(
        &mut self,
        now: Wall,
        line: &Line<'_>,
        hash: u64,
    ) -> Result<RecordCounts, Reject> {
        let text = |bytes| str::from_utf8(bytes).map_err(|_| Reject::Encoding);
        let name = str::from_utf8(line.name).map_err(|_| Reject::Name)?;
        let operation = Operation::new(name).map_err(|_| Reject::Name)?;
        let (tags, container) = (text(line.tags)?, text(line.container)?);
        let series_type = SeriesType::of(line.metric_type);

        let (operation, unit) = match series_type {
            SeriesType::Latency => {
                let unit = self.units.of(line.metric_type, name)?;
                (unit.operation(name)?, unit)
            }
            SeriesType::Counter | SeriesType::Gauge => (operation, ValueUnit::Count),
        };

        // Before a slot is taken, so that a line with a bad value takes none of the series cap.
        let values = self.values.read(line, unit)?;
        let is_decided = !self.units.is_assumed(line.metric_type, name) || {
            let is_named_seconds =
                self.units.named(name) == Some(Unit(Some(ValueUnit::Time(TimeUnit::Seconds))));
            self.unit_check.on_line(&operation, line.values, is_named_seconds)
        };

        let (kept, labels) = self.interval.label_rules.read(tags, container);
        let (slot, folded) = self.interval.slot(series_type, Series { operation, labels: kept })?;
        // A cached line skips the unit check and keeps its slot: so none whose unit is still
        // undecided, and none that may find room of its own later.
        if is_decided && !folded {
            self.cache.insert(hash, line, CachedSeries { slot, unit, labels });
        }
        let counts = self.interval.record_line(now, slot, labels, values)?;
        Ok(RecordCounts { folded, ..counts })
    }

    fn on_recorded(&mut self, counts: RecordCounts, values: u64) {
        self.open_samples += counts.samples;
        self.stats.samples += counts.samples;
        self.stats.clamped += counts.clamped;
        if let Some(labels) = counts.labels {
            self.stats.labels.add(labels, values);
        }
    }

    /// Records the series of a frame. A distribution for which there is no room is lost: the
    /// client has counted it as sent, so it is in the ledger.
    pub(super) fn on_frame(&mut self, now: Wall, clamped: u64, latency: Latency) {
        self.stats.clamped = self.stats.clamped.saturating_add(clamped);

        for (series, histogram) in latency.histograms {
            let samples = histogram.count();
            let merged = self.interval.merge(series, histogram);
            if merged == Err(Reject::SamplesCap) {
                self.lose(SAMPLES_CAP, samples);
            }
            self.on_outcome(merged, samples);
        }

        for (series, amount) in latency.counters {
            let slot = self.interval.slot_ref(SeriesType::Counter, series);
            let added = slot.map(|slot| self.interval.add(slot, amount));
            self.on_outcome(added, 1);
        }

        for (series, value) in latency.gauges {
            let slot = self.interval.slot_ref(SeriesType::Gauge, series);
            let set = slot.map(|slot| self.interval.set(now, slot, value));
            self.on_outcome(set, 1);
        }
    }

    /// Counts `values` values as recorded or one rejection.
    fn on_outcome(&mut self, outcome: Result<RecordCounts, Reject>, values: u64) {
        match outcome {
            Ok(counts) => {
                self.stats.overflowed += if counts.folded { values } else { 0 };
                self.on_recorded(counts, values);
            }
            Err(reason) => self.reject(reason),
        }
    }

    /// Records what a point adds to what its stream reported before.
    ///
    /// # Errors
    /// Why nothing of it was recorded, which is counted.
    pub(super) fn on_point(&mut self, now: Now, point: &Point<'_>) -> Result<(), Reject> {
        let outcome = self.points.record(now, point, &mut self.interval);
        self.on_outcome(outcome, 1);
        outcome.map(|_| ())
    }

    pub(super) fn on_latency(&mut self, series: Series, ns: u64) -> Result<(), Reject> {
        if unit::Unit::of(series.operation.as_str()) != unit::Unit::Nanoseconds {
            return Err(Reject::Unit);
        }
        let counts = self.interval.record_one(series, ns)?;
        self.stats.overflowed += u64::from(counts.folded);
        self.on_recorded(counts, 1);
        Ok(())
    }

    /// Records a latency that the node measured itself, which no series cap rejects. Returns
    /// whether there was room.
    pub(super) fn on_own_latency(&mut self, operation: &Operation, ns: u64) -> bool {
        if !self.interval.record_own(operation, ns) {
            self.reject(Reject::SamplesCap);
            return false;
        }
        self.stats.samples += 1;
        self.open_samples += 1;
        true
    }

    pub(super) fn on_limits(&mut self, now: Mono, limits: &[LatencyLimit]) {
        self.interval.on_limits(now, limits);
    }

    /// Counts samples that never arrived as recorded and lost, up to what an incarnation may
    /// count.
    pub(super) fn lose(&mut self, reason: &'static str, samples: u64) {
        let samples = self.interval.reserve(samples);
        if samples > 0 {
            *self.lost.entry(reason).or_default() += samples;
            self.open_samples += samples;
        }
    }

    pub(super) fn reject(&mut self, reason: Reject) {
        self.reject_many(reason, 1);
    }

    pub(super) fn reject_many(&mut self, reason: Reject, count: u64) {
        *self.stats.rejected.entry(reason).or_default() += count;
    }

    pub(super) fn take_unit_warnings(&mut self) -> Vec<String> {
        self.unit_check.take_warnings()
    }

    pub(super) fn close(&mut self, now: Now) -> ClosedInterval {
        self.open_samples = 0;
        let started = self.interval.started;
        let (latency, moved) = self.interval.close(now);
        let breached = self.interval.breached(&latency);
        // Both refer to slots by their places, which have changed.
        self.cache.on_slots_moved(|slot| moved[slot]);
        self.points.on_slots_moved(|slot| moved[slot]);

        let lost = std::mem::take(&mut self.lost);
        ClosedInterval { started, latency, breached, events: Events::default(), lost }
    }

    pub(super) fn label_rules(&self) -> &LabelRules {
        &self.interval.label_rules
    }

    pub(super) fn limits(&self) -> Vec<LatencyLimit> {
        self.interval.limits()
    }

    pub(super) fn series(&self) -> usize {
        self.interval.len()
    }

    pub(super) fn stats(&self) -> IntakeStats {
        IntakeStats {
            suspect_units: self.unit_check.suspects.clone(),
            points: self.points.stats(),
            ..self.stats.clone()
        }
    }

    /// For counts of input by how it arrived.
    pub(super) fn stats_mut(&mut self) -> &mut IntakeStats {
        &mut self.stats
    }
}

#[cfg(test)]
mod tests;
