//! What is known of one target: what its operator says of it, and what its pages said so far.

use std::cell::Cell;
use std::collections::BTreeSet;

use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::limits::scrape::{SERIES_KNOWN_MAX, START_ROUNDING};
use plimsoll_schemas::time::{Now, Wall};

use super::line::pairs;
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
        (name, labels): (&str, &[u8]),
        is_histogram: bool,
        figures: &Cell<Option<LineFigures>>,
    ) -> Result<Series, Reject> {
        let operation = Operation::new(name).map_err(|_| Reject::Name)?;
        let told = pairs(labels);
        let told = told.iter().map(|(key, value)| (*key, &**value));
        let told = told.filter(|(key, value)| !value.is_empty() && !(is_histogram && *key == LE));
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
                "{target}: nothing tells the unit of histogram {name:?}; set unit in its [[scrape]] \
                 to s, ms, us or ns, or leave the name out of allow"
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
#[derive(Default)]
pub(super) struct Memory {
    /// When the last page came.
    last: Option<Now>,
    /// Whether all its series were seen.
    is_complete: bool,
    process_start: Option<Wall>,
    /// Everything that counts and was on any page.
    known: BTreeSet<u64>,
}

impl Memory {
    /// When the process that tells this page began. A process says so by the machine's clock, and
    /// a clock that is set moves the start of one that still runs: only one that is younger than
    /// the page before has begun anew.
    pub(super) fn process_start(&mut self, now: Now, told: Option<Wall>) -> Option<Wall> {
        let told = told?;
        let is_anew = match (self.process_start, self.last) {
            (Some(_), Some(last)) => {
                now.wall.since(told) < now.mono.since(last.mono) + START_ROUNDING
            }
            _ => true,
        };
        if is_anew {
            self.process_start = Some(told);
        }
        self.process_start
    }

    /// When the last page came, for a series that it did not have: since then it counts, from
    /// nothing. `None` for one that was there before, or where nobody knows.
    pub(super) fn absent_at(&mut self, stream: u64) -> Option<Wall> {
        if self.known.len() >= SERIES_KNOWN_MAX {
            return None;
        }
        let is_new = self.known.insert(stream);
        self.last.filter(|_| is_new && self.is_complete).map(|last| last.wall)
    }

    /// A page was read; `is_complete` tells whether all its series were.
    pub(super) fn on_read(&mut self, now: Now, is_complete: bool) {
        self.last = Some(now);
        self.is_complete = is_complete;
    }
}
