//! Why profiles cannot be kept as configured.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum ProfilesError {
    #[error(
        "profiles.directory: {path} is used by another process; stop it, or name another directory"
    )]
    InUse { path: PathBuf },
    #[error("profiles.directory: no thread can be started: {0}")]
    Thread(#[from] io::Error),
}
