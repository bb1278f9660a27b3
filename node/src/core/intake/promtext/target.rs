//! A scrape target as it is configured: which rows are read, and what they are called.

use std::cell::Cell;

use plimsoll_schemas::ids::{Labels, Operation, Series};

use super::line::{Row, pairs};
use super::stream_ids::LE;
use crate::core::intake::glob::Glob;
use crate::core::intake::lines::{Unit, ValueUnit};
use crate::core::intake::reject::Reject;
use crate::core::intake::series::{LabelRules, LineLabelStats};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name in metrics and logs: its address.
    pub name: String,
    /// Labels of each of its series; they override the series' own.
    pub labels: Labels,
    /// Unit of histograms for which neither name nor page has one.
    pub unit: Unit,
    /// Patterns of names that are read; all if empty.
    pub allow: Vec<Glob>,
    /// Greatest number of series of one page.
    pub series_max: usize,
}

impl Target {
    /// Whether a row is read, by its own name or that of its family.
    pub(super) fn allows(&self, name: &str, family: &str) -> bool {
        let fits = |glob: &Glob| glob.matches(name) || glob.matches(family);
        self.allow.is_empty() || self.allow.iter().any(fits)
    }

    /// The series of a row, with the unit of a histogram; statistics of its labels are left in
    /// `stats`.
    pub(super) fn series(
        &self,
        rules: &LabelRules,
        row: &Row<'_>,
        unit: Option<ValueUnit>,
        stats: &Cell<Option<LineLabelStats>>,
    ) -> Result<Series, Reject> {
        let plain = || Operation::new(row.name).map_err(|_| Reject::Name);
        let operation = unit.map_or_else(plain, |unit| unit.operation(row.name))?;
        let own = pairs(row.labels);
        let own = own.iter().map(|(key, value)| (*key, &**value));
        let is_bound = |key: &str| unit.is_some() && key == LE;
        let own = own.filter(|(key, value)| !value.is_empty() && !is_bound(key));
        let (labels, dropped) = rules.keep(self.labels.iter().chain(own));
        stats.set(dropped);
        Ok(Series { operation, labels })
    }

    /// A warning with a fix for the operator about a rejection of `name`.
    pub(super) fn warning(&self, reason: Reject, name: &str) -> String {
        let Self { name: target, series_max, .. } = self;
        match reason {
            Reject::Unit => format!(
                "{target}: the unit of histogram {name:?} is unknown; set unit in its [[scrape]] to \
                 s, ms, us, ns, bytes or count, or remove the name from allow"
            ),
            Reject::SeriesCap => format!(
                "{target}: a page has more than {series_max} series, or the node has no room for \
                 them; list the names to read in allow of its [[scrape]], or raise series_max"
            ),
            Reject::Reserved => format!(
                "{target}: the mesh records its own latencies as {name:?}; rename the histogram in \
                 the application, or leave the name out of allow"
            ),
            _ if name.is_empty() => format!("{target}: a line was rejected: {}", reason.as_str()),
            _ => format!("{target}: {name:?} was rejected: {}", reason.as_str()),
        }
    }
}
