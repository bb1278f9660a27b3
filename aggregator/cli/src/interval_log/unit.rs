//! The unit of the values in a log, which the format leaves open.

use std::str::FromStr;

/// The unit of the values in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
}

impl Unit {
    /// Its length in nanoseconds.
    pub fn ns(self) -> u64 {
        match self {
            Self::Nanoseconds => 1,
            Self::Microseconds => 1_000,
            Self::Milliseconds => 1_000_000,
        }
    }
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ns" => Ok(Self::Nanoseconds),
            "us" => Ok(Self::Microseconds),
            "ms" => Ok(Self::Milliseconds),
            _ => Err(format!("the unit {text:?} is not ns, us or ms")),
        }
    }
}
