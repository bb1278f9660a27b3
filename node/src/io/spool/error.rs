//! What can go wrong with a spool: at its start, with a file found there, with a write.

use std::io;
use std::path::PathBuf;

use plimsoll_schemas::ids::{MeshName, NodeName};
use thiserror::Error;

/// Why there is no spool.
#[derive(Debug, Error)]
pub enum SpoolError {
    /// Something cannot be made, read or written where it is.
    #[error("spool.path: {}: {source}", path.display())]
    Inaccessible {
        /// What.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process works with it.
    #[error("spool.path: {} is in use by another process", path.display())]
    InUse {
        /// The lock.
        path: PathBuf,
    },
    /// It belongs to another node.
    #[error(
        "spool.path: {} is the spool of node {node} of mesh {mesh}: give each a directory of \
         its own", path.display()
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// The mesh it belongs to.
        mesh: MeshName,
        /// The node it belongs to.
        node: NodeName,
    },
}

/// A file that was kept for inspection under another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Why, as a label: `damaged`, `newer_version` or `too_large`.
    pub reason: &'static str,
    /// Why, in words.
    pub why: String,
    /// Where it is now.
    pub now_at: PathBuf,
}

/// Why a batch was not written. Then there is no file, unless it `remains`: what it held would
/// no longer be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// As a label: `full` or `io`.
    pub reason: &'static str,
    /// In words.
    pub text: String,
    /// True when the file could not be removed either: a later start would believe it.
    pub remains: bool,
}
