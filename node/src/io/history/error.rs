//! Why a history cannot be used as configured.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum HistoryError {
    #[error("history.path: {path} is used by another process; stop it, or name another directory")]
    InUse { path: PathBuf },
    #[error("history.path: no thread can be started: {0}")]
    Thread(#[from] io::Error),
}
