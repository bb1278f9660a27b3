//! What the aggregator keeps about one node: its ledger entry, operations, counters, gauges, sensor
//! readings, events and the metrics that rules watch. Merging is idempotent only together with the
//! ledger entry, which decides what is new.
//!
//! DESIGN A152.

mod clock_offset;
mod increase;
mod latest;
pub(in crate::core::fleet) mod metrics;
mod reading_table;
mod readings;
mod sensed;
mod sensor_counters;
mod trouble;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{
    ENDED_MAX, GAUGES_STALE_AFTER, LEDGER_EVICT_AFTER, NODE_HIDE_AFTER, NODE_HIDE_CROWDED_AFTER,
    NODE_HIDE_SILENT_AFTER, NODE_SERIES_MAX, NODE_SILENT_AFTER, SERVICE_CHECKS_MAX, TROUBLE_LASTS,
};
use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::ids::{Incarnation, Labels, NodeName, Operation, Series};
use plimsoll_schemas::limits::delivery::REROUTE_PRESSURE;
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{AlertType, Bus, Event, EventSource, Hardware, Latency};
use serde::{Deserialize, Serialize};

pub(crate) use increase::CounterIncrease;
use latest::Reception;
pub use latest::{Latest, MessageKey};
pub use metrics::NodeMetrics;
pub(crate) use reading_table::{KnownReading, ReadingTable};
pub(crate) use readings::Readings;
pub(crate) use sensed::{SensedFigure, WorstReadings};
pub use trouble::Trouble;

use super::bounded::bounded_entry;
use super::ledger::LedgerEntry;
use super::operations::Operations;
use super::window::{Phase, Windows};
use crate::core::ingest::{EventTime, Skew, Timeliness};
use clock_offset::ClockOffset;
use metrics::{Count, LedgerCounts};
use readings::Taken;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Node {
    /// Which of its snapshots were merged.
    pub account: LedgerEntry,
    /// When it was last seen, on the aggregator's clock.
    pub last_seen: Wall,
    /// When its first message arrived; 0 if a former program stored it.
    #[serde(default)]
    pub first_seen: Wall,
    /// True once it has expired and is not shown any more. Its ledger entry stays.
    pub hidden: bool,
    pub labels: Latest<Labels>,
    /// The offset of its clock, as last seen; `None` if it is unknown.
    pub skew: Option<Skew>,
    /// The same as rules and pages have it.
    clock: ClockOffset,
    pub operations: Operations,
    /// Operations that its jobs have ended normally, and when; what they bring later begins
    /// them again.
    ended: Arc<BTreeMap<Operation, Wall>>,
    /// Sums of what its jobs added to their counters. A record of an earlier version has what was
    /// subtracted in it, so it may be negative.
    pub counters: Arc<BTreeMap<Series, f64>>,
    /// Sums of what its jobs subtracted from some of these counters.
    #[serde(default)]
    pub lowered: Arc<BTreeMap<Series, f64>>,
    pub gauges: Arc<BTreeMap<Series, Latest<f64>>>,
    pub readings: Readings,
    /// What it reports of its way to the broker.
    pub bus: Latest<Arc<Bus>>,
    /// Events and service checks that it sent, by source and how bad they were.
    pub events: Arc<BTreeMap<(EventSource, AlertType), u64>>,
    /// The latest status of each service check, by its name and tags: `db|#instance:1`.
    pub checks: Arc<BTreeMap<String, Latest<AlertType>>>,
    /// What a limit rejected of its messages, by kind; see `MergeCounts::limited`.
    #[serde(default)]
    pub limited: Arc<BTreeMap<Cow<'static, str>, u64>>,
    /// What rules may watch of it.
    pub metrics: NodeMetrics,
}

impl Node {
    /// Whether the node is to be expected.
    pub fn presence(&self, now: Wall) -> Presence {
        let silence = now.since(self.last_seen);
        if self.account.has_left() {
            Presence::Left
        } else if silence >= NODE_SILENT_AFTER {
            Presence::Silent
        } else {
            Presence::Up
        }
    }

    /// True once a node has been gone for so long that it is not shown: soon after its final
    /// message or if it is known by bus messages alone, otherwise when the streams no longer hold
    /// anything of it. Where the table of nodes is crowded, after it was silent for as long as it
    /// was known before, while others were seen: `crowded_as_of` is when any of them last was.
    pub fn may_be_hidden(&self, now: Wall, crowded_as_of: Option<Wall>) -> bool {
        let silence = |at: Wall| at.since(self.last_seen);
        // The shortest of these times: asked each second, nearly all nodes are done here.
        if silence(now) < NODE_HIDE_CROWDED_AFTER {
            return false;
        }
        let known_for = self.last_seen.since(self.first_seen).max(NODE_HIDE_CROWDED_AFTER);
        let is_of_bus = self.account.is_empty() && self.readings.get().iter().next().is_none();
        let goes_soon = self.account.has_left() || is_of_bus;
        let patience = if goes_soon { NODE_HIDE_AFTER } else { NODE_HIDE_SILENT_AFTER };
        silence(now) >= patience || crowded_as_of.is_some_and(|at| silence(at) >= known_for)
    }

    /// True once nothing that was merged can come again, wherever it was kept; of a node that has
    /// expired and never had a sample there is nothing.
    pub fn may_be_evicted(&self, now: Wall) -> bool {
        let is_old = now.since(self.last_seen) >= LEDGER_EVICT_AFTER;
        is_old || self.hidden && self.account.is_empty()
    }

    /// What is kept of the node while it is not shown: its ledger entry, and when it was last seen.
    pub fn expired(&self) -> Self {
        let (mut account, last_seen) = (self.account.clone(), self.last_seen);
        let first_seen = self.first_seen;
        account.on_expired();
        Self {
            account,
            last_seen,
            first_seen,
            metrics: self.metrics.of_expired(),
            hidden: true,
            ..Self::default()
        }
    }

    /// A message was read whose interval ended then by its clock. Returns when its samples were
    /// taken.
    pub fn see(&mut self, name: &NodeName, time: &EventTime, ended: Wall) -> (Wall, Timeliness) {
        let (taken, timeliness) = time.taken(ended, self.skew);
        if self.last_seen.0 == 0 {
            self.first_seen = time.arrived;
        }
        self.last_seen = self.last_seen.max(time.seen.unwrap_or(taken));
        self.hidden = false;
        self.see_clock(time.skew);
        // Before samples are added, which would roll over at once what waits for the node's phase.
        self.operations.expire(time.judged_up_to, Phase::of(name));
        (taken, timeliness)
    }

    /// Takes how far its clock is off.
    pub fn see_clock(&mut self, skew: Option<Skew>) {
        let better = |skew: &Skew| self.skew.is_none_or(|known| skew.is_better_than(&known));
        self.skew = skew.filter(better).or(self.skew);
        skew.into_iter().for_each(|skew| self.clock.see(skew));
    }

    /// Drops what is known of its clock.
    pub fn reset_clock(&mut self) {
        (self.skew, self.clock) = (None, ClockOffset::default());
    }

    /// How much longer its latest message was under way than its fastest one of some minutes.
    pub fn delay(&self) -> Duration {
        self.clock.delay()
    }

    /// Its latest round trip to the broker, as it reports it.
    pub fn round_trip(&self) -> Option<Duration> {
        self.bus.value.round_trip_ns.map(Duration::from_nanos)
    }

    /// Nanoseconds by which its clock is ahead of the broker's, as far as no delay of its messages
    /// explains it.
    pub fn clock_ahead_ns(&self) -> Option<i64> {
        self.clock.ahead_ns(self.round_trip())
    }

    #[expect(clippy::cast_precision_loss, reason = "a second is exact enough at a hundred days")]
    pub fn clock_ahead_seconds(&self) -> Option<f64> {
        self.clock_ahead_ns().map(|ns| ns as f64 / 1e9)
    }

    pub fn take_labels(&mut self, from: MessageKey, labels: &Labels) {
        let now = Reception { account: &self.account, at: self.last_seen };
        self.labels.offer(now, from, labels.clone());
    }

    /// Adds to counters and replaces gauges; returns how many series found no room.
    pub fn take_numbers(&mut self, from: MessageKey, latency: &Latency<Packed>) -> u64 {
        let mut without_room = 0;
        for (series, amount) in &latency.counters {
            // Whatever is subtracted has its place here too, so that `lowered` is bounded with it.
            let Some(sum) =
                bounded_entry(Arc::make_mut(&mut self.counters), series, NODE_SERIES_MAX)
            else {
                without_room += 1;
                continue;
            };

            // What subtracts is summed apart, so that neither sum ever falls.
            let sum = match *amount < 0.0 {
                true => Arc::make_mut(&mut self.lowered).entry(series.clone()).or_default(),
                false => sum,
            };

            // Two finite numbers may add up to infinity.
            *sum = (*sum + amount.abs()).min(f64::MAX);
        }

        let now = Reception { account: &self.account, at: self.last_seen };
        if self.gauges.len() + latency.gauges.len() > NODE_SERIES_MAX {
            // Those of jobs that have ended make room.
            Arc::make_mut(&mut self.gauges)
                .retain(|_, gauge| now.at.since(gauge.at) < GAUGES_STALE_AFTER);
        }

        for (series, value) in &latency.gauges {
            match bounded_entry(Arc::make_mut(&mut self.gauges), series, NODE_SERIES_MAX) {
                Some(gauge) => gauge.offer(now, from, *value),
                None => without_room += 1,
            }
        }

        without_room
    }

    /// Its gauges that jobs still send: the latest value of one that has ended is not current.
    pub fn fresh_gauges(&self, now: Wall) -> impl Iterator<Item = (&Series, &Latest<f64>)> {
        self.gauges.iter().filter(move |(_, latest)| now.since(latest.at) < GAUGES_STALE_AFTER)
    }

    pub fn gauge_received_at(&self, operation: &Operation) -> Option<Wall> {
        let from = self.gauges.range(Series::plain(operation.clone())..);
        let of = from.take_while(|(series, _)| series.operation == *operation);
        of.map(|(_, latest)| latest.at).max()
    }

    /// Takes readings of known sensors; returns how many were of unknown ones.
    pub fn take_readings(&mut self, from: MessageKey, hardware: Hardware) -> u64 {
        let now = Reception { account: &self.account, at: self.last_seen };
        let Taken { is_newer, unknown } = self.readings.take(now, from, hardware);
        if is_newer {
            self.metrics.observe_readings(self.last_seen, self.readings.get());
        }
        unknown
    }

    /// Takes what it reports of its way to the broker.
    pub fn take_bus(&mut self, from: MessageKey, bus: Bus) {
        let now = Reception { account: &self.account, at: self.last_seen };
        self.bus.offer(now, from, bus.into());
    }

    pub fn take_ended<'a>(&mut self, at: Wall, operations: impl Iterator<Item = &'a Operation>) {
        for operation in operations {
            let of = Arc::make_mut(&mut self.ended).entry(operation.clone()).or_default();
            *of = at.max(*of);
        }
        while self.ended.len() > ENDED_MAX {
            // Of several the first by name: the order of arrival must decide nothing.
            let oldest = self.ended.iter().min_by_key(|(name, at)| (**at, *name));
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { return };
            Arc::make_mut(&mut self.ended).remove(&oldest);
        }
    }

    /// Whether the jobs of an operation have ended normally, and it has no later samples.
    pub fn has_ended(&self, operation: &Operation) -> bool {
        let newest = self.operations.get(operation).map(Windows::newest).unwrap_or_default();
        self.ended.get(operation).is_some_and(|at| *at >= newest)
    }

    /// Updates what rules watch of counts, after a message of this incarnation was merged.
    pub fn observe_counts(&mut self, incarnation: Incarnation) {
        let ledger = LedgerCounts {
            duplicate_names: self.account.conflicts(),
            samples_lost: self.account.lost_of_jobs(),
            unaccounted: self.account.unaccounted().saturating_add(self.account.surplus()),
            crashed_runs: self.account.crashes(),
        };
        // Without a report its counters are unknown and not 0,
        // from where its first report would be an increase.
        let bus = self.bus.is_known().then_some(&*self.bus.value);
        self.metrics.observe_counts(self.last_seen, incarnation, ledger, bus);
    }

    /// Updates what rules watch of its way to the broker.
    pub fn observe_bus(&mut self) {
        self.metrics.observe_bus(self.last_seen, &self.bus.value);
    }

    /// Updates what rules watch of its jobs' counters.
    pub fn observe_jobs(&mut self, watched: &BTreeSet<Operation>, latency: &Latency<Packed>) {
        self.metrics.observe_jobs(self.last_seen, watched, &self.counters, latency);
    }

    /// Counts the events of one message and takes the last status of each check in it; returns how
    /// many checks found no room.
    pub fn take_events(&mut self, from: MessageKey, events: &[Event]) -> u64 {
        let mut statuses = BTreeMap::new();
        for event in events {
            *Arc::make_mut(&mut self.events)
                .entry((event.source, event.alert_type))
                .or_default() += 1;
            if event.source == EventSource::ServiceCheck {
                statuses.insert(check_of(event), event.alert_type);
            }
        }

        let now = Reception { account: &self.account, at: self.last_seen };
        let mut without_room = 0;

        for (name, status) in statuses {
            match bounded_entry(Arc::make_mut(&mut self.checks), &name, SERVICE_CHECKS_MAX) {
                Some(check) => check.offer(now, from, status),
                None => without_room += 1,
            }
        }

        without_room
    }

    pub fn has_jobs(&self) -> bool {
        self.operations.iter().any(|(operation, _)| !is_own(operation))
    }

    pub fn check_statuses(&self) -> BTreeMap<String, AlertType> {
        self.checks.iter().map(|(name, check)| (name.clone(), check.value)).collect()
    }

    /// What is wrong with it; `gap_samples` are missing for too long.
    pub fn troubles(&self, now: Wall, gap_samples: u64) -> impl Iterator<Item = Trouble> {
        let is_reporting = self.presence(now) == Presence::Up;
        let deep = is_reporting && self.bus.value.outbox_pressure > REROUTE_PRESSURE;

        let grew = |what| {
            let last = self.metrics.last_increase(what);
            last.is_some_and(|at| now.since(at) < TROUBLE_LASTS)
        };

        let found = [
            (Trouble::OutboxDeep, deep),
            (Trouble::Rerouted, grew(Count::Rerouted)),
            (Trouble::DuplicateName, grew(Count::DuplicateNames)),
            (Trouble::KernelDropped, grew(Count::KernelDropped)),
            (Trouble::Dropped, grew(Count::Dropped)),
            (Trouble::RunCrashed, grew(Count::CrashedRuns)),
            (Trouble::SamplesLost, grew(Count::SamplesLost)),
            (Trouble::Unaccounted, self.account.unaccounted() > 0 || self.account.surplus() > 0),
            (Trouble::LedgerGap, gap_samples > 0),
        ];

        found.into_iter().filter_map(|(of, is_so)| is_so.then_some(of))
    }
}

/// What a service check is about, as DogStatsD writes it: its name, host and tags.
fn check_of(event: &Event) -> String {
    let host = (!event.host.is_empty()).then(|| format!("host:{}", event.host));
    let tags = event.labels.iter().map(|(key, value)| format!("{key}:{value}"));
    let tags: Vec<String> = host.into_iter().chain(tags).collect();
    match tags.is_empty() {
        true => event.title.clone(),
        false => format!("{}|#{}", event.title, tags.join(",")),
    }
}

#[cfg(test)]
mod tests;
