//! The tiers of the history: how long a slot of each is, and for how long it is kept by default.

use std::time::Duration;

use plimsoll_schemas::time::{Wall, nanos};
use serde::{Deserialize, Serialize};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const MIB: u64 = 1024 * 1024;

/// The length of a tier's slots. Each tier holds all samples of the time that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Resolution {
    /// 10 s.
    #[serde(rename = "10s")]
    TenSeconds,
    /// 1 min.
    #[serde(rename = "1m")]
    Minute,
    /// 10 min.
    #[serde(rename = "10m")]
    TenMinutes,
    /// 1 h.
    #[serde(rename = "1h")]
    Hour,
}

/// What one tier keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Slots that ended longer ago are dropped.
    pub age: Duration,
    /// Bytes of its slots; the oldest are dropped above it.
    pub bytes_max: u64,
}

impl Resolution {
    /// From the finest on; each is a multiple of the one before.
    pub const ALL: [Self; 4] = [Self::TenSeconds, Self::Minute, Self::TenMinutes, Self::Hour];

    /// The name in settings and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TenSeconds => "10s",
            Self::Minute => "1m",
            Self::TenMinutes => "10m",
            Self::Hour => "1h",
        }
    }

    pub fn slot(self) -> Duration {
        Duration::from_secs(match self {
            Self::TenSeconds => 10,
            Self::Minute => MINUTE,
            Self::TenMinutes => 10 * MINUTE,
            Self::Hour => HOUR,
        })
    }

    /// The number of the slot that a time lies in.
    pub fn number(self, at: Wall) -> u64 {
        at.0 / nanos(self.slot())
    }

    pub fn begin(self, number: u64) -> Wall {
        Wall(number.saturating_mul(nanos(self.slot())))
    }

    /// What a tier keeps unless the settings state otherwise. All of that time fits for an
    /// operation of 10 000 nodes in 16 groups, which takes 1.7, 2.6, 2.3 and 3.6 GiB: DESIGN A75.
    pub fn default_bound(self) -> Bound {
        let days = match self {
            Self::TenSeconds => 2,
            Self::Minute => 14,
            Self::TenMinutes => 92,
            Self::Hour => 730,
        };
        Bound { age: Duration::from_secs(days * DAY), bytes_max: 4_096 * MIB }
    }
}

/// What each tier keeps, from the finest on.
pub type Bounds = [Bound; Resolution::ALL.len()];

/// What each tier keeps by default.
pub fn default_bounds() -> Bounds {
    Resolution::ALL.map(Resolution::default_bound)
}
