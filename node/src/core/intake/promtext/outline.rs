//! What a page says of itself, read before its rows: types and units of its families, and since
//! when they count. It may say so behind the rows that it is about.

use std::collections::BTreeMap;

use crate::limits::scrape::{FAMILIES_MAX, SERIES_MAX_MAX};
use plimsoll_schemas::time::Wall;

use super::line::{Kind, Line, Pair, name_of, parse};
use super::streams::Streams;

/// The gauge by which a process says when it began, in seconds since 1970.
const PROCESS_START: &str = "process_start_time_seconds";
const CREATED: &str = "_created";

/// What is known of a page before its rows are read.
#[derive(Default)]
pub(super) struct Outline<'a> {
    families: BTreeMap<&'a str, Family<'a>>,
    created: BTreeMap<u64, Wall>,
    /// When the process that tells the page began, as it says itself.
    pub(super) process_start: Option<Wall>,
}

#[derive(Clone, Copy, Default)]
struct Family<'a> {
    kind: Option<Kind>,
    unit: Option<&'a str>,
}

/// What a row is to its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Gauge,
    /// A share below which a summary's samples are: a gauge, of nothing while there are none.
    Quantile,
    Counter,
    Bucket,
    Count,
    Sum,
    /// Since when a series counts.
    Created,
    /// Of a kind that is not taken.
    Unsupported,
    /// A name that its family has no use for.
    Misplaced,
}

impl<'a> Outline<'a> {
    /// Reads what a page says of itself; lines that are wrong are left to whoever reads its rows.
    pub(super) fn read(lines: impl Iterator<Item = &'a [u8]> + Clone, streams: &Streams) -> Self {
        let (mut outline, mut pairs) = (Self::default(), Vec::new());
        for line in lines.clone().filter(|line| line.trim_ascii_start().starts_with(b"#")) {
            match parse(line, &mut pairs) {
                Ok(Line::Type(name, kind)) => outline.family(name, |told| told.kind = Some(kind)),
                Ok(Line::Unit(name, unit)) => outline.family(name, |told| told.unit = Some(unit)),
                _ => {}
            }
        }
        for line in lines {
            let name = name_of(line.trim_ascii_start()).map_or("", |(name, _)| name);
            if name.ends_with(CREATED) || name == PROCESS_START {
                outline.on_start(line, &mut pairs, streams);
            }
        }
        outline
    }

    fn family(&mut self, name: &'a str, tell: impl FnOnce(&mut Family<'a>)) {
        if self.families.len() < FAMILIES_MAX || self.families.contains_key(name) {
            tell(self.families.entry(name).or_default());
        }
    }

    fn on_start(&mut self, line: &'a [u8], pairs: &mut Vec<Pair<'a>>, streams: &Streams) {
        let Ok(Line::Row(row)) = parse(line, pairs) else { return };
        let Some(at) = wall(row.value) else { return };
        let (family, role) = self.role(row.name);
        if role == Role::Created && self.created.len() < SERIES_MAX_MAX {
            self.created.insert(streams.of(family, pairs), at);
        } else if row.name == PROCESS_START && pairs.is_empty() {
            self.process_start = Some(at);
        }
    }

    /// Since when a counter with these labels counts, where the page says so.
    pub(super) fn created(
        &self,
        family: &str,
        pairs: &[Pair<'_>],
        streams: &Streams,
    ) -> Option<Wall> {
        let family = family.strip_suffix("_total").unwrap_or(family);
        self.started(|| streams.of(family, pairs))
    }

    /// The same for a histogram.
    pub(super) fn created_histogram(
        &self,
        family: &str,
        pairs: &[Pair<'_>],
        streams: &Streams,
    ) -> Option<Wall> {
        self.started(|| streams.of_histogram(family, pairs))
    }

    fn started(&self, number: impl FnOnce() -> u64) -> Option<Wall> {
        if self.created.is_empty() { None } else { self.created.get(&number()).copied() }
    }

    /// The unit that a page says a family's values have.
    pub(super) fn unit(&self, family: &str) -> Option<&'a str> {
        self.families.get(family)?.unit
    }

    /// The family of a row, and what the row is to it.
    pub(super) fn role<'n>(&self, name: &'n str) -> (&'n str, Role) {
        // The older format has no such rows and tells them as gauges of their own.
        if let Some(family) = name.strip_suffix(CREATED).filter(|family| self.counts(family)) {
            return (family, Role::Created);
        }
        if let Some(kind) = self.kind(name) {
            return (name, whole(kind));
        }
        let parts = ["_bucket", "_count", "_sum", "_total", "_info", "_gcount", "_gsum"];
        let part = parts.into_iter().find_map(|suffix| {
            let family = name.strip_suffix(suffix)?;
            Some((family, part(self.kind(family)?, suffix)?))
        });
        part.unwrap_or((name, Role::Gauge))
    }

    fn kind(&self, family: &str) -> Option<Kind> {
        self.families.get(family)?.kind
    }

    /// Whether something of this name counts from a start on.
    fn counts(&self, family: &str) -> bool {
        let total = || self.kind(&format!("{family}_total")) == Some(Kind::Counter);
        match self.kind(family) {
            Some(Kind::Counter | Kind::Histogram | Kind::Summary | Kind::GaugeHistogram) => true,
            _ => total(),
        }
    }
}

/// What a row with its family's own name is.
fn whole(kind: Kind) -> Role {
    match kind {
        Kind::Counter => Role::Counter,
        Kind::Summary => Role::Quantile,
        Kind::Gauge | Kind::Info | Kind::StateSet | Kind::Untyped => Role::Gauge,
        Kind::Histogram | Kind::GaugeHistogram => Role::Misplaced,
    }
}

/// What a row with its family's name and a suffix is.
fn part(kind: Kind, suffix: &str) -> Option<Role> {
    match (kind, suffix) {
        (Kind::Histogram, "_bucket") => Some(Role::Bucket),
        (Kind::Histogram, "_count") => Some(Role::Count),
        (Kind::Histogram, "_sum") => Some(Role::Sum),
        (Kind::Summary, "_count" | "_sum") | (Kind::Counter, "_total") => Some(Role::Counter),
        (Kind::Info, "_info") => Some(Role::Gauge),
        (Kind::GaugeHistogram, "_bucket" | "_gcount" | "_gsum") => Some(Role::Unsupported),
        _ => None,
    }
}

/// Seconds since 1970 as a point in time; `None` for what is none.
pub(super) fn wall(seconds: f64) -> Option<Wall> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above zero, and a float above the integer's range saturates"
    )]
    (seconds.is_finite() && seconds > 0.0).then_some(Wall((seconds * 1e9) as u64))
}
