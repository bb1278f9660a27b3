//! Reads the rows of a page and tells each series as a point, histograms last, when all their rows
//! were read.

use std::cell::Cell;
use std::collections::BTreeMap;

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
    /// Lines and series that were refused, by reason, each with the first name that it met.
    pub(super) refused: BTreeMap<Reject, (u64, String)>,
    /// What became of labels.
    pub(super) labels: LabelFigures,
    /// Whether there may be series that were not seen.
    pub(super) is_blind: bool,
}

impl Told {
    /// Counts what was refused; `name` is what it was called, where that is known.
    pub(super) fn refuse(&mut self, reason: Reject, name: &str) {
        let (count, _) = self.refused.entry(reason).or_insert_with(|| (0, name.to_owned()));
        *count += 1;
    }
}

/// A page half read.
pub(super) struct Reader<'a, 'p> {
    now: Now,
    outline: Outline<'a>,
    process_start: Option<Wall>,
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

/// A series and since when it counts.
#[derive(Clone, Copy)]
struct Known<'r> {
    name: &'r str,
    labels: &'r [u8],
    stream: u64,
    start: Wall,
}

impl<'a, 'p> Reader<'a, 'p> {
    /// Before the first row.
    pub(super) fn new(
        now: Now,
        outline: Outline<'a>,
        (target, rules): (&'p Target, &'p Rules),
        (streams, memory): (&'p Streams, &'p mut Memory),
    ) -> Self {
        let process_start = memory.process_start(now, outline.process_start);
        Self {
            now,
            outline,
            process_start,
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
                    taken.unwrap_or_else(|reason| self.told.refuse(reason, row.name));
                }
                Ok(_) => {}
                Err(reason) => {
                    self.told.is_blind = true;
                    self.told.refuse(reason, "");
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
                let known =
                    Known { name: row.name, labels: row.labels, stream, start: Wall::default() };
                self.tell(known, Value::Gauge(row.value), sink)
            }
            Role::Counter => {
                self.take_room()?;
                // What has changed its type is another stream.
                let stream = self.streams.of(row.name, pairs).wrapping_add(1);
                let created = self.outline.created(family, pairs, self.streams);
                let start = self.start(created, stream);
                let known = Known { name: row.name, labels: row.labels, stream, start };
                self.tell(known, Value::Sum { value: row.value, monotonic: true }, sink)
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

    /// Since when a stream counts. What the page says of the stream itself is believed; else it
    /// is as old as its process, or as the last page that did not have it, whatever is later.
    fn start(&mut self, created: Option<Wall>, stream: u64) -> Wall {
        let absent_at = self.memory.absent_at(stream);
        created.or(self.process_start.max(absent_at)).unwrap_or_default()
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
                let start = self.start(created, stream);
                self.partials.push(Partial::new(family, row.labels, (stream, start)));
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
            let (name, labels, (stream, start)) = (partial.family, partial.labels, partial.stream);
            let known = Known { name, labels, stream, start };
            let taken = partial
                .finish(&mut whole)
                .and_then(|()| self.unit(name))
                .and_then(|unit| self.tell(known, Value::Latencies(whole.latencies(unit)), sink));
            taken.unwrap_or_else(|reason| self.told.refuse(reason, name));
        }
    }

    /// The unit that the name says, else the page, else the operator.
    fn unit(&self, family: &str) -> Result<TimeUnit, Reject> {
        let units = &self.rules.units;
        let told = || units.suffixes.get(self.outline.unit(family)?).copied();
        let unit = units.named(family).or_else(told).unwrap_or(self.target.unit);
        unit.0.ok_or(Reject::Unit)
    }

    fn tell(
        &mut self,
        known: Known<'_>,
        value: Value<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Reject> {
        let figures = Cell::new(None);
        let is_histogram = matches!(value, Value::Latencies(_));
        let (target, labels) = (self.target, &self.rules.labels);
        let series =
            || target.series(labels, (known.name, known.labels), is_histogram, &figures);
        let taken = sink(&Point {
            stream: known.stream,
            series: &series,
            start: known.start,
            time: self.now.wall,
            temporality: Temporality::Cumulative,
            value,
        });
        if let Some(line) = figures.take() {
            self.told.labels.add(line, 1);
        }
        self.told.taken += u64::from(taken.is_ok());
        taken
    }
}

impl Whole {
    fn latencies(&self, unit: TimeUnit) -> Latencies<'_> {
        let buckets = Buckets::Explicit { bounds: &self.bounds, counts: &self.counts };
        Latencies { unit, count: self.count, sum: self.sum, min: None, max: None, buckets }
    }
}
