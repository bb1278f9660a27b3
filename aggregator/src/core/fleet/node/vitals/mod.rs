//! How a node is now, by what it has told: figures that rules may watch. Worked out when a message
//! is merged, so that ten thousand nodes are judged each second without looking at a sensor.
//! Judges nothing, and knows of no rule but which counters of jobs are watched.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{COUNTED_WITHIN, LOSSES_WITHIN, READINGS_STALE_AFTER};
use plimsoll_schemas::alert::HardwareContext;
use plimsoll_schemas::ids::{Incarnation, Series};
use plimsoll_schemas::metric::Figure;
use plimsoll_schemas::metric::Metric;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::{Wall, seconds};
use serde::{Deserialize, Serialize};

use super::grown::{Counted, Grown};
use super::sensed::{SENSED, Sensed, Worst};
use super::ticks::Ticks;
use super::{Node, Shared};

/// What is counted of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// See [`Figure::Rerouted`].
    Rerouted,
    /// See [`Figure::Dropped`].
    Dropped,
    /// See [`Figure::KernelDropped`].
    KernelDropped,
    /// See [`Figure::NameConflicts`].
    NameConflicts,
    /// See [`Figure::SamplesLost`].
    SamplesLost,
    /// See [`Figure::Unaccounted`].
    Unaccounted,
}

const COUNTS: usize = 6;

/// Beside what sensors say: the breaker's state, and conservative mode.
const PEAKS: usize = SENSED + 2;
const BREAKER: usize = SENSED;
const CONSERVATIVE: usize = SENSED + 1;

/// Half of the time for which peaks are known.
const HALF: u64 = 60_000_000_000;

/// How a node is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Vitals {
    sensed: [Option<f64>; SENSED],
    sensed_at: Wall,
    counted: [Counted; COUNTS],
    ticks: Ticks,
    /// Whether its account and its bus were ever counted: what stood there when a run was first
    /// heard that is older than a span has not grown within it.
    #[serde(default)]
    known: [bool; 2],
    peaks: Peaks,
    /// Counters of jobs that a rule watches.
    jobs: Shared<BTreeMap<Series, Grown>>,
}

/// The greatest values of this minute and of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Peaks {
    minute: u64,
    now: [Option<f64>; PEAKS],
    before: [Option<f64>; PEAKS],
}

impl Count {
    const fn span(self) -> Duration {
        match self {
            Self::SamplesLost | Self::Unaccounted => LOSSES_WITHIN,
            _ => COUNTED_WITHIN,
        }
    }
}

impl Peaks {
    fn see(&mut self, at: Wall, place: usize, value: Option<f64>) {
        let minute = at.0 / HALF;
        if minute != self.minute {
            let before = if minute == self.minute + 1 { self.now } else { Default::default() };
            *self = Self { minute, now: Default::default(), before };
        }
        // `None` is less than any value.
        if value > self.now[place] {
            self.now[place] = value;
        }
    }

    fn get(&self, at: Wall, place: usize) -> Option<f64> {
        let (now, before) = (self.now[place], self.before[place]);
        match (at.0 / HALF).checked_sub(self.minute)? {
            0 if now > before => now,
            0 => before,
            1 => now,
            _ => None,
        }
    }
}

impl Vitals {
    pub(super) fn counted(&self, what: Count) -> &Counted {
        &self.counted[what as usize]
    }

    /// The worst that the machine's sensors said within the last minute or two.
    #[must_use]
    pub fn peaks(&self, now: Wall) -> HardwareContext {
        let of = |what: Sensed| self.peaks.get(now, what as usize);
        let is_held = |what: Sensed| of(what).map(|reasons| reasons > 0.0);
        let senses = now.since(self.sensed_at) < READINGS_STALE_AFTER;
        let of_late = |what: Figure| self.ticks.figure(now, what).filter(|_| senses);
        HardwareContext {
            cpu_usage_ratio: of(Sensed::CpuUsage),
            memory_used_ratio: of(Sensed::Memory),
            cpu_temperature_celsius: of(Sensed::CpuTemperature),
            gpu_temperature_celsius: of(Sensed::GpuTemperature),
            gpu_memory_used_ratio: of(Sensed::GpuMemory),
            gpu_throttled: is_held(Sensed::GpuThrottled),
            cpu_throttled: is_held(Sensed::CpuThrottled),
            cpu_steal_ratio: of(Sensed::CpuSteal),
            cgroup_memory_used_ratio: of(Sensed::CgroupMemory),
            cgroup_cpu_throttled_ratio: of_late(Figure::CgroupCpuThrottledRatio),
            memory_stalled_ratio: of(Sensed::MemoryStalled),
        }
    }

    /// What is kept of a node that is not shown: where counters stood, so that what was counted
    /// once does not grow anew when it speaks again.
    pub(super) fn hidden(&self) -> Self {
        let ticks = self.ticks.clone();
        Self { counted: self.counted, known: self.known, ticks, ..Self::default() }
    }

    /// What a watched counter of a job grew by within the last minute.
    pub(crate) fn jobs(&self, at: Wall) -> impl Iterator<Item = (&Series, f64)> {
        let grown = move |grown: &Grown| grown.within(at, COUNTED_WITHIN);
        self.jobs.into_iter().map(move |(series, of)| (series, grown(of)))
    }
}

/// Looks at what a message brought; each after it was merged.
impl Node {
    /// What is counted, by the node or about it, after a message of this run.
    pub fn watch_counters(&mut self, run: Incarnation) {
        let (bus, at) = (&self.bus.value, self.last_heard);
        let began_anew = [
            (Count::Rerouted, bus.rerouted),
            (Count::Dropped, bus.dropped),
            (Count::KernelDropped, bus.kernel_dropped),
        ];
        let settled = [
            (Count::NameConflicts, self.account.conflicts()),
            (Count::SamplesLost, self.account.lost()),
            (Count::Unaccounted, self.account.unaccounted()),
        ];
        let has_bus = self.bus.of.is_some();
        let Vitals { counted, known: [account_known, bus_known], .. } = &mut self.vitals;
        let is_old = |what: Count| at.since(Wall(run.0)) > what.span();
        for (what, stand) in settled {
            let counted = &mut counted[what as usize];
            match *account_known || !is_old(what) {
                true => counted.settle(at, what.span(), stand),
                false => *counted = Counted::standing(stand),
            }
        }
        *account_known = true;
        for (what, stand) in began_anew.into_iter().filter(|_| has_bus) {
            let counted = &mut counted[what as usize];
            match *bus_known || !is_old(what) {
                true => counted.count(at, what.span(), stand),
                false => *counted = Counted::standing(stand),
            }
        }
        *bus_known |= has_bus;
    }

    /// Its readings.
    pub fn watch_readings(&mut self) {
        let (vitals, at) = (&mut self.vitals, self.last_heard);
        vitals.sensed = Worst::of(&self.readings.value, |_| true).values();
        vitals.sensed_at = at;
        vitals.ticks.see(at, &self.readings.value);
        for (place, value) in vitals.sensed.into_iter().enumerate() {
            vitals.peaks.see(at, place, value);
        }
    }

    /// Its account of its way to the broker.
    pub fn watch_bus(&mut self) {
        let (bus, at) = (&self.bus.value, self.last_heard);
        let conservative = f64::from(u8::from(bus.conservative));
        self.vitals.peaks.see(at, BREAKER, bus.breaker_state.map(f64::from));
        self.vitals.peaks.see(at, CONSERVATIVE, Some(conservative));
    }

    /// What counters of its jobs grew by, those that a rule watches.
    pub fn watch_jobs(&mut self, rules: &Rules, grown: &[(Series, f64)]) {
        if grown.is_empty() {
            return;
        }
        let metrics = rules.thresholds.iter().map(|threshold| &threshold.metric);
        let watched = metrics.filter_map(|metric| match metric {
            Metric::Counter(operation) => Some(operation),
            _ => None,
        });
        for operation in watched {
            for (series, amount) in grown.iter().filter(|(of, _)| of.operation == *operation) {
                // What found no room there finds none here.
                if self.counters.contains_key(series) {
                    let jobs = self.vitals.jobs.make_mut();
                    let of = jobs.entry(series.clone()).or_default();
                    of.add(self.last_heard, COUNTED_WITHIN, *amount);
                }
            }
        }
    }
}

/// A node as it is at one moment.
#[derive(Clone, Copy, Debug)]
pub struct NodeAt<'n> {
    /// The node.
    pub node: &'n Node,
    /// The moment.
    pub at: Wall,
    presence: Presence,
}

impl<'n> NodeAt<'n> {
    /// Looks at it.
    #[must_use]
    pub fn new(node: &'n Node, at: Wall) -> Self {
        Self { node, at, presence: node.presence(at) }
    }

    /// Whether what it told last is still so.
    #[must_use]
    pub fn speaks(&self) -> bool {
        self.presence == Presence::Heard
    }

    /// Whether what its sensors said last is still so.
    #[must_use]
    pub fn senses(&self) -> bool {
        self.speaks() && self.at.since(self.node.vitals.sensed_at) < READINGS_STALE_AFTER
    }

    /// A figure; `None` where nobody knows. Gaps in its account are known to [`crate::core::fleet::gaps`]
    /// alone.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "to be compared with a threshold, no account")]
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        let Self { node, at, presence } = *self;
        let vitals = &node.vitals;
        let grown = |what: Count| vitals.counted(what).within(at, what.span());
        let told = self.speaks() && node.bus.of.is_some();
        let of_bus = |value: f64| told.then_some(value);
        match figure {
            Figure::SilentSeconds if presence == Presence::Left => Some(0.0),
            Figure::SilentSeconds => Some(at.since(node.last_heard).as_secs_f64()),
            Figure::NameConflicts => Some(grown(Count::NameConflicts)),
            Figure::Unaccounted => Some(grown(Count::Unaccounted)),
            Figure::LedgerGap => None,
            Figure::SamplesLost => self.speaks().then(|| grown(Count::SamplesLost)),
            Figure::Rerouted => of_bus(grown(Count::Rerouted)),
            Figure::Dropped => of_bus(grown(Count::Dropped)),
            Figure::KernelDropped => of_bus(grown(Count::KernelDropped)),
            Figure::OutboxMessages => of_bus(node.bus.value.outbox_messages as f64),
            Figure::OutboxBytes => of_bus(node.bus.value.outbox_bytes as f64),
            Figure::RoundTripSeconds => node.bus.value.round_trip_ns.filter(|_| told).map(seconds),
            Figure::BreakerState => vitals.peaks.get(at, BREAKER).filter(|_| told),
            Figure::ConservativeMode => vitals.peaks.get(at, CONSERVATIVE).filter(|_| told),
            Figure::ClockSkewSeconds => {
                let skew = node.skew.filter(|_| self.speaks())?;
                Some(seconds(skew.ahead_ns.unsigned_abs()))
            }
            _ if !self.senses() => None,
            _ => match Sensed::of(figure) {
                Some(sensed) => vitals.sensed[sensed as usize],
                None => vitals.ticks.figure(at, figure),
            },
        }
    }
}

#[cfg(test)]
mod tests;
