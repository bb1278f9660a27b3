//! Why a history cannot be read.

use thiserror::Error;

use super::record::Damaged;

/// A file that cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error("the history cannot be read: {0}")]
    Failed(#[from] redb::Error),
    /// The latest write has failed.
    #[error("the history could not be written and is closed until the next checkpoint")]
    Closed,
    /// A record is damaged.
    #[error("{0}")]
    Damaged(String),
}

impl From<Damaged> for ReadError {
    fn from(damaged: Damaged) -> Self {
        Self::Damaged(damaged.to_string())
    }
}
