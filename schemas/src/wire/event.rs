//! Events and service checks of jobs, as DogStatsD defines them.
//!
//! They carry no samples and no rule evaluates them.

use serde::{Deserialize, Serialize};

use super::error::WireError;
use crate::ids::Labels;
use crate::limits::wire::{EVENT_TEXT_BYTES_MAX, EVENT_TITLE_BYTES_MAX, EVENTS_MAX};
use crate::time::Wall;

/// Events and service checks of one interval, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// At most `limits::wire::EVENTS_MAX`.
    pub events: Vec<Event>,
}

/// One event or one service check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Which of the two.
    pub source: EventSource,
    /// The event's title, or the service check's name.
    pub title: String,
    /// The event's text, or the check's message; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// How bad it is: `ok`, `warning`, `critical` and `unknown` of a check are success, warning,
    /// error and info.
    pub alert_type: AlertType,
    /// True for an event of low priority.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub low_priority: bool,
    /// When it happened, in nanoseconds: by its sender's clock; without that, the time at which the
    /// node received it.
    pub at: Wall,
    /// The host that its sender named.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Events with the same key belong together.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub aggregation_key: String,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// What kind of line it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventSource {
    /// `_e{..}`.
    Event,
    /// `_sc|..`.
    ServiceCheck,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlertType {
    /// Informational.
    #[default]
    Info,
    /// Good.
    Success,
    /// Not yet bad.
    Warning,
    /// Bad.
    Error,
}

impl EventSource {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Event, Self::ServiceCheck];

    /// The source as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::ServiceCheck => "service_check",
        }
    }
}

impl AlertType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Info, Self::Success, Self::Warning, Self::Error];

    /// How bad it is, as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Success => "success",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// The status of a service check, as DogStatsD names it.
    #[must_use]
    pub const fn check_status(self) -> &'static str {
        match self {
            Self::Success => "ok",
            Self::Warning => "warning",
            Self::Error => "critical",
            Self::Info => "unknown",
        }
    }
}

impl Events {
    /// Believes no length.
    pub(super) fn check(self) -> Result<Self, WireError> {
        if self.events.len() > EVENTS_MAX {
            return Err(WireError::Bounds { field: "events" });
        }

        let fits = |event: &Event| {
            !event.title.is_empty()
                && event.title.len() <= EVENT_TITLE_BYTES_MAX
                && event.text.len() <= EVENT_TEXT_BYTES_MAX
                && event.host.len() <= EVENT_TITLE_BYTES_MAX
                && event.aggregation_key.len() <= EVENT_TITLE_BYTES_MAX
                // Room for the offset of a clock, which a reader adds.
                && event.at.0 < u64::MAX / 2
        };

        match self.events.iter().all(fits) {
            true => Ok(self),
            false => Err(WireError::Bounds { field: "event" }),
        }
    }
}
