//! What can go wrong with a spool: at its start, with a file found there, with a write.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use plimsoll_schemas::ids::{MeshName, NodeName};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum SpoolError {
    #[error("spool.path: {}: {source}", path.display())]
    Inaccessible { path: PathBuf, source: io::Error },
    #[error("spool.path: {} is in use by another process", path.display())]
    InUse { path: PathBuf },
    #[error(
        "spool.path: {} is the spool of node {node} of mesh {mesh}: give each a directory of \
         its own", path.display()
    )]
    Other { path: PathBuf, mesh: MeshName, node: NodeName },
}

/// A file that was kept under another name for inspection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Why, as a label: `damaged`, `newer_version` or `too_large`.
    pub reason: &'static str,
    pub why: String,
    /// Where it is now.
    pub now_at: PathBuf,
}

/// Why a batch or a note was not written. After a batch the file is removed, unless it `remains`,
/// because its content is outdated; an outdated note does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// As a label: `full` or `io`.
    pub reason: &'static str,
    pub text: String,
    /// True when the file could not be removed either: a later start would use outdated content.
    pub remains: bool,
}

impl WriteFailure {
    /// The label of an error of the system.
    pub(super) fn reason_of(error: &io::Error) -> &'static str {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => "full",
            _ => "io",
        }
    }
}
