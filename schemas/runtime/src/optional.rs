//! Settings that an empty text disables: addresses and paths.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

/// An address; `None` for an empty text.
///
/// # Errors
/// When the text is no address.
pub fn address_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        serde::de::Error::custom(format!("{text:?} is not an address such as \"127.0.0.1:8125\""))
    })
}

/// A path; `None` for an empty one.
///
/// # Errors
/// When it is no text.
pub fn path_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    Ok(Some(path).filter(|path| !path.as_os_str().is_empty()))
}
