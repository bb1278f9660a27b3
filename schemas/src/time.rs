//! Points in time as plain numbers, so that pure code accepts any `now`.
//!
//! Kinds that are never mixed: [`Mono`] orders events inside one process and never decreases;
//! [`Wall`] places a snapshot on the calendar and may jump; [`BootMillis`] compares with the starts
//! of processes. Reading one from the machine is the business of the crate `plimsoll-clock` alone.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds since the process took its first clock reading; never decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

/// Nanoseconds since 1970-01-01T00:00:00Z by one machine's clock. Example:
/// `Wall(1_700_000_000_042_000_000)` is 2023-11-14T22:13:20.042Z.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Wall(pub u64);

/// Milliseconds since the machine started, with the time in which it slept: the one count that its
/// processes share with the kernel, which states by it when each of them started.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BootMillis(pub u64);

/// Both clocks, read together: what every core takes as its first argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For deadlines and latencies.
    pub mono: Mono,
    /// For stamps that leave the process.
    pub wall: Wall,
}

impl Now {
    /// Both clocks moved on by `span`; how tests and the simulation let time pass.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self { mono: self.mono.plus(span), wall: self.wall.plus(span) }
    }
}

macro_rules! point_in_time {
    ($point:ident) => {
        impl $point {
            /// This point moved on by `span`, saturating after 584 years.
            #[must_use]
            pub fn plus(self, span: Duration) -> Self {
                Self(self.0.saturating_add(nanos(span)))
            }

            /// This point moved back by `span`, saturating at zero.
            #[must_use]
            pub fn minus(self, span: Duration) -> Self {
                Self(self.0.saturating_sub(nanos(span)))
            }

            /// Time from `earlier` to here; zero when `earlier` is in fact later.
            #[must_use]
            pub fn since(self, earlier: Self) -> Duration {
                Duration::from_nanos(self.0.saturating_sub(earlier.0))
            }
        }
    };
}

point_in_time!(Mono);
point_in_time!(Wall);

impl fmt::Display for Wall {
    /// Seconds since 1970 with milliseconds, the way Prometheus prints a timestamp.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000_000_000, self.0 / 1_000_000 % 1_000)
    }
}

/// A span in nanoseconds, saturating at `u64::MAX` (584 years).
#[must_use]
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds as fractional seconds, the base unit of every exported metric.
#[must_use]
pub fn seconds(nanos: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "f64 is exact to 104 days in nanoseconds")]
    let nanos = nanos as f64;
    nanos / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_runs_backwards_measures_as_zero() {
        assert_eq!(Mono(5).since(Mono(9)), Duration::ZERO);
        assert_eq!(Mono(9).since(Mono(5)), Duration::from_nanos(4));
    }

    #[test]
    fn both_clocks_advance_together() {
        let start = Now { mono: Mono(1), wall: Wall(1_000) };
        let later = start.after(Duration::from_nanos(7));
        assert_eq!((later.mono, later.wall), (Mono(8), Wall(1_007)));
    }

    #[test]
    fn seconds_come_back_from_json_as_they_were() {
        for step in 0..10_000 {
            let at = seconds(1_764_000_000_000_000_000 + step * 1_000_000_007);
            let text = serde_json::to_string(&at).unwrap();
            assert_eq!(serde_json::from_str::<f64>(&text).unwrap(), at, "{text}");
        }
    }

    #[test]
    fn wall_time_prints_as_seconds_with_milliseconds() {
        assert_eq!(Wall(1_700_000_000_042_999_999).to_string(), "1700000000.042");
    }
}
