//! Settings of confirmations to nodes: who signs them, and whether state in memory is confirmed.

use std::path::PathBuf;

use plimsoll_runtime::confirm_key::ConfirmKeyFile;
use plimsoll_runtime::process::host_name;
use plimsoll_schemas::ids::AggregatorName;
use serde::Deserialize;

/// The `[confirm]` section.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ConfirmSettings {
    pub key_file: Option<PathBuf>,
    pub name: Option<AggregatorName>,
    pub without_state: bool,
}

impl ConfirmSettings {
    /// Checks that there is a name, and that the file holds a key.
    pub(super) fn check(&self) -> Result<(), String> {
        self.name()?;
        self.key().map(drop)
    }

    /// The key, if there is to be one.
    ///
    /// # Errors
    /// Names the key of the settings and the fix.
    pub fn key(&self) -> Result<Option<ConfirmKeyFile>, String> {
        self.key_file.as_deref().map(ConfirmKeyFile::open).transpose()
    }

    /// The name, taken from the host when none was given.
    ///
    /// # Errors
    /// When there is neither.
    pub fn name(&self) -> Result<AggregatorName, String> {
        let host = || AggregatorName::from_host(&host_name()?);
        self.name
            .clone()
            .or_else(host)
            .ok_or_else(|| "confirm.name: the host has no usable name; set confirm.name".to_owned())
    }
}
