//! What identifies a capture: derived from its cause, so that each that sees it names the same.

use std::fmt;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A capture, the same for each that orders it for the same cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CaptureId([u8; 16]);

/// A text that is no [`CaptureId`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a capture's id is 32 hexadecimal digits in lower case")]
pub struct CaptureIdError;

impl CaptureId {
    /// The id of what these parts name.
    #[must_use]
    pub fn derived(parts: &[&[u8]]) -> Self {
        let mut context = Context::new(&SHA256);
        for part in parts {
            // Without the lengths, parts could be divided otherwise and give the same id.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let digest = context.finish();
        let first = digest.as_ref().first_chunk();
        // Cannot fail: a digest of SHA-256 has 32 bytes.
        Self(*first.expect("a digest has 32 bytes"))
    }
}

impl fmt::Display for CaptureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl std::str::FromStr for CaptureId {
    type Err = CaptureIdError;

    fn from_str(text: &str) -> Result<Self, CaptureIdError> {
        let id = u128::from_str_radix(text, 16).map_err(|_| CaptureIdError)?;
        let id = Self(id.to_be_bytes());
        // One id has one text.
        if id.to_string() == text { Ok(id) } else { Err(CaptureIdError) }
    }
}

impl TryFrom<String> for CaptureId {
    type Error = CaptureIdError;

    fn try_from(text: String) -> Result<Self, CaptureIdError> {
        text.parse()
    }
}

impl From<CaptureId> for String {
    fn from(id: CaptureId) -> Self {
        id.to_string()
    }
}
