//! What is known of one target: what its operator says of it, and what its pages said so far.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::limits::scrape::{SERIES_KNOWN_MAX, START_ROUNDING};
use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::time::{Now, Wall};

use super::line::{Row, pairs};
use super::streams::LE;
use crate::core::intake::labels::{LabelRules, LineFigures};
use crate::core::intake::otlp::glob::Glob;
use crate::core::intake::reject::Reject;
use crate::core::intake::units::Unit;

/// What a configuration says about a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What it is called in figures and logs: its address.
    pub name: String,
    /// Labels that each of its series gets, over its own of the same key.
    pub labels: Labels,
    /// Unit of histograms of which neither name nor page says one.
    pub unit: Unit,
    /// Names that are taken; all when it is empty.
    pub allow: Vec<Glob>,
    /// Series taken of one page.
    pub series_max: usize,
}

impl Target {
    /// Whether a row is wanted, by its own name or that of its family.
    pub(super) fn allows(&self, name: &str, family: &str) -> bool {
        let fits = |glob: &Glob| glob.matches(name) || glob.matches(family);
        self.allow.is_empty() || self.allow.iter().any(fits)
    }

    /// The series of a row; what its labels cost is left in `figures`.
    pub(super) fn series(
        &self,
        rules: &LabelRules,
        row: &Row<'_>,
        is_histogram: bool,
        figures: &Cell<Option<LineFigures>>,
    ) -> Result<Series, Reject> {
        let operation = Operation::new(row.name).map_err(|_| Reject::Name)?;
        let told = pairs(row.labels);
        let told = told.iter().map(|(key, value)| (*key, &**value));
        let is_bound = |key: &str| is_histogram && key == LE;
        let told = told.filter(|(key, value)| !value.is_empty() && !is_bound(key));
        let (labels, left_out) = rules.keep(self.labels.iter().chain(told));
        figures.set(left_out);
        Ok(Series { operation, labels })
    }
}

impl Target {
    /// What the operator can do about a refusal of something called `name`.
    pub(super) fn warning(&self, reason: Reject, name: &str) -> String {
        let Self { name: target, series_max, .. } = self;
        match reason {
            Reject::Unit => format!(
                "{target}: nothing tells the unit of histogram {name:?}; set unit in its \
                 [[scrape]] to s, ms, us or ns, or leave the name out of allow"
            ),
            Reject::SeriesCap => format!(
                "{target}: a page has more than {series_max} series, or the node no room; list the \
                 names that matter in allow of its [[scrape]], or raise series_max"
            ),
            _ if name.is_empty() => format!("{target}: a line was refused: {}", reason.as_str()),
            _ => format!("{target}: {name:?} was refused: {}", reason.as_str()),
        }
    }
}

/// What the pages of a target said so far.
pub(super) struct Memory {
    /// When the node began.
    began: Now,
    /// When the last page came.
    last: Option<Now>,
    /// The time of the last page, which never goes back.
    time: Wall,
    /// Whether all series of the last page were seen.
    is_complete: bool,
    process_start: Option<Wall>,
    /// Everything that counts and was on any page.
    known: BTreeSet<u64>,
}

impl Memory {
    /// No page yet.
    pub(super) fn new(began: Now) -> Self {
        Self {
            began,
            last: None,
            time: Wall::default(),
            is_complete: false,
            process_start: None,
            known: BTreeSet::new(),
        }
    }

    /// The time of a page that has come now: a clock that is set back does not make it older than
    /// the one before.
    pub(super) fn time(&mut self, now: Now) -> Wall {
        let since_last = self.last.map_or(Duration::ZERO, |last| now.mono.since(last.mono));
        self.time = now.wall.max(self.time.plus(since_last));
        self.time
    }

    /// Whether the process that tells this page began after the page before it, or, at the first,
    /// after the node. A process tells its start by the machine's clock, and a clock that is set
    /// moves the start of one that still runs: it must also be too young to have told the page
    /// before.
    pub(super) fn is_process_new(&mut self, now: Now, told: Option<Wall>) -> bool {
        let Some(told) = told else { return false };
        let age = now.wall.since(told);
        match (self.process_start.replace(told), self.last) {
            (Some(before), Some(last)) => {
                told > before.plus(START_ROUNDING)
                    && age < now.mono.since(last.mono) + START_ROUNDING
            }
            (None, None) => {
                let lived = now.mono.since(self.began.mono);
                (self.began.wall..=now.wall).contains(&told) && age <= lived
            }
            _ => false,
        }
    }

    /// Whether this stream was on no page before, although there was one that had everything: it
    /// began since, from nothing.
    pub(super) fn is_stream_new(&mut self, stream: u64) -> bool {
        let has_room = self.known.len() < SERIES_KNOWN_MAX;
        has_room && self.known.insert(stream) && self.last.is_some() && self.is_complete
    }

    /// A page was read; `is_complete` tells whether all its series were.
    pub(super) fn on_read(&mut self, now: Now, is_complete: bool) {
        self.last = Some(now);
        self.is_complete = is_complete;
    }
}
