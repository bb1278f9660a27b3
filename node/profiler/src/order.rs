//! What to capture: a process, a rate and a time, checked once.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::limits::{RATE_HZ_MAX, SECONDS_MAX};
use crate::reader::Paths;

/// An order that can be carried out as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub pid: ProcessId,
    /// Samples a second, 1 to [`RATE_HZ_MAX`].
    hz: u32,
    /// Up to [`SECONDS_MAX`].
    pub length: Duration,
    pub paths: Paths,
    pub threads: Threads,
    /// Whether native frames are wanted too; then any process can be read.
    pub native: bool,
}

/// Whose stacks count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    #[default]
    All,
    /// At each sample the one that holds the global interpreter lock.
    GilHolder,
}

/// A process, by its number in this process's `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId(pub i32);

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OrderError {
    #[error("rate is {0} Hz: choose 1 to {RATE_HZ_MAX}")]
    Rate(u32),
    #[error("seconds is {0}: choose 1 to {SECONDS_MAX}, or order several captures")]
    Seconds(u32),
    #[error("pid is {0}: choose the number of a process")]
    Pid(i32),
}

impl Order {
    /// Of all threads.
    ///
    /// # Errors
    /// When a value is outside its bounds.
    pub fn new(pid: i32, hz: u32, seconds: u32, paths: Paths) -> Result<Self, OrderError> {
        if pid <= 0 {
            return Err(OrderError::Pid(pid));
        }
        if hz == 0 || hz > RATE_HZ_MAX {
            return Err(OrderError::Rate(hz));
        }
        if seconds == 0 || seconds > SECONDS_MAX {
            return Err(OrderError::Seconds(seconds));
        }
        let length = Duration::from_secs(seconds.into());
        let pid = ProcessId(pid);
        Ok(Self { pid, hz, length, paths, threads: Threads::All, native: false })
    }

    pub fn hz(&self) -> u32 {
        self.hz
    }

    /// Time in which one sample is taken.
    pub fn period(&self) -> Duration {
        Duration::from_secs(1) / self.hz
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_outside_its_bounds_is_refused() {
        let table = [
            (1, 100, 10, Ok(Duration::from_millis(10))),
            (1, 1_000, 600, Ok(Duration::from_millis(1))),
            (0, 100, 10, Err(OrderError::Pid(0))),
            (-5, 100, 10, Err(OrderError::Pid(-5))),
            (1, 0, 10, Err(OrderError::Rate(0))),
            (1, 1_001, 10, Err(OrderError::Rate(1_001))),
            (1, 100, 0, Err(OrderError::Seconds(0))),
            (1, 100, 601, Err(OrderError::Seconds(601))),
        ];
        for (pid, rate, seconds, expected) in table {
            let period = Order::new(pid, rate, seconds, Paths::Full).map(|order| order.period());
            assert_eq!(period, expected, "{pid} {rate} {seconds}");
        }
    }
}
