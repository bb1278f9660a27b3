//! Errors of a bus configuration.

use std::path::PathBuf;

use thiserror::Error;

/// Why a [`BusConfig`](crate::BusConfig) cannot be used. A broker that is absent is no error.
#[derive(Debug, Error)]
pub enum BusError {
    /// Nothing to connect to.
    #[error("bus url is empty; give at least one, such as nats://127.0.0.1:4222")]
    NoUrl,
    /// One of the addresses is malformed.
    #[error("bus url {url:?}: {reason}; it should look like nats://host:4222 or tls://host:4222")]
    Url {
        /// The address at fault, without any password in it.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file with a secret cannot be read, or others can read it.
    #[error("{}: {source}", path.display())]
    SecretFile { path: PathBuf, source: std::io::Error },
    /// The credentials file has no JWT or no seed of a user.
    #[error("{}: it has no user JWT with a seed; `nsc generate creds` writes such files", path.display())]
    NoCredentials { path: PathBuf },
    /// A certificate or its key cannot be used.
    #[error("{}: {reason}", path.display())]
    TlsFile { path: PathBuf, reason: String },
    /// Not the seed of a user's key.
    #[error("bus nkey seed is not a user's seed; it must have 58 characters and start with SU")]
    NkeySeed,
    /// Not the first tokens of a subject.
    #[error("inbox prefix {0:?}: give words separated by dots, such as _INBOX.node1")]
    InboxPrefix(String),
    /// The NATS client would not start.
    #[error("bus client did not start: {0}")]
    Client(String),
}
