//! Reads the rows of a page and tells each series as a point, histograms last, when all their rows
//! were read.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_schemas::time::{Now, Wall};

use super::histogram::{Partial, Whole};
use super::line::{Line, Pair, Row, number, parse};
use super::outline::{Outline, Role};
use super::streams::{LE, Streams};
use super::target::{Memory, Target};
use crate::core::intake::labels::LabelFigures;
use crate::core::intake::point::{Buckets, Latencies, Point, Temporality, Value};
use crate::core::intake::reject::Reject;
use crate::core::intake::rules::Rules;
use crate::core::intake::units::TimeUnit;

/// Takes a point, or says why not.
pub(super) type Sink<'s> = dyn FnMut(&Point<'_>) -> Result<(), Reject> + 's;

/// What became of a page.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Told {
    /// Series that were taken.
    pub(super) taken: u64,
    /// Rows that the target's list of names leaves out.
    pub(super) left_out: u64,
    /// What was refused, by reason.
    pub(super) refused: BTreeMap<Reject, Refused>,
    /// What became of labels.
    pub(super) labels: LabelFigures,
    /// Whether there may be series that were not seen.
    pub(super) is_blind: bool,
}

/// What was refused for one reason.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Refused {
    /// Lines, and histograms that did not add up.
    pub(super) lines: u64,
    /// Points, which whoever refused them has counted.
    pub(super) points: u64,
    /// What the first of them was called, where that is known.
    pub(super) name: String,
}

impl Told {
    /// Counts what made no point.
    pub(super) fn refuse_line(&mut self, reason: Reject, name: &str) {
        self.refused(reason, name).lines += 1;
    }

    fn refused(&mut self, reason: Reject, name: &str) -> &mut Refused {
        let first = || Refused { name: name.to_owned(), ..Refused::default() };
        self.refused.entry(reason).or_insert_with(first)
    }
}

/// A page half read.
pub(super) struct Reader<'a, 'p> {
    outline: Outline<'a>,
    /// The page's time.
    time: Wall,
    /// Whether all that it counts was counted since the page before.
    is_process_new: bool,
    target: &'p Target,
    rules: &'p Rules,
    streams: &'p Streams,
    memory: &'p mut Memory,
    /// Series that there is still room for.
    room: usize,
    partials: Vec<Partial<'a>>,
    /// Where in `partials` a stream is.
    places: BTreeMap<u64, usize>,
    told: Told,
}

/// Since when a stream counts.
#[derive(Clone, Copy)]
pub(super) struct Since {
    stream: u64,
    /// As the page says of it alone; zero where it does not.
    start: Wall,
    /// Whether it began, from nothing, after what was read before.
    is_new: bool,
}

impl<'a, 'p> Reader<'a, 'p> {
    /// Before the first row.
    pub(super) fn new(
        now: Now,
        outline: Outline<'a>,
        (target, rules): (&'p Target, &'p Rules),
        (streams, memory): (&'p Streams, &'p mut Memory),
    ) -> Self {
        let is_process_new = memory.is_process_new(now, outline.process_start);
        Self {
            time: memory.time(now),
            outline,
            is_process_new,
            target,
            rules,
            streams,
            memory,
            room: target.series_max,
            partials: Vec::new(),
            places: BTreeMap::new(),
            told: Told::default(),
        }
    }

    /// Reads all lines. One that is wrong costs itself alone.
    pub(super) fn read(
        mut self,
        lines: impl Iterator<Item = &'a [u8]>,
        sink: &mut Sink<'_>,
    ) -> Told {
        let mut pairs = Vec::new();
        for line in lines {
            match parse(line, &mut pairs) {
                Ok(Line::Row(row)) => {
                    let taken = self.on_row(&row, &pairs, sink);
                    taken.unwrap_or_else(|reason| self.told.refuse_line(reason, row.name));
                }
                Ok(_) => {}
                Err(reason) => {
                    self.told.is_blind = true;
                    self.told.refuse_line(reason, "");
                }
            }
        }
        self.tell_histograms(sink);
        self.told
    }

    fn on_row(
        &mut self,
        row: &Row<'a>,
        pairs: &[Pair<'a>],
        sink: &mut Sink<'_>,
    ) -> Result<(), Reject> {
        let (family, role) = self.outline.role(row.name);
        if !self.target.allows(row.name, family) {
            self.told.left_out += 1;
            return Ok(());
        }
        match role {
            Role::Created => Ok(()),
            Role::Misplaced => Err(Reject::Shape),
            Role::Unsupported => Err(Reject::Unsupported),
            Role::Bucket | Role::Count | Role::Sum => self.on_part(role, family, row, pairs),
            Role::Quantile if row.value.is_nan() => Ok(()),
            Role::Gauge | Role::Quantile => {
                self.take_room()?;
                let stream = self.streams.of(row.name, pairs);
                let since = Since { stream, start: Wall::default(), is_new: false };
                self.tell(row, since, Value::Gauge(row.value), sink);
                Ok(())
            }
            Role::Counter => {
                self.take_room()?;
                // What has changed its type is another stream.
                let stream = self.streams.of(row.name, pairs).wrapping_add(1);
                let since = self.since(stream, self.outline.created(family, pairs, self.streams));
                let sum = |value| Value::Sum { value, monotonic: true };
                if since.is_new {
                    self.tell_nothing(row, since, sum(0.0), sink);
                }
                self.tell(row, since, sum(row.value), sink);
                Ok(())
            }
        }
    }

    /// A page may bring so many series and no more; which are the first is up to it.
    fn take_room(&mut self) -> Result<(), Reject> {
        let room = self.room.checked_sub(1);
        self.told.is_blind |= room.is_none();
        self.room = room.ok_or(Reject::SeriesCap)?;
        Ok(())
    }

    fn since(&mut self, stream: u64, created: Option<Wall>) -> Since {
        let is_stream_new = self.memory.is_stream_new(stream);
        let is_new = created.is_none() && (is_stream_new || self.is_process_new);
        Since { stream, start: created.unwrap_or_default(), is_new }
    }

    fn on_part(
        &mut self,
        role: Role,
        family: &'a str,
        row: &Row<'a>,
        pairs: &[Pair<'a>],
    ) -> Result<(), Reject> {
        let stream = self.streams.of_histogram(family, pairs).wrapping_add(2);
        let place = match self.places.get(&stream) {
            Some(place) => *place,
            None => {
                self.take_room()?;
                self.places.insert(stream, self.partials.len());
                let created = self.outline.created_histogram(family, pairs, self.streams);
                let since = self.since(stream, created);
                self.partials.push(Partial::new(family, row.labels, since));
                self.partials.len() - 1
            }
        };
        let bound = pairs.iter().find(|(key, _)| *key == LE);
        let bound = bound.and_then(|(_, bound)| number(bound.as_bytes()));
        self.partials[place].add(role, row, bound);
        Ok(())
    }

    fn tell_histograms(&mut self, sink: &mut Sink<'_>) {
        let mut whole = Whole::default();
        for mut partial in std::mem::take(&mut self.partials) {
            let Partial { family: name, labels, since, .. } = partial;
            let row = Row { name, labels, value: f64::NAN };
            match partial.finish(&mut whole).and_then(|()| self.unit(name)) {
                Ok(unit) => {
                    if since.is_new {
                        let nothing = whole.nothing();
                        self.tell_nothing(&row, since, nothing.latencies(unit), sink);
                    }
                    self.tell(&row, since, whole.latencies(unit), sink);
                }
                Err(reason) => self.told.refuse_line(reason, name),
            }
        }
    }

    /// The unit that the name says, else the page, else the operator.
    fn unit(&self, family: &str) -> Result<TimeUnit, Reject> {
        let units = &self.rules.units;
        let told = || units.suffixes.get(self.outline.unit(family)?).copied();
        let unit = units.named(family).or_else(told).unwrap_or(self.target.unit);
        unit.0.ok_or(Reject::Unit)
    }

    /// Tells that a stream was at nothing before this page: all that it counts now is new, and a
    /// process that began anew counts from there.
    fn tell_nothing(
        &mut self,
        row: &Row<'_>,
        since: Since,
        nothing: Value<'_>,
        sink: &mut Sink<'_>,
    ) {
        let before = self.time.minus(Duration::from_nanos(1));
        // What it counts now is refused for the same reason, and that is told.
        let _taken = self.point(row, since, (before, nothing), sink);
    }

    fn tell(&mut self, row: &Row<'_>, since: Since, value: Value<'_>, sink: &mut Sink<'_>) {
        match self.point(row, since, (self.time, value), sink) {
            Ok(()) => self.told.taken += 1,
            Err(reason) => self.told.refused(reason, row.name).points += 1,
        }
    }

    fn point(
        &mut self,
        row: &Row<'_>,
        since: Since,
        (time, value): (Wall, Value<'_>),
        sink: &mut Sink<'_>,
    ) -> Result<(), Reject> {
        let figures = Cell::new(None);
        let is_histogram = matches!(value, Value::Latencies(_));
        let (target, labels) = (self.target, &self.rules.labels);
        let series = || target.series(labels, row, is_histogram, &figures);
        let taken = sink(&Point {
            stream: since.stream,
            series: &series,
            start: since.start,
            time,
            temporality: Temporality::Cumulative,
            value,
        });
        if let Some(line) = figures.take() {
            self.told.labels.add(line, 1);
        }
        taken
    }
}

impl Whole {
    /// The same buckets without a sample.
    fn nothing(&self) -> Self {
        let (bounds, counts) = (self.bounds.clone(), vec![0; self.counts.len()]);
        Self { bounds, counts, count: 0, sum: Some(0.0) }
    }

    fn latencies(&self, unit: TimeUnit) -> Value<'_> {
        let buckets = Buckets::Explicit { bounds: &self.bounds, counts: &self.counts };
        let (count, sum) = (self.count, self.sum);
        Value::Latencies(Latencies { unit, count, sum, min: None, max: None, buckets })
    }
}
