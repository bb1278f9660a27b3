//! Why a history cannot be used as configured.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why the history cannot be used as configured.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// Another process has it.
    #[error("history.path: {path} is used by another process; stop it, or name another directory")]
    InUse { path: PathBuf },
    /// No thread can be started.
    #[error("history.path: no thread can be started: {0}")]
    Thread(#[from] io::Error),
}
