//! What a program sets in code, which overrides the environment.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_schemas::ids::{IdError, Labels};

use crate::limits::DEFAULT_LABELS_MAX;

/// Settings of this process; what is not set comes from the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "pass it to `configure`"]
pub struct Config {
    pub(crate) enable: Option<bool>,
    pub(crate) timers: Option<bool>,
    pub(crate) shards: Option<bool>,
    pub(crate) stream: Option<PathBuf>,
    pub(crate) flush_every: Option<Duration>,
    pub(crate) labels: Vec<(String, String)>,
}

impl Config {
    /// The environment alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// The master switch. On, it also switches on the profilers that neither the program nor the
    /// environment sets.
    pub fn enable(self, is_on: bool) -> Self {
        Self { enable: Some(is_on), ..self }
    }

    /// Scopes, closures and futures: what [`Operation`](crate::Operation) times.
    pub fn timers(self, is_on: bool) -> Self {
        Self { timers: Some(is_on), ..self }
    }

    /// Shard reads.
    pub fn shards(self, is_on: bool) -> Self {
        Self { shards: Some(is_on), ..self }
    }

    /// The node's stream socket.
    pub fn stream(self, path: impl Into<PathBuf>) -> Self {
        Self { stream: Some(path.into()), ..self }
    }

    /// Time between two flushes, 10 ms to 60 s.
    pub fn flush_every(self, every: Duration) -> Self {
        Self { flush_every: Some(every), ..self }
    }

    /// A label of every series of this process, such as the run; at most 8. A label of the series
    /// itself with the same key wins.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    /// # Errors
    /// When its labels are not valid.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.labels.len() > DEFAULT_LABELS_MAX {
            return Err(ConfigError::TooManyLabels(DEFAULT_LABELS_MAX));
        }
        let labels = self.labels.iter().map(|(key, value)| (key, value));
        Labels::new(labels).map(drop).map_err(ConfigError::Label)
    }
}

/// Why [`configure`](crate::configure) changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Values were recorded before with other settings.
    Started,
    /// A default label is not valid.
    Label(IdError),
    /// There are more default labels than this.
    TooManyLabels(usize),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("values were recorded before; call configure before them"),
            Self::Label(error) => write!(f, "label: {error}"),
            Self::TooManyLabels(max) => write!(f, "label: at most {max} default labels"),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Label(error) => Some(error),
            Self::Started | Self::TooManyLabels(_) => None,
        }
    }
}
