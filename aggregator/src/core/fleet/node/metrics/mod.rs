//! The metrics of a node that rules may watch, beside its latencies. They are computed when a
//! message is merged, so that ten thousand nodes are judged each second without reading a sensor.
//!
//! DESIGN A6.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{COUNTED_WITHIN, LOSSES_WITHIN, READINGS_STALE_AFTER, RESTARTS_WITHIN};
use plimsoll_schemas::alert::HardwareContext;
use plimsoll_schemas::hardware::Direction;
use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::ids::{Incarnation, Labels, Operation, Series};
use plimsoll_schemas::metric::NodeMetric;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{BreakerState, Bus, Latency};
use serde::{Deserialize, Serialize};

use super::increase::{CounterIncrease, Increase};
use super::reading_table::ReadingTable;
use super::sensed::{SENSED, SensedFigure, WORST, WorstReadings};
use super::sensor_counters::SensorCounters;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::fleet) enum Count {
    Rerouted,
    Dropped,
    /// See [`NodeMetric::KernelDropped`].
    KernelDropped,
    /// See [`NodeMetric::DuplicateNames`].
    DuplicateNames,
    /// See [`NodeMetric::SamplesLost`].
    SamplesLost,
    Unaccounted,
    /// See [`NodeMetric::TaskRestarts`].
    TaskRestarts,
    /// See [`NodeMetric::CrashedRuns`].
    CrashedRuns,
    /// See [`NodeMetric::TakenIds`].
    TakenIds,
    /// See [`NodeMetric::ConfirmationsRefused`].
    ConfirmationsRefused,
}

const COUNTS: usize = 8;
/// Counts that records of earlier versions lack, the last ones of [`Count`].
const LATER_COUNTS: usize = 2;

/// Figures of sensors that records of all versions have.
const FIRST_SENSED: usize = 16;
/// Figures that records of earlier versions lack, the last ones of [`SensedFigure`]. They have
/// lists of their own: a version reads a list only at the length that it knows, and the version
/// before must read this one's records.
const LATER_SENSED: usize = SENSED - FIRST_SENSED;

/// Peaks beside those of sensors: an open breaker, and conservative mode.
const BESIDE: usize = 2;
const FIRST_PEAKS: usize = FIRST_SENSED + BESIDE;

/// Peaks beside those of sensors, by index.
pub(in crate::core::fleet) struct Peak;

impl Peak {
    pub(in crate::core::fleet) const BREAKER: usize = SENSED;
    pub(in crate::core::fleet) const CONSERVATIVE: usize = SENSED + 1;
}

/// Half of the time for which peaks are known.
const HALF: u64 = 60_000_000_000;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeMetrics {
    sensed: [Option<f64>; FIRST_SENSED],
    #[serde(default)]
    sensed_later: [Option<f64>; LATER_SENSED],
    sensed_at: Wall,
    counted: [CounterIncrease; COUNTS],
    #[serde(default)]
    counted_later: [CounterIncrease; LATER_COUNTS],
    sensor_counters: SensorCounters,
    /// Whether its ledger entry and its bus were ever counted. If an incarnation is older than a
    /// span when it is first received, its first values are not an increase within that span.
    #[serde(default)]
    known: [bool; 2],
    peaks: Peaks,
    /// Counters of jobs that a rule watches.
    jobs: Arc<BTreeMap<Series, Increase>>,
}

/// What a node's ledger entry counts, over all its incarnations.
#[derive(Clone, Copy)]
pub(super) struct LedgerCounts {
    pub(super) duplicate_names: u64,
    pub(super) samples_lost: u64,
    pub(super) unaccounted: u64,
    pub(super) crashed_runs: u64,
}

/// The worst values of this minute and of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Peaks {
    minute: u64,
    now: [Option<f64>; FIRST_PEAKS],
    before: [Option<f64>; FIRST_PEAKS],
    #[serde(default)]
    now_later: [Option<f64>; LATER_SENSED],
    #[serde(default)]
    before_later: [Option<f64>; LATER_SENSED],
}

/// The list that a record has a peak in, and its place there.
enum PeakIndex {
    First(usize),
    Later(usize),
}

impl PeakIndex {
    const fn at(place: usize) -> Self {
        match place {
            ..FIRST_SENSED => Self::First(place),
            FIRST_SENSED..SENSED => Self::Later(place - FIRST_SENSED),
            _ => Self::First(place - LATER_SENSED),
        }
    }
}

impl Count {
    const fn span(self) -> Duration {
        match self {
            Self::SamplesLost | Self::Unaccounted | Self::CrashedRuns => LOSSES_WITHIN,
            Self::TakenIds | Self::ConfirmationsRefused => LOSSES_WITHIN,
            Self::TaskRestarts => RESTARTS_WITHIN,
            _ => COUNTED_WITHIN,
        }
    }
}

impl Peaks {
    fn see(&mut self, at: Wall, place: usize, value: Option<f64>) {
        let minute = at.0 / HALF;
        if minute != self.minute {
            // After a pause of more than a minute the last peak
            // is older than an alert may have as evidence.
            let (before, before_later) = match minute == self.minute + 1 {
                true => (self.now, self.now_later),
                false => Default::default(),
            };
            *self = Self { minute, before, before_later, ..Self::default() };
        }

        let now = match PeakIndex::at(place) {
            PeakIndex::First(at) => &mut self.now[at],
            PeakIndex::Later(at) => &mut self.now_later[at],
        };

        *now = Self::worse(place, value, *now);
    }

    /// The worse of two values, as the figure at this index has it; any is worse than none.
    fn worse(place: usize, one: Option<f64>, other: Option<f64>) -> Option<f64> {
        let direction = WORST.get(place).copied().unwrap_or(Direction::HighIsWorse);
        match (one, other) {
            (Some(one), Some(other)) if !direction.is_worse(one, other) => Some(other),
            (one, other) => one.or(other),
        }
    }

    fn get(&self, at: Wall, place: usize) -> Option<f64> {
        let (now, before) = match PeakIndex::at(place) {
            PeakIndex::First(at) => (self.now[at], self.before[at]),
            PeakIndex::Later(at) => (self.now_later[at], self.before_later[at]),
        };
        match (at.0 / HALF).checked_sub(self.minute)? {
            0 => Self::worse(place, now, before),
            1 => now,
            _ => None,
        }
    }
}

impl NodeMetrics {
    /// What a counter grew by within its span.
    pub(in crate::core::fleet) fn increase(&self, at: Wall, what: Count) -> f64 {
        self.counter(what).within(at, what.span())
    }

    fn counter(&self, what: Count) -> &CounterIncrease {
        let place = what as usize;
        self.counted.get(place).unwrap_or_else(|| &self.counted_later[place - COUNTS])
    }

    pub(super) fn last_increase(&self, what: Count) -> Option<Wall> {
        self.counter(what).last()
    }

    pub(in crate::core::fleet) fn peak(&self, at: Wall, index: usize) -> Option<f64> {
        self.peaks.get(at, index)
    }

    /// Whether the last sensor readings came a short time ago.
    pub(in crate::core::fleet) fn are_readings_fresh(&self, at: Wall) -> bool {
        at.since(self.sensed_at) < READINGS_STALE_AFTER
    }

    /// What sensors last reported of a figure.
    pub(in crate::core::fleet) fn sensor_figure(
        &self,
        at: Wall,
        figure: NodeMetric,
    ) -> Option<f64> {
        match SensedFigure::of(figure) {
            Some(sensed) => match PeakIndex::at(sensed as usize) {
                PeakIndex::First(at) => self.sensed[at],
                PeakIndex::Later(at) => self.sensed_later[at],
            },
            None => self.sensor_counters.figure(at, figure),
        }
    }

    /// The labels of the device that last counted towards a figure.
    pub(in crate::core::fleet) fn counted_labels(&self, figure: NodeMetric) -> Option<&Labels> {
        self.sensor_counters.labels(figure)
    }

    /// Counts what the node's ledger and its bus report after a message of an incarnation.
    pub(super) fn observe_counts(
        &mut self,
        at: Wall,
        incarnation: Incarnation,
        ledger: LedgerCounts,
        bus: Option<&Bus>,
    ) {
        let Self { counted, counted_later, known: [account_known, bus_known], .. } = self;
        // A counter of a node that has just become known may have counted for months: as long as it
        // has run for longer than the span, its stand is a beginning and no increase.
        let is_old = |what: Count| at.since(Wall(incarnation.0)) > what.span();

        for (what, stand) in [
            (Count::DuplicateNames, ledger.duplicate_names),
            (Count::SamplesLost, ledger.samples_lost),
            (Count::Unaccounted, ledger.unaccounted),
            (Count::CrashedRuns, ledger.crashed_runs),
        ] {
            let counted = &mut counted[what as usize];
            match *account_known || !is_old(what) {
                true => counted.settle(at, what.span(), stand),
                false => *counted = CounterIncrease::constant(stand),
            }
        }

        *account_known = true;
        let Some(bus) = bus else { return };

        for (what, stand) in [
            (Count::Rerouted, bus.rerouted),
            (Count::Dropped, bus.dropped),
            (Count::KernelDropped, bus.kernel_dropped),
            (Count::TaskRestarts, bus.task_restarts),
            (Count::TakenIds, bus.taken_ids),
            (Count::ConfirmationsRefused, bus.confirmations_refused_sum()),
        ] {
            let place = what as usize;
            let counted =
                counted.get_mut(place).unwrap_or_else(|| &mut counted_later[place - COUNTS]);
            match *bus_known || !is_old(what) {
                true => counted.count(at, what.span(), stand),
                false => *counted = CounterIncrease::constant(stand),
            }
        }

        *bus_known = true;
    }

    pub(super) fn observe_readings(&mut self, at: Wall, readings: &ReadingTable) {
        let sensed = WorstReadings::of(readings, |_| true).values();
        self.sensed.copy_from_slice(&sensed[..FIRST_SENSED]);
        self.sensed_later.copy_from_slice(&sensed[FIRST_SENSED..]);
        self.sensed_at = at;
        self.sensor_counters.see(at, readings);
        for (place, value) in sensed.into_iter().enumerate() {
            self.peaks.see(at, place, value);
        }
    }

    pub(super) fn observe_bus(&mut self, at: Wall, bus: &Bus) {
        let conservative = f64::from(u8::from(bus.conservative));
        let is_open = |state: u8| f64::from(u8::from(state == BreakerState::Open.as_number()));
        self.peaks.see(at, Peak::BREAKER, bus.breaker_state.map(is_open));
        self.peaks.see(at, Peak::CONSERVATIVE, Some(conservative));
    }

    /// What watched counters of jobs grew by in a message; only those in `known`, which is bounded.
    pub(super) fn observe_jobs(
        &mut self,
        at: Wall,
        watched: &BTreeSet<Operation>,
        known: &BTreeMap<Series, f64>,
        latency: &Latency<Packed>,
    ) {
        let grown = latency.counters.iter().filter(|(of, _)| watched.contains(&of.operation));
        for (series, amount) in grown.filter(|(of, _)| known.contains_key(of)) {
            let of = Arc::make_mut(&mut self.jobs).entry(series.clone()).or_default();
            of.add(at, COUNTED_WITHIN, *amount);
        }
    }

    /// The worst readings of the machine's sensors within the last minute or two.
    pub fn peaks(&self, now: Wall) -> HardwareContext {
        let of = |what: SensedFigure| self.peaks.get(now, what as usize);
        let is_held = |what: SensedFigure| of(what).map(|reasons| reasons > 0.0);
        let senses = self.are_readings_fresh(now);
        let recent = |what: NodeMetric| self.sensor_counters.figure(now, what).filter(|_| senses);

        HardwareContext {
            cpu_usage_ratio: of(SensedFigure::CpuUsage),
            memory_used_ratio: of(SensedFigure::Memory),
            cpu_temperature_celsius: of(SensedFigure::CpuTemperature),
            gpu_temperature_celsius: of(SensedFigure::GpuTemperature),
            gpu_memory_used_ratio: of(SensedFigure::GpuMemory),
            gpu_throttled: is_held(SensedFigure::GpuThrottled),
            cpu_throttled: is_held(SensedFigure::CpuThrottled),
            cpu_steal_ratio: of(SensedFigure::CpuSteal),
            cgroup_memory_used_ratio: of(SensedFigure::CgroupMemory),
            cgroup_cpu_throttled_ratio: recent(NodeMetric::CgroupCpuThrottledRatio),
            memory_stalled_ratio: of(SensedFigure::MemoryStalled),
        }
    }

    /// What is kept of a node that has expired: the counters' values, so that what was counted once
    /// is not a new increase when it reports again.
    pub(super) fn of_expired(&self) -> Self {
        let sensor_counters = self.sensor_counters.clone();
        let Self { counted, counted_later, known, .. } = *self;
        Self { counted, counted_later, known, sensor_counters, ..Self::default() }
    }

    /// What a watched counter of a job grew by within the last minute.
    pub fn jobs(&self, at: Wall) -> impl Iterator<Item = (&Series, f64)> {
        let grown = move |grown: &Increase| grown.within(at, COUNTED_WITHIN);
        self.jobs.iter().map(move |(series, of)| (series, grown(of)))
    }

    /// What a watched counter of a job grew by a second over the last minute or so, if it did
    /// throughout.
    pub fn rates(&self, at: Wall) -> impl Iterator<Item = (&Series, f64)> {
        let rate =
            move |(series, grown): (_, &Increase)| Some((series, grown.rate(at, COUNTED_WITHIN)?));
        self.jobs.iter().filter_map(rate)
    }
}

#[cfg(test)]
mod tests;
