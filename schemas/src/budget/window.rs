//! The windows over which samples are merged: ten, fixed, so that any two budgets may share one.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A window that ends now, over which snapshots are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub enum Window {
    /// The last ten seconds.
    #[serde(rename = "10s")]
    TenSeconds,
    /// The last minute.
    #[serde(rename = "1m")]
    OneMinute,
    /// The last five minutes.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// The last half hour.
    #[serde(rename = "30m")]
    HalfHour,
    /// The last hour.
    #[serde(rename = "1h")]
    OneHour,
    /// The last two hours.
    #[serde(rename = "2h")]
    TwoHours,
    /// The last six hours.
    #[serde(rename = "6h")]
    SixHours,
    /// The last day.
    #[serde(rename = "1d")]
    OneDay,
    /// The last three days.
    #[serde(rename = "3d")]
    ThreeDays,
    /// The last thirty days.
    #[serde(rename = "30d")]
    ThirtyDays,
}

impl Window {
    /// All windows, shortest first.
    pub const ALL: [Self; 10] = [
        Self::TenSeconds,
        Self::OneMinute,
        Self::FiveMinutes,
        Self::HalfHour,
        Self::OneHour,
        Self::TwoHours,
        Self::SixHours,
        Self::OneDay,
        Self::ThreeDays,
        Self::ThirtyDays,
    ];

    /// The window's length.
    #[must_use]
    pub const fn span(self) -> Duration {
        Duration::from_secs(self.figures().1)
    }

    /// The step in which its old end moves on; it divides the step of every longer window.
    #[must_use]
    pub const fn slot(self) -> Duration {
        Duration::from_secs(self.figures().2)
    }

    /// The window's name in files and labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.figures().0
    }

    /// Name, length and step in seconds.
    const fn figures(self) -> (&'static str, u64, u64) {
        match self {
            Self::TenSeconds => ("10s", 10, 1),
            Self::OneMinute => ("1m", 60, 5),
            Self::FiveMinutes => ("5m", 300, 30),
            Self::HalfHour => ("30m", 1_800, 150),
            Self::OneHour => ("1h", 3_600, 300),
            Self::TwoHours => ("2h", 7_200, 600),
            Self::SixHours => ("6h", 21_600, 1_800),
            Self::OneDay => ("1d", 86_400, 7_200),
            Self::ThreeDays => ("3d", 259_200, 21_600),
            Self::ThirtyDays => ("30d", 2_592_000, 86_400),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
