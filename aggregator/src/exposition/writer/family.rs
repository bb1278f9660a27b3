//! The writer's description of a metric family, and the formats of a page.

use plimsoll_schemas::hardware::unit_of;

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

#[derive(Clone, Copy, Debug)]
pub struct Family<'a> {
    /// Full name: the unit last, then `_total` for a counter.
    pub name: &'a str,
    pub family_type: FamilyType,
    /// The HELP text: one line without quotes and backslashes.
    pub help: &'a str,
}

impl<'a> Family<'a> {
    pub const fn gauge(name: &'a str, help: &'a str) -> Self {
        Self { name, family_type: FamilyType::Gauge, help }
    }

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Prometheus text 0.0.4.
    Text,
    /// OpenMetrics text 1.0.0.
    OpenMetrics,
    /// `io.prometheus.client.MetricFamily` messages, each behind its length.
    Protobuf,
}

impl Format {
    pub const ALL: [Self; 3] = [Self::Text, Self::OpenMetrics, Self::Protobuf];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::OpenMetrics => "openmetrics",
            Self::Protobuf => "protobuf",
        }
    }

    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }
}
