//! The metadata of a page, read before its rows because it may follow them: types and units of its
//! families, and since when they count.

use std::collections::BTreeMap;

use crate::limits::scrape::{FAMILIES_MAX, SERIES_MAX_MAX};
use plimsoll_schemas::time::Wall;

use super::line::{FamilyType, Line, Pair, name_of, parse};
use super::stream_ids::StreamIds;

/// The gauge of the start of a process, in seconds since 1970.
const PROCESS_START: &str = "process_start_time_seconds";
const CREATED: &str = "_created";

#[derive(Default)]
pub(super) struct PageMetadata<'a> {
    families: BTreeMap<&'a str, Family<'a>>,
    created: BTreeMap<u64, Wall>,
    /// The start of the process, as the page states it.
    pub(super) process_start: Option<Wall>,
}

#[derive(Clone, Copy, Default)]
struct Family<'a> {
    family_type: Option<FamilyType>,
    unit: Option<&'a str>,
}

/// The role of a row in its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Gauge,
    /// A quantile of a summary: a gauge, without a value while there are no samples.
    Quantile,
    Counter,
    Bucket,
    Count,
    Sum,
    /// The start of a series.
    Created,
    /// Of a type that is not supported.
    Unsupported,
    /// A name that is invalid in its family.
    Misplaced,
}

impl<'a> PageMetadata<'a> {
    /// Reads the metadata of a page; malformed lines are rejected when the rows are read.
    pub(super) fn read(lines: impl Iterator<Item = &'a [u8]> + Clone, streams: &StreamIds) -> Self {
        let (mut outline, mut pairs) = (Self::default(), Vec::new());

        for line in lines.clone().filter(|line| line.trim_ascii_start().starts_with(b"#")) {
            match parse(line, &mut pairs) {
                Ok(Line::Type(name, family_type)) => {
                    outline.family(name, |family| family.family_type = Some(family_type));
                }
                Ok(Line::Unit(name, unit)) => {
                    outline.family(name, |family| family.unit = Some(unit));
                }
                _ => {}
            }
        }

        // In a second pass: whether a row states a start depends on the type of its family, which
        // may follow it.
        for line in lines {
            let name = name_of(line.trim_ascii_start()).map_or("", |(name, _)| name);
            if name.ends_with(CREATED) || name == PROCESS_START {
                outline.on_start(line, &mut pairs, streams);
            }
        }

        outline
    }

    fn family(&mut self, name: &'a str, set: impl FnOnce(&mut Family<'a>)) {
        if self.families.len() < FAMILIES_MAX || self.families.contains_key(name) {
            set(self.families.entry(name).or_default());
        }
    }

    fn on_start(&mut self, line: &'a [u8], pairs: &mut Vec<Pair<'a>>, streams: &StreamIds) {
        let Ok(Line::Row(row)) = parse(line, pairs) else { return };
        let Some(at) = wall(row.value) else { return };
        let (family, role) = self.role(row.name);
        if role == Role::Created && self.created.len() < SERIES_MAX_MAX {
            self.created.insert(streams.of(family, pairs), at);
        } else if row.name == PROCESS_START && pairs.is_empty() {
            self.process_start = Some(at);
        }
    }

    /// Since when a series counts, if the page states it; `id` is that of its family and labels.
    pub(super) fn created(&self, id: impl FnOnce() -> u64) -> Option<Wall> {
        if self.created.is_empty() { None } else { self.created.get(&id()).copied() }
    }

    /// The unit of a family, if the page states it.
    pub(super) fn unit(&self, family: &str) -> Option<&'a str> {
        self.families.get(family)?.unit
    }

    /// The family of a row, and its role in it.
    pub(super) fn role<'n>(&self, name: &'n str) -> (&'n str, Role) {
        // In the older format such rows are gauges of their own.
        if let Some(family) = name.strip_suffix(CREATED).filter(|family| self.counts(family)) {
            return (family, Role::Created);
        }
        if let Some(family_type) = self.family_type(name) {
            return (name, whole(family_type));
        }
        let parts = ["_bucket", "_count", "_sum", "_total", "_info", "_gcount", "_gsum"];
        let part = parts.into_iter().find_map(|suffix| {
            let family = name.strip_suffix(suffix)?;
            Some((family, part(self.family_type(family)?, suffix)?))
        });
        part.unwrap_or((name, Role::Gauge))
    }

    fn family_type(&self, family: &str) -> Option<FamilyType> {
        self.families.get(family)?.family_type
    }

    /// Whether a family of this name counts from a start.
    fn counts(&self, family: &str) -> bool {
        let total = || self.family_type(&format!("{family}_total")) == Some(FamilyType::Counter);
        match self.family_type(family) {
            Some(
                FamilyType::Counter
                | FamilyType::Histogram
                | FamilyType::Summary
                | FamilyType::GaugeHistogram,
            ) => true,
            _ => total(),
        }
    }
}

/// The role of a row with the name of its family.
fn whole(family_type: FamilyType) -> Role {
    match family_type {
        FamilyType::Counter => Role::Counter,
        FamilyType::Summary => Role::Quantile,
        FamilyType::Gauge | FamilyType::Info | FamilyType::StateSet | FamilyType::Untyped => {
            Role::Gauge
        }
        FamilyType::Histogram | FamilyType::GaugeHistogram => Role::Misplaced,
    }
}

/// The role of a row with the name of its family and a suffix.
fn part(family_type: FamilyType, suffix: &str) -> Option<Role> {
    match (family_type, suffix) {
        (FamilyType::Histogram, "_bucket") => Some(Role::Bucket),
        (FamilyType::Histogram, "_count") => Some(Role::Count),
        (FamilyType::Histogram, "_sum") => Some(Role::Sum),
        (FamilyType::Summary, "_count" | "_sum") | (FamilyType::Counter, "_total") => {
            Some(Role::Counter)
        }
        (FamilyType::Info, "_info") => Some(Role::Gauge),
        (FamilyType::GaugeHistogram, "_bucket" | "_gcount" | "_gsum") => Some(Role::Unsupported),
        _ => None,
    }
}

/// Seconds since 1970 as a time; `None` if invalid.
pub(super) fn wall(seconds: f64) -> Option<Wall> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above zero, and a float above the integer's range saturates"
    )]
    (seconds.is_finite() && seconds > 0.0).then_some(Wall((seconds * 1e9) as u64))
}
