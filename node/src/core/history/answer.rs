//! Puts a response together from records, which may come in any order within a segment.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use plimsoll_schemas::hardware::Reading;
use plimsoll_schemas::histogram::{ExactFigures, Histogram, Packed};
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Operation, Seq, Series};
use plimsoll_schemas::limits::wire::{HISTORY_OPERATIONS_MAX, HISTORY_RESPONSE_BYTES_MAX};
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::straggler::{CLASS_LABEL, class_of};
use plimsoll_schemas::subject::{Lane, SnapshotSubject};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::history::{
    HistoryOf, HistoryRequest, HistoryResponse, HistorySlot, MetricValues, OperationTime,
    ReadingRange,
};
use plimsoll_schemas::wire::{Hardware, Latency, Snapshot, apply_changes, decode_packed};

use super::record::Record;
use crate::core::identity::Identity;

/// Bytes of a slot beside its samples, about; and of the response beside its slots.
const SLOT_BYTES: usize = 128;

/// A response while records are read.
#[derive(Debug)]
pub struct Answering {
    request: HistoryRequest,
    /// The part of the requested range that is covered.
    range: Range<Wall>,
    mesh: MeshName,
    node: NodeName,
    slots: BTreeMap<u64, HistoryBin>,
    /// The latest set of readings, to which changes refer.
    set: Option<ReadingSet>,
    /// Messages added so far: an incarnation that takes over from a killed one writes its last ones
    /// again.
    added: BTreeSet<(Incarnation, Seq)>,
    /// Messages that this version cannot read.
    unreadable: u64,
}

#[derive(Debug, Default)]
struct HistoryBin {
    covered_ns: u64,
    samples: Histogram,
    readings: BTreeMap<(String, Labels), Values>,
    counters: BTreeMap<Operation, MetricBin>,
    gauges: BTreeMap<Operation, MetricBin>,
    /// By class, if they have one.
    operations: BTreeMap<(Operation, Option<&'static str>), ExactFigures>,
}

/// Values of a metric, and those of the latest interval among them.
#[derive(Debug)]
struct MetricBin {
    all: Values,
    latest: Values,
    latest_end: Wall,
}

#[derive(Debug)]
struct ReadingSet {
    incarnation: Incarnation,
    number: u64,
    readings: Vec<Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Values {
    min: f64,
    max: f64,
    sum: f64,
    count: u64,
}

impl Answering {
    /// Nothing yet, of this part of the requested range.
    pub fn new(request: HistoryRequest, range: Range<Wall>, identity: &Identity) -> Self {
        let (mesh, node) = (identity.mesh.clone(), identity.node.clone());
        let slots = BTreeMap::new();
        let (set, added, unreadable) = (None, BTreeSet::new(), 0);
        Self { request, range, mesh, node, slots, set, added, unreadable }
    }

    pub fn range(&self) -> &Range<Wall> {
        &self.range
    }

    /// Whether a record is in that part.
    pub fn wants<B>(&self, record: &Record<B>) -> bool {
        self.range.contains(&record.end)
    }

    /// Whether changes of readings need the set that they refer to.
    pub fn needs_sets(&self) -> bool {
        matches!(self.request.of, HistoryOf::Hardware { .. })
    }

    /// Remembers the set of readings that a record before the range has, if it has one.
    pub fn take_set(&mut self, record: &Record<&[u8]>) -> bool {
        let Some(snapshot) = self.decoded(record) else { return false };
        let incarnation = snapshot.header.incarnation;
        match snapshot.body.hardware() {
            Some(hardware) if !hardware.readings.is_empty() => {
                self.set = Some(ReadingSet::of(incarnation, hardware));
                true
            }
            _ => false,
        }
    }

    /// Adds a record of the range.
    pub fn add(&mut self, record: &Record<&[u8]>) {
        let Some(snapshot) = self.decoded(record) else { return };
        if !self.added.insert((snapshot.header.incarnation, snapshot.header.seq)) {
            return;
        }
        let begin = self.request.slot_of(record.end);
        let slot = self.slots.entry(begin).or_default();

        // Each interval has one bus report, and the message that carries it stands for its length.
        if snapshot.body.bus().is_some() {
            slot.covered_ns = slot.covered_ns.saturating_add(record.length_ns);
        }

        match &self.request.of {
            HistoryOf::Latency { operation, labels } => {
                if let Some(latency) = snapshot.body.latency() {
                    slot.add_latency(latency, operation, labels, &snapshot.header.labels);
                }
            }
            HistoryOf::Hardware { sensor } => {
                let incarnation = snapshot.header.incarnation;
                if let Some(hardware) = snapshot.body.hardware() {
                    let readings = readings_of(&mut self.set, incarnation, hardware);
                    slot.add_readings(&readings, sensor.as_deref());
                }
            }
            HistoryOf::Metric { names, operation, labels } => {
                let of_node = &snapshot.header.labels;
                let Some(latency) = snapshot.body.latency() else { return };
                let is_asked =
                    |of: &Series| names.contains(&of.operation) && has_labels(of, labels, of_node);
                add_values(&mut slot.counters, &latency.counters, is_asked, record.end);
                add_values(&mut slot.gauges, &latency.gauges, is_asked, record.end);
                // Without classes, since one sum is asked for.
                slot.add_times(latency, |of| {
                    let is_it = Some(&of.operation) == operation.as_ref();
                    (is_it && has_labels(of, labels, of_node)).then_some(None)
                });
            }
            HistoryOf::Operations => {
                let Some(latency) = snapshot.body.latency() else { return };
                slot.add_times(latency, |of| {
                    let of_node = &snapshot.header.labels;
                    let class = of.labels.get(CLASS_LABEL).or_else(|| of_node.get(CLASS_LABEL));
                    (!is_own(&of.operation)).then(|| class.map(class_of))
                });
            }
        }
    }

    fn decoded(&mut self, record: &Record<&[u8]>) -> Option<Snapshot<Packed>> {
        // A record states no lane, which changes nothing of what a message means.
        let subject = SnapshotSubject {
            mesh: self.mesh.clone(),
            lane: Lane::Normal,
            node: self.node.clone(),
            kind: record.kind,
        };
        let decoded = decode_packed(&subject, record.message).ok();
        self.unreadable += u64::from(decoded.is_none());
        decoded
    }

    /// The response, of about `bytes_max` bytes at most unless one slot alone has more. Slots that
    /// it has no room for are left to the next request, the oldest first.
    pub fn finish(
        self,
        kept_from: Option<Wall>,
        missing: u64,
        bytes_max: usize,
    ) -> HistoryResponse {
        if self.slots.values().any(|slot| slot.operations.len() > HISTORY_OPERATIONS_MAX) {
            let why =
                format!("more than {HISTORY_OPERATIONS_MAX} operations and classes in one slot");
            return HistoryResponse::refusal(self.request.number, why);
        }
        let mut from = self.range.start;
        let bytes_max = bytes_max.min(HISTORY_RESPONSE_BYTES_MAX);
        let mut bytes = SLOT_BYTES;
        let mut slots = Vec::new();

        // The newest first: what finds no room is requested next, from the time that this response
        // states (S34).
        for (begin, slot) in self.slots.into_iter().rev() {
            let slot = slot.finish(begin);
            bytes += bytes_of(&slot);
            if bytes > bytes_max && !slots.is_empty() {
                from = Wall(begin.saturating_add(self.request.step_ns));
                break;
            }
            slots.push(slot);
        }

        HistoryResponse {
            number: self.request.number,
            from,
            kept_from,
            missing: missing.saturating_add(self.unreadable),
            slots,
            refused: String::new(),
        }
    }
}

impl HistoryBin {
    fn add_latency(
        &mut self,
        latency: &Latency<Packed>,
        operation: &Operation,
        labels: &Labels,
        of_node: &Labels,
    ) {
        for (series, samples) in &latency.histograms {
            if series.operation == *operation && has_labels(series, labels, of_node) {
                self.samples.merge_packed(samples);
            }
        }
    }

    /// Adds the time of each series that is asked for, to the class that it has.
    fn add_times(
        &mut self,
        latency: &Latency<Packed>,
        class: impl Fn(&Series) -> Option<Option<&'static str>>,
    ) {
        for (series, samples) in &latency.histograms {
            if let Some(class) = class(series) {
                let of = (series.operation.clone(), class);
                self.operations.entry(of).or_default().merge(&samples.exact());
            }
        }
    }

    fn add_readings(&mut self, readings: &[Reading], sensor: Option<&str>) {
        let wanted = |reading: &&Reading| sensor.is_none_or(|sensor| reading.sensor == sensor);
        for reading in readings.iter().filter(wanted) {
            let Some(value) = reading.value else { continue };
            let of = (reading.sensor.clone(), reading.labels.clone());
            self.readings.entry(of).or_insert(Values::NONE).add(value);
        }
    }

    fn finish(self, begin_ns: u64) -> HistorySlot {
        let samples = (self.samples.count() > 0).then(|| Packed::from(&self.samples));
        let range = |((sensor, labels), values): ((String, Labels), Values)| ReadingRange {
            sensor,
            labels,
            min: values.min,
            mean: values.mean(),
            max: values.max,
            count: values.count,
        };
        let time = |((operation, class), of): ((Operation, Option<&str>), ExactFigures)| {
            let class = class.map(str::to_owned);
            let sum_ns = u64::try_from(of.sum_ns).unwrap_or(u64::MAX);
            OperationTime { operation, class, count: of.count, sum_ns, max_ns: of.max_ns }
        };
        let times = self.operations.into_iter().filter(|(_, of)| of.count > 0);

        HistorySlot {
            begin_ns,
            covered_ns: self.covered_ns,
            samples,
            readings: self.readings.into_iter().map(range).collect(),
            counters: self.counters.into_iter().map(MetricBin::finish).collect(),
            gauges: self.gauges.into_iter().map(MetricBin::finish).collect(),
            operations: times.map(time).collect(),
        }
    }
}

fn has_labels(series: &Series, labels: &Labels, of_node: &Labels) -> bool {
    let has = |(key, value): (&str, &str)| {
        series.labels.get(key).or_else(|| of_node.get(key)) == Some(value)
    };
    labels.iter().all(has)
}

fn add_values(
    bins: &mut BTreeMap<Operation, MetricBin>,
    values: &[(Series, f64)],
    is_asked: impl Fn(&Series) -> bool,
    end: Wall,
) {
    for (series, value) in values.iter().filter(|(series, _)| is_asked(series)) {
        let none = || MetricBin { all: Values::NONE, latest: Values::NONE, latest_end: end };
        let bin = bins.entry(series.operation.clone()).or_insert_with(none);
        bin.all.add(*value);
        // Records come in any order.
        if end > bin.latest_end {
            (bin.latest, bin.latest_end) = (Values::NONE, end);
        }
        if end == bin.latest_end {
            bin.latest.add(*value);
        }
    }
}

impl MetricBin {
    fn finish((metric, bin): (Operation, Self)) -> MetricValues {
        let Values { min, max, sum, count } = bin.all;
        // Of great values a sum may overflow, and an aggregator refuses what is not finite.
        let sum = sum.clamp(f64::MIN, f64::MAX);
        MetricValues { metric, count, sum, min, max, last: bin.latest.mean() }
    }
}

impl Values {
    const NONE: Self = Self { min: f64::INFINITY, max: f64::NEG_INFINITY, sum: 0.0, count: 0 };

    fn add(&mut self, value: f64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += value;
        self.count += 1;
    }

    fn mean(self) -> f64 {
        // A sum of great values may overflow, and a rounded mean must not leave the range.
        (self.sum / self.count as f64).clamp(self.min, self.max)
    }
}

impl ReadingSet {
    fn of(incarnation: Incarnation, hardware: &Hardware) -> Self {
        Self { incarnation, number: hardware.set, readings: hardware.readings.clone() }
    }
}

/// All readings of an interval, of which its message may hold only the changes; none when the set
/// is unknown.
fn readings_of(
    set: &mut Option<ReadingSet>,
    incarnation: Incarnation,
    hardware: &Hardware,
) -> Vec<Reading> {
    if !hardware.is_change() {
        return set.insert(ReadingSet::of(incarnation, hardware)).readings.clone();
    }
    let known =
        set.as_ref().filter(|set| (set.incarnation, set.number) == (incarnation, hardware.set));
    let mut readings = known.map(|set| set.readings.clone()).unwrap_or_default();
    apply_changes(&mut readings, &hardware.changed);
    readings
}

/// About how many bytes a slot takes in a response.
fn bytes_of(slot: &HistorySlot) -> usize {
    let samples = slot.samples.as_ref().map_or(0, |samples| SLOT_BYTES + samples.heap_bytes());
    let reading = |reading: &ReadingRange| {
        let labels: usize =
            reading.labels.iter().map(|(key, value)| key.len() + value.len() + 4).sum();
        SLOT_BYTES / 2 + reading.sensor.len() + labels
    };
    let metrics = slot.counters.iter().chain(&slot.gauges).map(|of| &of.metric);
    let named = metrics.chain(slot.operations.iter().map(|of| &of.operation));
    let named = named.map(|name| SLOT_BYTES + name.as_str().len());
    SLOT_BYTES + samples + slot.readings.iter().map(reading).sum::<usize>() + named.sum::<usize>()
}
