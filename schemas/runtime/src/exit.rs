//! Exit codes: one table for all programs of the mesh.

use std::fmt::Display;
use std::process::ExitCode;

/// How a process ended. Success is 0; 2 is what the argument parser uses for wrong usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Success = 0,
    /// Something failed that no other code names.
    Failure = 1,
    Usage = 2,
    /// The configuration is wrong; the message names the key and where it was set.
    Configuration = 3,
    /// An address or socket cannot be bound.
    Listen = 4,
    /// The process ended before all messages were acknowledged.
    Undrained = 5,
    /// An expectation of a drill, or a target of a benchmark, was missed. The scripts
    /// `node/bench/run` and `aggregator/bench/run` exit with the same number.
    Missed = 6,
    /// A comparison found that some latency is worse.
    Worse = 7,
    /// A comparison of what was not measured alike.
    NotComparable = 8,
    /// A comparison with too few samples or intervals for a verdict.
    NotEnoughData = 9,
    /// `plimsoll doctor` found an error.
    Unsound = 10,
    /// A process may not be read.
    Denied = 11,
}

/// The table, as `--help` prints it.
pub const TABLE: &str = "Exit codes:
  0  done
  1  failed
  2  wrong usage
  3  invalid configuration (the message names the key and where it was set)
  4  an address or socket cannot be bound
  5  ended before all messages were acknowledged
  6  an expectation of a drill, or a target of a benchmark, was missed
  7  a comparison found a latency that is worse
  8  a comparison of what was not measured alike
  9  a comparison without enough data for a verdict
  10 plimsoll doctor found an error
  11 a process may not be read (the message names the fix)";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Prints why the process ends, and with which code.
pub fn fail(program: &str, exit: Exit, error: &dyn Display) -> ExitCode {
    eprintln!("{program}: {error}");
    exit.into()
}
