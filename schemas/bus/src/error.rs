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
    /// The credentials file cannot be read or holds no credentials.
    #[error("bus credentials file {}: {source}", path.display())]
    CredentialsFile {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// Not the seed of a user's key.
    #[error("bus nkey seed is not a user's seed; those have 58 characters and begin with SU")]
    NkeySeed,
    /// The NATS client would not start.
    #[error("bus client did not start: {0}")]
    Client(String),
}
