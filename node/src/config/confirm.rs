//! Settings of confirmations: which are believed, and how many it takes.

use std::path::PathBuf;

use plimsoll_runtime::confirm_key::ConfirmKeyFile;

use super::section::section;
use crate::limits::CONFIRMATIONS_REQUIRED;

section! {
    pub struct ConfirmSettings {
        pub key_file: Option<PathBuf> = None,
        pub required: u32 = *CONFIRMATIONS_REQUIRED.start(),
    }
}

impl ConfirmSettings {
    /// Checks the bounds, and that the file holds a key.
    pub(super) fn check(&self) -> Result<(), String> {
        let (least, most) = (CONFIRMATIONS_REQUIRED.start(), CONFIRMATIONS_REQUIRED.end());
        if !CONFIRMATIONS_REQUIRED.contains(&self.required) {
            return Err(format!("confirm.required must lie between {least} and {most}"));
        }
        self.key().map(drop)
    }

    pub fn key(&self) -> Result<Option<ConfirmKeyFile>, String> {
        self.key_file.as_deref().map(ConfirmKeyFile::open).transpose()
    }
}
