//! Reads the rows of a page and passes each series on as a point; histograms last, when all of
//! their rows were read.
//!
//! DESIGN N30, N32.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_schemas::time::{Now, Wall};

use super::histogram::{CompleteHistogram, PartialHistogram};
use super::history::TargetHistory;
use super::line::{Line, Pair, Row, number, parse, subject_of};
use super::metadata::{PageMetadata, Role};
use super::stream_ids::{LE, StreamIds, StreamStart};
use super::target::Target;
use crate::core::intake::lines::{Units, ValueUnit};
use crate::core::intake::points::{Buckets, Latencies, Point, Temporality, Value};
use crate::core::intake::reject::Reject;
use crate::core::intake::series::{LabelRules, LabelStats};

/// Records a point, or returns why not.
pub(super) type Sink<'s> = dyn FnMut(&Point<'_>) -> Result<(), Reject> + 's;

#[derive(Debug, Default, PartialEq)]
pub(super) struct PageOutcome {
    pub(super) recorded: u64,
    /// Rows that the target's list of names excludes.
    pub(super) excluded: u64,
    /// What was rejected, by reason.
    pub(super) rejected: BTreeMap<Reject, RejectedRows>,
    pub(super) labels: LabelStats,
    /// Whether series may be missing.
    pub(super) is_incomplete: bool,
    /// Series that count from a start.
    pub(super) cumulative: usize,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct RejectedRows {
    /// Lines, and inconsistent histograms.
    pub(super) lines: u64,
    /// Points, which the recorder has counted.
    pub(super) points: u64,
    /// The name of the first of them, if known.
    pub(super) name: String,
}

impl PageOutcome {
    /// Counts what made no point.
    pub(super) fn reject_line(&mut self, reason: Reject, name: &str) {
        self.rejected(reason, name).lines += 1;
    }

    fn rejected(&mut self, reason: Reject, name: &str) -> &mut RejectedRows {
        let first = || RejectedRows { name: name.to_owned(), ..RejectedRows::default() };
        self.rejected.entry(reason).or_insert_with(first)
    }
}

/// By what the rows of a page become series.
#[derive(Clone, Copy)]
pub(super) struct PageRules<'p> {
    pub(super) target: &'p Target,
    pub(super) labels: &'p LabelRules,
    pub(super) units: &'p Units,
    pub(super) stream_ids: &'p StreamIds,
}

pub(super) struct PageReader<'a, 'p> {
    metadata: PageMetadata<'a>,
    time: Wall,
    /// Whether its process started after the previous page, so that all of its counts are new.
    is_process_new: bool,
    rules: PageRules<'p>,
    history: &'p mut TargetHistory,
    /// Series for which there is room.
    room: usize,
    partials: Vec<PartialHistogram<'a>>,
    /// The index of a stream in `partials`.
    by_stream: BTreeMap<u64, usize>,
    outcome: PageOutcome,
}

impl<'a, 'p> PageReader<'a, 'p> {
    /// Before the first row.
    pub(super) fn new(
        now: Now,
        metadata: PageMetadata<'a>,
        rules: PageRules<'p>,
        history: &'p mut TargetHistory,
    ) -> Self {
        let is_process_new = history.is_process_new(now, metadata.process_start);
        Self {
            time: history.time(now),
            metadata,
            is_process_new,
            rules,
            history,
            room: rules.target.series_max,
            partials: Vec::new(),
            by_stream: BTreeMap::new(),
            outcome: PageOutcome::default(),
        }
    }

    /// Reads all lines; a malformed one is rejected alone.
    pub(super) fn read(
        mut self,
        lines: impl Iterator<Item = &'a [u8]>,
        sink: &mut Sink<'_>,
    ) -> PageOutcome {
        let mut pairs = Vec::new();
        for line in lines {
            match parse(line, &mut pairs) {
                Ok(Line::Row(row)) => {
                    let recorded = self.on_row(&row, &pairs, sink);
                    recorded.unwrap_or_else(|reason| self.outcome.reject_line(reason, row.name));
                }
                Ok(_) => {}
                Err(reason) => {
                    self.on_malformed(line);
                    self.outcome.reject_line(reason, "");
                }
            }
        }

        self.record_histograms(sink);
        self.outcome
    }

    /// A series of this name may have been on the page: when it can be read again, it is not new.
    fn on_malformed(&mut self, line: &[u8]) {
        let Some(name) = subject_of(line) else { return };
        let family = self.rules.stream_ids.of(self.metadata.role(name).0, &[]);
        self.outcome.is_incomplete |= !self.history.on_malformed(family);
    }

    fn on_row(
        &mut self,
        row: &Row<'a>,
        pairs: &[Pair<'a>],
        sink: &mut Sink<'_>,
    ) -> Result<(), Reject> {
        let (family, role) = self.metadata.role(row.name);

        if !self.rules.target.allows(row.name, family) {
            self.outcome.excluded += 1;
            return Ok(());
        }

        match role {
            Role::Created => Ok(()),
            Role::Misplaced => Err(Reject::Shape),
            Role::Unsupported => Err(Reject::Unsupported),
            Role::Bucket | Role::Count | Role::Sum => self.on_part(role, family, row, pairs),
            // A summary without samples has no quantiles, which is no fault of the page.
            Role::Quantile if row.value.is_nan() => Ok(()),
            Role::Gauge | Role::Quantile => {
                self.take_room()?;
                let stream = self.rules.stream_ids.of(row.name, pairs);
                let start = StreamStart { stream, start: Wall::default(), is_new: false };
                self.record(row, start, Value::Gauge(row.value), sink);
                Ok(())
            }
            Role::Counter => {
                self.take_room()?;
                // A series whose type changed is another stream.
                let stream = self.rules.stream_ids.of(row.name, pairs).wrapping_add(1);
                let counted = family.strip_suffix("_total").unwrap_or(family);
                let created = self.metadata.created(|| self.rules.stream_ids.of(counted, pairs));
                let start = self.stream_start(family, stream, created);
                let sum = |value| Value::Sum { value, monotonic: true };
                if start.is_new {
                    self.record_zero(row, start, sum(0.0), sink);
                }
                self.record(row, start, sum(row.value), sink);
                Ok(())
            }
        }
    }

    /// Counts one series towards the bound of the page.
    fn take_room(&mut self) -> Result<(), Reject> {
        let room = self.room.checked_sub(1);
        // A series without room here may have room on the next page, and is not new then (N30).
        self.outcome.is_incomplete |= room.is_none();
        self.room = room.ok_or(Reject::SeriesCap)?;
        Ok(())
    }

    fn stream_start(&mut self, family: &str, stream: u64, created: Option<Wall>) -> StreamStart {
        self.outcome.cumulative += 1;
        let family = self.rules.stream_ids.of(family, &[]);
        let is_stream_new = self.history.is_stream_new(family, stream);
        let is_new = created.is_none() && (is_stream_new || self.is_process_new);
        StreamStart { stream, start: created.unwrap_or_default(), is_new }
    }

    fn on_part(
        &mut self,
        role: Role,
        family: &'a str,
        row: &Row<'a>,
        pairs: &[Pair<'a>],
    ) -> Result<(), Reject> {
        let series = self.rules.stream_ids.of_histogram(family, pairs);
        // Not the number of a counter or a gauge of this name: a series whose type or unit changed
        // is another stream.
        let unit = self.unit(family).map_or(0, |unit| unit.recorded() as u64);
        let stream = series.wrapping_add(2 + unit);

        let index = match self.by_stream.get(&stream) {
            Some(index) => *index,
            None => {
                self.take_room()?;
                self.by_stream.insert(stream, self.partials.len());
                let created = self.metadata.created(|| series);
                let start = self.stream_start(family, stream, created);
                self.partials.push(PartialHistogram::new(family, row.labels, start));
                self.partials.len() - 1
            }
        };

        let bound = pairs.iter().find(|(key, _)| *key == LE);
        let bound = bound.and_then(|(_, bound)| number(bound.as_bytes()));
        self.partials[index].add(role, row, bound);
        Ok(())
    }

    fn record_histograms(&mut self, sink: &mut Sink<'_>) {
        let mut whole = CompleteHistogram::default();
        for mut partial in std::mem::take(&mut self.partials) {
            let PartialHistogram { family: name, labels, start, .. } = partial;
            let row = Row { name, labels, value: f64::NAN };

            match partial.finish(&mut whole).and_then(|()| self.unit(name)) {
                Ok(unit) => {
                    if start.is_new {
                        let zero = whole.zero();
                        self.record_zero(&row, start, zero.latencies(unit), sink);
                    }
                    self.record(&row, start, whole.latencies(unit), sink);
                }
                Err(reason) => self.outcome.reject_line(reason, name),
            }
        }
    }

    /// The unit of a family by its name, else by the page, else by the configuration.
    fn unit(&self, family: &str) -> Result<ValueUnit, Reject> {
        let PageRules { target, units, .. } = self.rules;
        let stated = || units.named(self.metadata.unit(family)?);
        let unit = units.named(family).or_else(stated).unwrap_or(target.unit);
        units.recorded(family, unit)
    }

    /// Records that a stream was zero before this page, so that all of its count is new, also after
    /// a restart.
    fn record_zero(
        &mut self,
        row: &Row<'_>,
        start: StreamStart,
        zero: Value<'_>,
        sink: &mut Sink<'_>,
    ) {
        let before = self.time.minus(Duration::from_nanos(1));
        // If it is rejected, so is the current value, which is counted.
        let _recorded = self.point(row, start, before, zero, sink);
    }

    fn record(&mut self, row: &Row<'_>, start: StreamStart, value: Value<'_>, sink: &mut Sink<'_>) {
        match self.point(row, start, self.time, value, sink) {
            Ok(()) => self.outcome.recorded += 1,
            Err(reason) => self.outcome.rejected(reason, row.name).points += 1,
        }
    }

    fn point(
        &mut self,
        row: &Row<'_>,
        start: StreamStart,
        time: Wall,
        value: Value<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Reject> {
        let stats = Cell::new(None);
        let unit = if let Value::Latencies(of) = value { Some(of.unit) } else { None };
        let PageRules { target, labels, .. } = self.rules;
        let series = || target.series(labels, row, unit, &stats);

        let recorded = sink(&Point {
            stream: start.stream,
            series: &series,
            start: start.start,
            time,
            temporality: Temporality::Cumulative,
            value,
        });

        if let Some(line) = stats.take() {
            self.outcome.labels.add(line, 1);
        }
        recorded
    }
}

impl CompleteHistogram {
    /// The same buckets without samples.
    fn zero(&self) -> Self {
        let (bounds, counts) = (self.bounds.clone(), vec![0; self.counts.len()]);
        Self { bounds, counts, count: 0, sum: Some(0.0) }
    }

    fn latencies(&self, unit: ValueUnit) -> Value<'_> {
        let buckets = Buckets::Explicit { bounds: &self.bounds, counts: &self.counts };
        let (count, sum) = (self.count, self.sum);
        Value::Latencies(Latencies { unit, count, sum, min: None, max: None, buckets })
    }
}
