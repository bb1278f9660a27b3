//! Errors of a bus configuration, and why a message was rejected.

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

/// Why a message was rejected. It is not lost: the caller still has it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// No connection, or the client's queue stayed full, for `limits::bus::HAND_OVER_WAIT`.
    #[error("no connection took the message in time")]
    HandOver,
    /// The broker has no stream for the subject.
    #[error("no stream keeps this subject")]
    NoResponders,
    /// Larger than the broker accepts.
    #[error("message is larger than the broker accepts")]
    TooLarge,
    /// The subject or the message id holds what the protocol cannot carry.
    #[error("subject or message id holds a blank or a line break")]
    Malformed,
    /// The stream rejected it.
    #[error("stream refused the message: {description} ({code})")]
    Rejected {
        /// JetStream's own error number.
        code: u64,
        /// JetStream's own text.
        description: String,
    },
    /// The answer was no acknowledgement.
    #[error("broker's answer cannot be read")]
    Unreadable,
    /// The connection is being closed.
    #[error("connection is closed")]
    Closed,
}

impl Refusal {
    /// The reason as a label.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::HandOver => "hand_over",
            Self::NoResponders => "no_responders",
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
            Self::Rejected { .. } => "rejected",
            Self::Unreadable => "unreadable",
            Self::Closed => "closed",
        }
    }
}
