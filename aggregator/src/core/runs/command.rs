//! What clients do with runs and ask of them.

use plimsoll_schemas::ids::{Labels, RunName};
use plimsoll_schemas::summary::RunState;
use thiserror::Error;

use crate::limits::alerts::BY_BYTES_MAX;
use crate::limits::runs::RUNS_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunCommand {
    Begin {
        name: RunName,
        labels: Labels,
        /// The operator, if named.
        by: Option<String>,
    },
    Stop {
        name: RunName,
        /// How it ended, if known.
        exit_code: Option<u8>,
    },
}

/// Why a command was refused; names the key and the fix.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RunError {
    #[error(
        "name {:?} is used by a run ({}); choose another name", .name.as_str(), .state.as_str()
    )]
    Exists {
        name: RunName,
        /// Whether it has ended.
        state: RunState,
    },
    #[error("the maximum of {RUNS_MAX} running runs is reached; stop one first")]
    Full,
    #[error("run {:?} is unknown; GET /api/v1/runs lists all runs", .0.as_str())]
    Unknown(RunName),
    #[error("run {:?} has ended already", .0.as_str())]
    Ended(RunName),
    #[error(
        "by has {0} bytes; it must be a name of 1 to {BY_BYTES_MAX} bytes without control \
         characters"
    )]
    Operator(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunsQuery {
    pub name: Option<RunName>,
    pub state: Option<RunState>,
    /// This many of the newest.
    pub limit: usize,
}

impl Default for RunsQuery {
    fn default() -> Self {
        Self { name: None, state: None, limit: RUNS_MAX }
    }
}

impl RunsQuery {
    pub(super) fn matches(&self, name: &RunName, state: RunState) -> bool {
        self.name.as_ref().is_none_or(|wanted| wanted == name)
            && self.state.is_none_or(|wanted| wanted == state)
    }
}

impl RunCommand {
    pub(super) fn check(&self) -> Result<(), RunError> {
        let Self::Begin { by: Some(by), .. } = self else { return Ok(()) };
        let fits = (1..=BY_BYTES_MAX).contains(&by.len()) && !by.contains(char::is_control);
        fits.then_some(()).ok_or(RunError::Operator(by.len()))
    }
}
