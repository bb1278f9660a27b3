//! One side from the history of an aggregator: a run, or a range of the fleet. Each point of an
//! answer is a slot; where all nodes answer from their own histories, these are seconds.
//!
//! [`SideReader`] states what is to be asked and takes the answers, so that a client over HTTP and
//! the aggregator itself make the same side.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use plimsoll_schemas::figure::counted;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::api::{OVERFLOW, ROLLUP_GROUPS_MAX};
use plimsoll_schemas::run::RUN_LABEL;
use plimsoll_schemas::summary::{
    HistoryGroup, HistoryPage, HistoryPoint, MetricHistoryPage, MetricKind, MetricPoint,
    MetricsPage, OperationsPage,
};
use thiserror::Error;

use crate::limits::{ARMS_MAX, RATES_MAX, RUNS_MAX};
use crate::side::{BucketLayout, Measured, MeasuredRate, RateSlot, Side, Slot};

/// Points of one answer; an aggregator gives 3 600 at most, and widens the range by a few.
const POINTS_MAX: f64 = 3_500.0;
/// The shortest slots of a history.
const STEP_MIN: f64 = 10.0;
/// The shortest slots of nodes' own histories.
const NODES_STEP_MIN: f64 = 1.0;
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
    /// What a run or a range has with one more label.
    Arm { of: ArmOf, arm: Group },
}

/// What is split into arms.
#[derive(Clone, Debug, PartialEq)]
pub enum ArmOf {
    /// The history has no groups of two labels: nodes have them in their own histories.
    Run(String),
    /// The group of the roll-up that is called as the label.
    Range(SecondsRange),
}

/// A label with its value, and the group of the roll-up that is called as the label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub rollup: String,
    pub value: String,
}

impl Group {
    fn of_run(run: &str) -> Self {
        Self { rollup: RUN_LABEL.to_owned(), value: run.to_owned() }
    }
}

impl HistorySide {
    /// The group that has its samples in the history; without one the fleet.
    fn group(&self) -> Option<Group> {
        match self {
            Self::Run(run) | Self::Arm { of: ArmOf::Run(run), .. } => Some(Group::of_run(run)),
            Self::Range(_) => None,
            Self::Arm { of: ArmOf::Range(_), arm } => Some(arm.clone()),
        }
    }

    fn range(&self) -> Option<SecondsRange> {
        match self {
            Self::Range(range) | Self::Arm { of: ArmOf::Range(range), .. } => Some(*range),
            Self::Run(_) | Self::Arm { of: ArmOf::Run(_), .. } => None,
        }
    }

    /// The label that the history does not know the samples of its group by.
    fn further(&self) -> Option<&Group> {
        match self {
            Self::Arm { of: ArmOf::Run(_), arm } => Some(arm),
            _ => None,
        }
    }
}

/// One question to the history. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRequest {
    pub operation: String,
    /// The group; without one the fleet.
    pub group: Option<Group>,
    /// A further label, which only nodes know in their own histories.
    pub further: Option<Group>,
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
        let is_finer = step < self.step || self.further.is_some();
        (self.with_distribution && is_finer).then(|| Self { step, ..self.clone() })
    }

    /// The labels that samples have, for nodes.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let groups = self.group.iter().chain(&self.further);
        groups.map(|of| (of.rollup.as_str(), of.value.as_str()))
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
    #[error("run {run:?} is not in the history; it has {}{others}", listed(.known))]
    Unknown {
        run: String,
        /// Those that the history has.
        known: Vec<String>,
        /// Whether samples of the run may be with those of others.
        others: Others,
    },
    /// More runs than one side may have.
    #[error("{pattern:?} matches {found} runs, and one side may have {RUNS_MAX}; name fewer")]
    TooMany { pattern: String, found: usize },
    /// More values of a label than are compared.
    #[error(
        "the label {label} has {found} values, and {ARMS_MAX} are compared; name some with \
         --arms {label}=A,B"
    )]
    TooManyArms { label: String, found: usize },
    /// A label that no roll-up groups by.
    #[error(
        "no roll-up has the label {label}; the history has {}: add it to rollup_labels in the \
         settings of the aggregator; nodes with --history have it of a run: run:NAME --arms \
         {label}=A,B", .known.join(", ")
    )]
    Label { label: String, known: Vec<String> },
    /// One value is no comparison.
    #[error("the label {label} has {}, and two are compared at least", counted(*.found as u64, "value"))]
    OneArm { label: String, found: usize },
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
    /// The group; without one the fleet.
    pub group: Option<Group>,
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
    // Nodes keep no counters in their own histories.
    if of.further().is_some() {
        return RateRequests::default();
    }
    let range = of.range().or_else(|| range_of(side));
    let Some(SecondsRange { from, to }) = range else { return RateRequests::default() };

    let counters = known.metrics.iter().filter(|row| row.kind == MetricKind::Counter);
    let counters: BTreeSet<&str> = counters.map(|row| row.metric.as_str()).collect();
    let group = of.group();
    let of_group = group.as_ref().map(|of| known.of_group(&of.rollup, &of.value));
    let is_of_group = |name: &&str| of_group.as_ref().is_none_or(|of| of.contains(name));
    let mut names: Vec<&str> =
        counters.into_iter().filter(|name| is_wanted(name)).filter(is_of_group).collect();
    names.sort_by_key(|name| operation_of(name, side).is_none());

    let left_out = names.len().saturating_sub(RATES_MAX);
    let request = |metric: &str| RateRequest {
        metric: metric.to_owned(),
        group: group.clone(),
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
    group: Option<Group>,
    further: Option<Group>,
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
    pub fn new(of: &HistorySide, known: &OperationsPage, now: f64) -> Result<Self, NoSide> {
        let (group, given, further) = (of.group(), of.range(), of.further().cloned());
        let names = match (of, &group) {
            (HistorySide::Run(run) | HistorySide::Arm { of: ArmOf::Run(run), .. }, _) => {
                operations_of_run(known, run)?
            }
            (_, Some(group)) if values_of(known, &group.rollup).is_empty() => {
                return Err(no_rollup(known, &group.rollup));
            }
            (_, Some(group)) => operations_of(known, group).collect(),
            (_, None) => known.operations.iter().map(String::as_str).collect(),
        };
        let operations = names.into_iter().filter_map(|name| Operation::new(name).ok()).collect();
        // A history that was empty until a moment ago would be a range without length.
        let kept = SecondsRange { from: known.kept_from_seconds.min(now - STEP_MIN), to: now };
        Ok(Self { group, further, kept, operations, range: given, given, side: Side::default() })
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
        let (group, further) = (self.group.clone(), self.further.clone());
        let with_distribution = self.range.is_some();
        Some(HistoryRequest { operation, group, further, from, to, step, with_distribution })
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
    let found: Vec<&str> = operations_of(known, &Group::of_run(run)).collect();
    if found.is_empty() { Err(unknown(known, run)) } else { Ok(found) }
}

fn operations_of<'k>(known: &'k OperationsPage, of: &Group) -> impl Iterator<Item = &'k str> {
    let is_it = |group: &&HistoryGroup| group.rollup == of.rollup && group.values == [&*of.value];
    known.groups.iter().filter(is_it).map(|group| group.operation.as_str())
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn unknown(known: &OperationsPage, run: &str) -> NoSide {
    let has_others = operations_of(known, &Group::of_run(OVERFLOW)).next().is_some();
    let others = if has_others { Others::Kept } else { Others::None };
    let known = values_of(known, RUN_LABEL).into_iter().map(str::to_owned).collect();
    NoSide::Unknown { run: run.to_owned(), known, others }
}

/// The values of a label by which a roll-up groups, in order.
fn values_of<'k>(known: &'k OperationsPage, label: &str) -> BTreeSet<&'k str> {
    let groups = known.groups.iter().filter(|group| group.rollup == label);
    let values = groups.filter_map(|group| match group.values.as_slice() {
        [value] if value != OVERFLOW => Some(value.as_str()),
        _ => None,
    });
    values.collect()
}

/// The runs that a side names: several separated by commas, and all that match where a name has
/// `*`. One without it is taken as it is.
///
/// # Errors
/// When nothing matches a pattern, or more than one side may have.
pub fn runs_of(text: &str, known: &OperationsPage) -> Result<Vec<String>, NoSide> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    for pattern in text.split(',') {
        match pattern.contains('*') {
            false => drop(found.insert(pattern.to_owned())),
            true => {
                let runs = values_of(known, RUN_LABEL).into_iter();
                let mut matching = runs.filter(|run| is_match(pattern, run)).peekable();
                if matching.peek().is_none() {
                    return Err(unknown(known, pattern));
                }
                found.extend(matching.map(str::to_owned));
            }
        }
        if found.len() > RUNS_MAX {
            return Err(NoSide::TooMany { pattern: text.to_owned(), found: found.len() });
        }
    }
    Ok(found.into_iter().collect())
}

/// Whether a name is of a pattern in which `*` stands for any text.
fn is_match(pattern: &str, name: &str) -> bool {
    let (Some((start, pattern)), Some((_, end))) =
        (pattern.split_once('*'), pattern.rsplit_once('*'))
    else {
        return pattern == name;
    };
    let Some(rest) = name.strip_prefix(start).and_then(|name| name.strip_suffix(end)) else {
        return false;
    };
    // Each part at its first place leaves the most for those after it.
    let parts =
        pattern.strip_suffix(end).unwrap_or_default().split('*').filter(|part| !part.is_empty());
    let mut rest = Some(rest);
    parts.for_each(|part| rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest));
    rest.is_some()
}

fn no_rollup(known: &OperationsPage, label: &str) -> NoSide {
    let rollups: BTreeSet<&str> = known.groups.iter().map(|of| of.rollup.as_str()).collect();
    let known = rollups.into_iter().map(str::to_owned).collect();
    NoSide::Label { label: label.to_owned(), known }
}

/// The values of a label that are compared, the one that is A first: those that are given, or of
/// one that is given the others too, or all in order.
///
/// # Errors
/// When the label has too few values or too many, or no roll-up groups by it.
pub fn arms_of(
    label: &str,
    given: &[String],
    known: &OperationsPage,
) -> Result<Vec<String>, NoSide> {
    let mut arms = given.to_vec();
    if given.len() < 2 {
        let values = values_of(known, label);
        if values.is_empty() {
            return Err(no_rollup(known, label));
        }
        // Samples without the label are a group of some roll-ups, and no arm.
        let others =
            values.into_iter().filter(|of| !of.is_empty() && !given.iter().any(|a| a == of));
        arms.extend(others.map(str::to_owned));
    }

    let (label, found) = (label.to_owned(), arms.len());
    match found {
        2..=ARMS_MAX => Ok(arms),
        ..2 => Err(NoSide::OneArm { label, found }),
        _ => Err(NoSide::TooManyArms { label, found }),
    }
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
    let samples = point.distribution.as_ref()?.counts.to_packed();
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
    use plimsoll_schemas::summary::{BucketCounts, HistoryGroup, MetricRow};
    use plimsoll_schemas::unit::Unit;
    use proptest::prelude::*;

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
            distribution: Some(BucketCounts {
                unit: Unit::Nanoseconds,
                counts: PackedCounts::from(&recorded),
            }),
        }
    }

    #[test]
    fn a_run_that_is_not_there_is_named_with_those_that_are() {
        let error = SideReader::new(&HistorySide::Run("v42".to_owned()), &known(), 1_000.0);
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "run \"v42\" is not in the history; it has v40, v41");
        let none = OperationsPage { groups: Vec::new(), ..known() };
        let error = operations_of_run(&none, "v42").unwrap_err().to_string();
        assert_eq!(error, "run \"v42\" is not in the history; it has none");
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
        let mut reader = SideReader::new(&side, &known(), 1_000.0).unwrap();
        let request = reader.next_request().unwrap();
        assert_eq!((request.from, request.to, request.with_distribution), (100.0, 1_000.0, false));
        assert_eq!((request.group, &*request.operation), (Some(Group::of_run("v41")), "fetch"));

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
        let mut reader = SideReader::new(&side, &known(), 50_000.0).unwrap();
        for (operation, samples) in [("fetch", &[][..]), ("load", &[(0.5, 1)])] {
            let request = reader.next_request().unwrap();
            assert_eq!((&*request.operation, request.group), (operation, None));
            assert_eq!((request.from, request.to, request.step), (200.0, 40_000.0, 12.0));
            reader.on_answer(&[point(200.0, samples)]);
        }
        let found = reader.finish().unwrap();
        assert_eq!(found.operations.keys().map(Operation::as_str).collect::<Vec<_>>(), ["load"]);
        let mut empty = SideReader::new(&side, &known(), 50_000.0).unwrap();
        while empty.next_request().is_some() {
            empty.on_answer(&[]);
        }
        assert_eq!(empty.finish(), Err(NoSide::Empty));
    }

    #[test]
    fn a_pattern_names_the_runs_that_match_it() {
        let mut known = known();
        let group = |value: String| HistoryGroup { values: vec![value], ..known.groups[0].clone() };
        let more: Vec<_> = (0..20).map(|n| group(format!("b-{n:02}-x"))).collect();
        known.groups.extend(more);
        let of = |text: &str| runs_of(text, &known).map_err(|error| error.to_string());

        for (text, runs) in [
            ("v4*", vec!["v40", "v41"]),
            ("*1", vec!["v41"]),
            ("v41,gone,v4*", vec!["gone", "v40", "v41"]),
            ("b-*1-*", vec!["b-01-x", "b-11-x"]),
            ("b*0*-x", (0..10).map(|_| "").collect()),
        ] {
            let found = of(text).unwrap();
            if text == "b*0*-x" {
                // Ten with a first digit 0, and b-10-x.
                assert_eq!(found.len(), 11, "{found:?}");
            } else {
                assert_eq!(found, runs, "{text}");
            }
        }

        let error = "\"b*\" matches 20 runs, and one side may have 16; name fewer";
        assert_eq!(of("b*").unwrap_err(), error);
        assert!(
            of("w*").unwrap_err().starts_with("run \"w*\" is not in the history; it has b-00-x")
        );
    }

    proptest! {
        #[test]
        fn a_name_matches_patterns_made_of_it(
            name in "[ab-]{0,8}", cuts in prop::collection::vec((0_usize..9, 0_usize..9), 1..3),
        ) {
            let mut pattern = name.clone();
            for (from, to) in cuts {
                let (from, to) = (from.min(to).min(pattern.len()), to.max(from).min(pattern.len()));
                pattern.replace_range(from..to, "*");
            }
            prop_assert!(is_match(&pattern, &name), "{pattern} {name}");
            pattern.push('x');
            prop_assert!(!is_match(&pattern, &name));
        }
    }

    #[test]
    fn an_arm_is_a_value_of_a_label_and_the_first_is_a() {
        let mut known = known();
        let group = |rollup: &str, value: String| HistoryGroup {
            rollup: rollup.to_owned(),
            operation: "fetch".to_owned(),
            values: vec![value],
        };
        known.groups.extend(["green", "blue", OVERFLOW].map(|of| group("variant", of.to_owned())));
        known.groups.extend((0..9).map(|n| group("rank", n.to_string())));
        let of = |label: &str, given: &[&str]| {
            let given: Vec<String> = given.iter().map(|value| (*value).to_owned()).collect();
            arms_of(label, &given, &known).map_err(|error| error.to_string())
        };
        for (given, arms) in [
            (&[][..], vec!["blue", "green"]),
            (&["green"], vec!["green", "blue"]),
            (&["red", "green"], vec!["red", "green"]),
        ] {
            assert_eq!(of("variant", given).unwrap(), arms);
        }
        assert_eq!(of("any", &["x", "y"]).unwrap(), ["x", "y"]);
        for (label, words) in [
            (
                "rank",
                "the label rank has 9 values, and 8 are compared; name some with --arms rank=A,B",
            ),
            ("lr", "no roll-up has the label lr; the history has rank, run, variant: add it to"),
        ] {
            let error = of(label, &[]).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }

        let range = SecondsRange { from: 200.0, to: 40_000.0 };
        let arm = || Group { rollup: "variant".to_owned(), value: "blue".to_owned() };
        let side = HistorySide::Arm { of: ArmOf::Range(range), arm: arm() };
        let request = SideReader::new(&side, &known, 50_000.0).unwrap().next_request().unwrap();
        assert_eq!((request.group.as_ref(), request.further.as_ref()), (Some(&arm()), None));
        // Of a run, the history has the time, and nodes have the samples.
        let side = HistorySide::Arm { of: ArmOf::Run("v41".to_owned()), arm: arm() };
        let mut reader = SideReader::new(&side, &known, 1_000.0).unwrap();
        assert_eq!(reader.next_request().unwrap().of_nodes(), None);
        reader.on_answer(&[point(30.0, &[(0.001, 2)])]);
        let request = reader.next_request().unwrap().of_nodes().unwrap();
        let labels: Vec<_> = request.labels().collect();
        assert_eq!(labels, [("run", "v41"), ("variant", "blue")]);
    }

    #[test]
    fn counters_of_operations_are_the_last_that_are_left_out() {
        let row = |metric: String| MetricRow {
            metric,
            kind: MetricKind::Counter,
            is_kept: true,
            now: None,
        };
        let of_wall = (0..RATES_MAX).map(|n| row(format!("a{n:03}")));
        let mut known = MetricsPage {
            mesh: "m".to_owned(),
            at_seconds: 0.0,
            kept_from_seconds: None,
            tiers: Vec::new(),
            metrics: of_wall.chain([row("fetch.rows".to_owned())]).collect(),
            groups: Vec::new(),
        };
        let mut side = Side::default();
        let fetch = Operation::new("fetch").unwrap();
        side.operations.insert(fetch, Measured::new(BucketLayout::MESH));
        let range = HistorySide::Range(SecondsRange { from: 0.0, to: 100.0 });
        let asked = |known: &MetricsPage| rate_requests(&range, &side, known, |_| true);

        let found = asked(&known);
        let names: Vec<&str> = found.requests.iter().map(|of| of.metric.as_str()).collect();
        assert_eq!((names.len(), found.left_out), (RATES_MAX, 1));
        assert_eq!((names[0], names[1], names[RATES_MAX - 1]), ("fetch.rows", "a000", "a126"));
        known.metrics.pop();
        assert_eq!((asked(&known).left_out, asked(&known).requests.len()), (0, RATES_MAX));
    }
}
