//! One side from the history of an aggregator: a run, or a range of the fleet. Each point of an
//! answer is a slot; where all nodes answer from their own histories, these are seconds.
//!
//! [`SideReader`] states what is to be asked and takes the answers, so that a client over HTTP and
//! the aggregator itself make the same side.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::api::{OVERFLOW, ROLLUP_GROUPS_MAX};
use plimsoll_schemas::run::RUN_LABEL;
use plimsoll_schemas::summary::{
    HistoryPage, HistoryPoint, MetricHistoryPage, MetricKind, MetricPoint, MetricsPage,
    OperationsPage,
};
use thiserror::Error;

use crate::side::{BucketLayout, Measured, MeasuredRate, RateSlot, Side, Slot};

/// Points of one answer; an aggregator gives 3 600 at most, and widens the range by a few.
const POINTS_MAX: f64 = 3_500.0;
/// The shortest slots of a history.
const STEP_MIN: f64 = 10.0;
/// The shortest slots of nodes' own histories.
const NODES_STEP_MIN: f64 = 1.0;
/// Counters of one comparison.
const RATES_MAX: usize = 128;
/// The share of the samples that nodes must answer with; their clocks may cut off a few.
const ANSWERED_MIN: f64 = 0.99;

/// From when until when, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecondsRange {
    pub from: f64,
    pub to: f64,
}

impl SecondsRange {
    /// Its length.
    pub fn seconds(self) -> f64 {
        self.to - self.from
    }

    /// The shortest range with both in it.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), to: self.to.max(other.to) }
    }
}

/// A side that a history has.
#[derive(Clone, Debug, PartialEq)]
pub enum HistorySide {
    /// All samples with this label `run`.
    Run(String),
    /// All samples of the fleet in a range.
    Range(SecondsRange),
}

/// One question to the history. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRequest {
    pub operation: String,
    /// The run; without one the fleet.
    pub run: Option<String>,
    pub from: f64,
    pub to: f64,
    /// Length of a point in seconds.
    pub step: f64,
    /// Whether points are to have their samples by bucket.
    pub with_distribution: bool,
}

impl HistoryRequest {
    /// The same question to all nodes, about shorter slots of their own histories; `None` where
    /// these are no shorter.
    pub fn of_nodes(&self) -> Option<Self> {
        let step = ((self.to - self.from) / POINTS_MAX).max(NODES_STEP_MIN).ceil();
        let is_finer = self.with_distribution && step < self.step;
        is_finer.then(|| Self { step, ..self.clone() })
    }
}

/// Whether nodes have answered with all that the history has.
pub fn is_whole(of_nodes: &HistoryPage, of_fleet: &[HistoryPoint]) -> bool {
    let samples =
        |points: &[HistoryPoint]| points.iter().map(|point| point.count as f64).sum::<f64>();
    of_nodes.nodes.iter().flatten().all(|node| node.error.is_none())
        && samples(&of_nodes.points) >= samples(of_fleet) * ANSWERED_MIN
}

/// Whether the history has samples of runs that it does not keep by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    None,
    Kept,
}

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Kept => write!(
                f,
                "; {ROLLUP_GROUPS_MAX} groups of one run and one operation are kept by name, and \
                 samples of further runs are in the group {OVERFLOW:?}"
            ),
        }
    }
}

/// Why a history has no such side.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NoSide {
    /// The run is unknown.
    #[error("run {run:?} is not in the history; it has {}{others}", .known.join(", "))]
    Unknown {
        run: String,
        /// Those that the history has.
        known: Vec<String>,
        /// Whether samples of the run may be with those of others.
        others: Others,
    },
    /// What takes the samples of runs without room of their own is none of them.
    #[error(
        "{OVERFLOW:?} is not a run: it has the samples of runs beyond the first \
         {ROLLUP_GROUPS_MAX} groups"
    )]
    Others,
    /// There is nothing of it.
    #[error("no samples in the history")]
    Empty,
}

/// One question about a counter. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct RateRequest {
    pub metric: String,
    /// The run; without one the fleet.
    pub run: Option<String>,
    pub from: f64,
    pub to: f64,
    /// Length of a point in seconds.
    pub step: f64,
}

/// What to ask of the counters of a side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateRequests {
    pub requests: Vec<RateRequest>,
    /// Counters beyond the bound of one comparison.
    pub left_out: usize,
}

/// What to ask of the wanted counters of a side whose samples are read: all that the history has of
/// its run, in the time of these samples, or all of the fleet in the range. Counters of operations
/// come first.
pub fn rate_requests(
    of: &HistorySide,
    side: &Side,
    known: &MetricsPage,
    is_wanted: impl Fn(&str) -> bool,
) -> RateRequests {
    let (run, range) = match of {
        HistorySide::Run(run) => (Some(run), range_of(side)),
        HistorySide::Range(range) => (None, Some(*range)),
    };
    let Some(SecondsRange { from, to }) = range else { return RateRequests::default() };

    let counters = known.metrics.iter().filter(|row| row.kind == MetricKind::Counter);
    let counters: BTreeSet<&str> = counters.map(|row| row.metric.as_str()).collect();
    let of_run = run.map(|run| known.of_group(RUN_LABEL, run));
    let is_of_run = |name: &&str| of_run.as_ref().is_none_or(|of| of.contains(name));
    let mut names: Vec<&str> =
        counters.into_iter().filter(|name| is_wanted(name)).filter(is_of_run).collect();
    names.sort_by_key(|name| operation_of(name, side).is_none());

    let left_out = names.len().saturating_sub(RATES_MAX);
    let request = |metric: &str| RateRequest {
        metric: metric.to_owned(),
        run: run.cloned(),
        from,
        to,
        step: step(to - from),
    };
    RateRequests { requests: names.into_iter().take(RATES_MAX).map(request).collect(), left_out }
}

/// The operation of a side that a counter's name starts with.
fn operation_of<'s>(counter: &str, side: &'s Side) -> Option<&'s Measured> {
    side.operations.get(counter.rsplit_once('.')?.0)
}

/// From when until when a side has samples.
fn range_of(side: &Side) -> Option<SecondsRange> {
    let slots = || side.operations.values().flat_map(|measured| &measured.slots);
    let from = slots().map(|slot| slot.start_ns).min()?;
    let to = slots().map(|slot| slot.start_ns.saturating_add(slot.length_ns)).max()?;
    Some(SecondsRange { from: from as f64 / 1e9, to: to as f64 / 1e9 })
}

/// A counter whose slots are points; `None` without any value.
pub fn measured_rate(page: &MetricHistoryPage) -> Option<MeasuredRate> {
    rate_of(&page.points, page.operation.clone())
}

/// The same of points alone, divided by the time of this operation, or by wall time.
pub fn rate_of(points: &[MetricPoint], operation: Option<String>) -> Option<MeasuredRate> {
    if points.iter().all(|point| point.count == 0) {
        return None;
    }
    if operation.is_some() {
        return Some(MeasuredRate { operation, slots: by_operation(points) });
    }

    // The job started within the first slot and ended within the last one: the time that it had of
    // them is not known.
    let whole = points.get(1..points.len() - 1).unwrap_or_default();
    let slot = |point: &MetricPoint| RateSlot {
        amount: point.sum,
        seconds: point.to_seconds - point.from_seconds,
    };
    Some(MeasuredRate { operation, slots: whole.iter().map(slot).collect() })
}

/// Slots in which the operation ended, each with what was counted since the one before: a step may
/// be longer than a slot.
fn by_operation(points: &[MetricPoint]) -> Vec<RateSlot> {
    let (mut slots, mut carried) = (Vec::new(), 0.0);
    for point in points {
        carried += point.sum;
        if let Some(seconds) = point.operation_seconds {
            slots.push(RateSlot { amount: carried, seconds });
            carried = 0.0;
        }
    }
    if let Some(last) = slots.last_mut() {
        last.amount += carried;
    }
    slots
}

/// Reads a side, one operation after the other.
#[derive(Debug)]
pub struct SideReader {
    run: Option<String>,
    /// From when on the history has samples, and now.
    kept: SecondsRange,
    operations: VecDeque<Operation>,
    /// The range of the first of the operations, once it is known.
    range: Option<SecondsRange>,
    /// The range of all operations, if it is given.
    given: Option<SecondsRange>,
    side: Side,
}

impl SideReader {
    /// Begins to read, given what the history has. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// When the run is unknown or none.
    pub fn new(of: HistorySide, known: &OperationsPage, now: f64) -> Result<Self, NoSide> {
        let (run, given) = match of {
            HistorySide::Run(run) => (Some(run), None),
            HistorySide::Range(range) => (None, Some(range)),
        };
        let names = match &run {
            Some(run) => operations_of_run(known, run)?,
            None => known.operations.iter().map(String::as_str).collect(),
        };
        let operations = names.into_iter().filter_map(|name| Operation::new(name).ok()).collect();
        // A history that was empty until a moment ago would be a range without length.
        let kept = SecondsRange { from: known.kept_from_seconds.min(now - STEP_MIN), to: now };
        Ok(Self { run, kept, operations, range: given, given, side: Side::default() })
    }

    /// Reads these operations alone, or the first if there are none: a side of counters needs the
    /// time of its run.
    pub fn retain(&mut self, is_wanted: impl Fn(&Operation) -> bool) {
        let first = self.operations.front().cloned();
        self.operations.retain(is_wanted);
        if self.operations.is_empty() {
            self.operations.extend(first);
        }
    }

    /// How many operations are still to be read.
    pub fn operations_left(&self) -> usize {
        self.operations.len()
    }

    /// What to ask next; `None` when everything was read.
    pub fn next_request(&self) -> Option<HistoryRequest> {
        let operation = self.operations.front()?.to_string();
        let range = self.range.unwrap_or(self.kept);
        let (SecondsRange { from, to }, step) = (range, step(range.seconds()));
        let (run, with_distribution) = (self.run.clone(), self.range.is_some());
        Some(HistoryRequest { operation, run, from, to, step, with_distribution })
    }

    /// The points of the answer to the latest request.
    pub fn on_answer(&mut self, points: &[HistoryPoint]) {
        // The samples of a run are somewhere in up to two years: the
        // first question, without distributions, finds where, so
        // that slots of the second are as short as the run allows.
        if self.range.is_none() {
            self.range = extent(points);
            if self.range.is_none() {
                self.operations.pop_front();
            }
            return;
        }

        self.range = self.given;
        let measured = measured(points);
        if let Some(operation) = self.operations.pop_front().filter(|_| !measured.slots.is_empty())
        {
            self.side.operations.insert(operation, measured);
        }
    }

    /// The side.
    ///
    /// # Errors
    /// When there were no samples.
    pub fn finish(self) -> Result<Side, NoSide> {
        if self.side.operations.is_empty() { Err(NoSide::Empty) } else { Ok(self.side) }
    }
}

/// The operations of which a history has samples with the label of a run.
///
/// # Errors
/// When it has none; names the runs that it has.
pub fn operations_of_run<'k>(known: &'k OperationsPage, run: &str) -> Result<Vec<&'k str>, NoSide> {
    if run == OVERFLOW {
        return Err(NoSide::Others);
    }
    let groups = || known.groups.iter().filter(|group| group.rollup == RUN_LABEL);
    let runs = || groups().filter(|group| group.values != [OVERFLOW]);
    let of_run = runs().filter(|group| group.values == [run]);
    let found: Vec<&str> = of_run.map(|group| group.operation.as_str()).collect();

    if found.is_empty() {
        let names = runs().filter_map(|group| group.values.first());
        let mut names: Vec<String> = names.cloned().collect();
        names.sort_unstable();
        names.dedup();
        let others = if runs().eq(groups()) { Others::None } else { Others::Kept };
        return Err(NoSide::Unknown { run: run.to_owned(), known: names, others });
    }

    Ok(found)
}

/// The length of a point of a range of this many seconds, in seconds.
pub fn step(seconds: f64) -> f64 {
    (seconds / POINTS_MAX).max(STEP_MIN).ceil()
}

/// An operation whose slots are the points with samples.
pub fn measured(points: &[HistoryPoint]) -> Measured {
    let mut measured = Measured::new(BucketLayout::MESH);
    measured.slots = points.iter().filter_map(slot).collect();
    measured
}

/// From when until when points have samples.
pub fn extent(points: &[HistoryPoint]) -> Option<SecondsRange> {
    let mut used = points.iter().filter(|point| point.count > 0);
    let first = used.next()?;
    let last = used.next_back().unwrap_or(first);
    Some(SecondsRange { from: first.from_seconds, to: last.to_seconds })
}

fn slot(point: &HistoryPoint) -> Option<Slot> {
    let samples = point.distribution.as_ref()?.to_packed();
    (!samples.is_empty()).then_some(Slot {
        node: None,
        start_ns: nanos(point.from_seconds)?,
        length_ns: nanos(point.to_seconds - point.from_seconds)?,
        samples,
    })
}

fn nanos(seconds: f64) -> Option<u64> {
    let span = Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(span.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::histogram::{Histogram, PackedCounts, layout};
    use plimsoll_schemas::summary::HistoryGroup;

    use super::*;

    fn known() -> OperationsPage {
        let group = |value: &str| HistoryGroup {
            rollup: "run".to_owned(),
            operation: "fetch".to_owned(),
            values: vec![value.to_owned()],
        };
        OperationsPage {
            mesh: "m".to_owned(),
            kept_from_seconds: 100.0,
            tiers: Vec::new(),
            operations: vec!["fetch".to_owned(), "load".to_owned()],
            groups: vec![group("v41"), group("v40")],
        }
    }

    fn point(from: f64, samples: &[(f64, u64)]) -> HistoryPoint {
        let mut recorded = Histogram::default();
        for (value, count) in samples {
            recorded.record_n(nanos(*value).unwrap(), *count);
        }
        HistoryPoint {
            from_seconds: from,
            to_seconds: from + 10.0,
            count: samples.iter().map(|(_, count)| count).sum(),
            mean: None,
            min: None,
            max: None,
            approximate: false,
            quantiles: Vec::new(),
            over: Vec::new(),
            completeness: None,
            distribution: Some(PackedCounts::from(&recorded)),
        }
    }

    #[test]
    fn a_run_that_is_not_there_is_named_with_those_that_are() {
        let error = SideReader::new(HistorySide::Run("v42".to_owned()), &known(), 1_000.0);
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "run \"v42\" is not in the history; it has v40, v41");
    }

    #[test]
    fn what_has_the_samples_of_further_runs_is_taken_for_none_of_them() {
        let mut known = known();
        known
            .groups
            .push(HistoryGroup { values: vec!["other".to_owned()], ..known.groups[0].clone() });
        let error = |run: &str| operations_of_run(&known, run).unwrap_err().to_string();
        assert_eq!(
            error("v42"),
            "run \"v42\" is not in the history; it has v40, v41; 256 groups of one run and one \
             operation are kept by name, and samples of further runs are in the group \"other\""
        );
        assert_eq!(
            error("other"),
            "\"other\" is not a run: it has the samples of runs beyond the first 256 groups"
        );
    }

    #[test]
    fn what_a_long_step_counts_goes_to_the_slot_in_which_it_ends() {
        let point = |(at, sum, operation_seconds): (f64, f64, Option<f64>)| MetricPoint {
            from_seconds: at,
            to_seconds: at + 10.0,
            count: u64::from(sum > 0.0),
            sum,
            operation_seconds,
            ..MetricPoint::default()
        };
        let points =
            [(0.0, 5.0, None), (10.0, 7.0, Some(20.0)), (20.0, 0.0, Some(9.0)), (30.0, 3.0, None)]
                .map(point);

        let slot = |amount, seconds| RateSlot { amount, seconds };
        let by_operation = rate_of(&points, Some("turn".to_owned())).unwrap();
        assert_eq!(by_operation.slots, [slot(12.0, 20.0), slot(3.0, 9.0)]);
        // By wall time the first and the last slot are not whole.
        let by_wall = rate_of(&points, None).unwrap();
        assert_eq!(by_wall.slots, [slot(7.0, 10.0), slot(0.0, 10.0)]);
        assert_eq!(rate_of(&points[2..3], None), None);
    }

    #[test]
    fn a_run_is_read_over_the_range_that_has_samples() {
        let side = HistorySide::Run("v41".to_owned());
        let mut reader = SideReader::new(side, &known(), 1_000.0).unwrap();
        let request = reader.next_request().unwrap();
        assert_eq!((request.from, request.to, request.with_distribution), (100.0, 1_000.0, false));
        assert_eq!((request.run.as_deref(), &*request.operation), (Some("v41"), "fetch"));
        let some = [(0.001_024, 2), (0.018, 3)];
        reader.on_answer(&[
            point(20.0, &[]),
            point(30.0, &some),
            point(40.0, &[]),
            point(50.0, &some),
            point(60.0, &[]),
        ]);
        let request = reader.next_request().unwrap();
        let range = (request.from, request.to, request.step);
        assert_eq!((range, request.with_distribution), ((30.0, 60.0, 10.0), true));
        reader.on_answer(&[point(30.0, &some), point(40.0, &[])]);
        assert_eq!((reader.next_request(), reader.operations_left()), (None, 0));
        let side = reader.finish().unwrap();
        let slots = &side.operations["fetch"].slots;
        assert_eq!((slots.len(), slots[0].start_ns), (1, 30_000_000_000));
        assert_eq!(slots[0].length_ns, 10_000_000_000);
        let exact = slots[0].samples.exact();
        let end_ns = layout::highest(layout::index_of(18_000_000));
        assert_eq!((exact.count, exact.max_ns), (5, end_ns));
    }

    #[test]
    fn a_range_is_read_of_all_operations_and_those_without_samples_are_left_out() {
        let side = HistorySide::Range(SecondsRange { from: 200.0, to: 40_000.0 });
        let mut reader = SideReader::new(side.clone(), &known(), 50_000.0).unwrap();
        for (operation, samples) in [("fetch", &[][..]), ("load", &[(0.5, 1)])] {
            let request = reader.next_request().unwrap();
            assert_eq!((&*request.operation, request.run), (operation, None));
            assert_eq!((request.from, request.to, request.step), (200.0, 40_000.0, 12.0));
            reader.on_answer(&[point(200.0, samples)]);
        }
        let found = reader.finish().unwrap();
        assert_eq!(found.operations.keys().map(Operation::as_str).collect::<Vec<_>>(), ["load"]);
        let mut empty = SideReader::new(side, &known(), 50_000.0).unwrap();
        while empty.next_request().is_some() {
            empty.on_answer(&[]);
        }
        assert_eq!(empty.finish(), Err(NoSide::Empty));
    }
}
