//! The states of an alert, and whether there was data to judge it.

use serde::{Deserialize, Serialize};

/// The state of an alert.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// The rule has not been violated.
    #[default]
    Inactive,
    /// The rule is violated, but not yet for long enough.
    Pending,
    /// The rule is violated; receivers are notified.
    Firing,
    /// It was firing, and the samples have since shown that the rule holds.
    Resolved,
    /// Not pending, firing or resolved, with too few samples to judge.
    Insufficient,
    /// Not pending, firing or resolved, with no samples.
    NoData,
}

impl AlertState {
    /// All values.
    pub const ALL: [Self; 6] = [
        Self::Inactive,
        Self::Pending,
        Self::Firing,
        Self::Resolved,
        Self::Insufficient,
        Self::NoData,
    ];

    /// The state's value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::Pending => "pending",
            Self::Firing => "firing",
            Self::Resolved => "resolved",
            Self::Insufficient => "insufficient",
            Self::NoData => "no_data",
        }
    }
}

/// Whether there was enough data at the last evaluation. A pending or firing alert keeps its state
/// while there is not: missing data never resolves an alert.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DataStatus {
    /// Enough samples.
    #[default]
    Enough,
    /// Too few samples.
    Insufficient,
    /// No samples.
    NoData,
}

impl DataStatus {
    /// The value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enough => "enough",
            Self::Insufficient => "insufficient",
            Self::NoData => "no_data",
        }
    }

    /// The state to display: [`AlertState::Insufficient`] or [`AlertState::NoData`] replace
    /// [`AlertState::Inactive`] only.
    #[must_use]
    pub const fn displayed(self, state: AlertState) -> AlertState {
        match (state, self) {
            (AlertState::Inactive, Self::Insufficient) => AlertState::Insufficient,
            (AlertState::Inactive, Self::NoData) => AlertState::NoData,
            _ => state,
        }
    }
}
