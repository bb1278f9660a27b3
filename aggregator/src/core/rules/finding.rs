//! What an evaluation finds out about one alert.

use plimsoll_schemas::alert::{AlertKey, DataStatus};

/// What an evaluation found out about one alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// There was nothing to judge.
    NoData,
    /// There was too little to judge.
    Insufficient,
    /// Neither shown to be over the limit nor to be within.
    Uncertain,
    /// Shown to be within the limit.
    Clear,
    /// Shown to be over the limit.
    Breach,
}

impl Finding {
    /// Whether there was enough to judge.
    pub const fn data(self) -> DataStatus {
        match self {
            Self::NoData => DataStatus::NoData,
            Self::Insufficient => DataStatus::Insufficient,
            Self::Uncertain | Self::Clear | Self::Breach => DataStatus::Enough,
        }
    }
}

/// How many evaluations in a row it takes to move an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hysteresis {
    /// Breaches until an alert fires.
    pub fire_after: u32,
    /// Evaluations clearly within the limit until it resolves.
    pub clear_after: u32,
}

/// A finding, and the alert that it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertFinding {
    pub key: AlertKey,
    pub finding: Finding,
    /// How many of these in a row move it.
    pub hysteresis: Hysteresis,
}
