//! Why a socket of the node cannot be opened.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use thiserror::Error;

/// A socket that cannot be opened. `key` is its setting.
#[derive(Debug, Error)]
#[error("{key}: cannot listen on {place}: {source}{hint}")]
pub struct ListenError {
    key: &'static str,
    place: String,
    source: io::Error,
    hint: &'static str,
}

impl ListenError {
    pub(super) fn at_path(key: &'static str, path: &Path, source: io::Error) -> Self {
        let hint = "; choose another path or \"\" for none";
        Self { key, place: path.display().to_string(), source, hint }
    }

    pub(super) fn at_address(key: &'static str, address: SocketAddr, source: io::Error) -> Self {
        let hint = "; another agent may have it: choose another port or \"\" for none";
        Self { key, place: address.to_string(), source, hint }
    }
}
