//! The writer's description of a metric family: its name, type and help.

use plimsoll_schemas::hardware::unit_of;

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyType {
    /// A number that rises and falls.
    Gauge,
    /// A number that only grows; its name ends in `_total`.
    Counter,
    Histogram,
    /// No type; only for old names that break the naming rules.
    Unknown,
}

/// A family of series.
#[derive(Clone, Copy, Debug)]
pub struct Family<'a> {
    /// Full name: the unit last, then `_total` for a counter.
    pub name: &'a str,
    /// Type of the values.
    pub family_type: FamilyType,
    /// The HELP text: one line without quotes and backslashes.
    pub help: &'a str,
}

impl<'a> Family<'a> {
    /// A family of gauges.
    pub const fn gauge(name: &'a str, help: &'a str) -> Self {
        Self { name, family_type: FamilyType::Gauge, help }
    }

    /// A family of counters.
    pub const fn counter(name: &'a str, help: &'a str) -> Self {
        Self { name, family_type: FamilyType::Counter, help }
    }

    /// The family's name in OpenMetrics: a counter's without `_total`.
    pub(super) fn base_name(&self) -> &'a str {
        match self.family_type {
            FamilyType::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            _ => self.name,
        }
    }

    /// The unit with which its name ends; OpenMetrics and protobuf state it.
    pub(super) fn unit(&self) -> Option<&'static str> {
        unit_of(self.base_name())
    }
}
