//! The key of confirmations in its file, which nodes and aggregators share.
//!
//! The file may be replaced at any time: it is read again when it has changed. One that cannot be
//! read meanwhile leaves the key as it was.
//!
//! DESIGN S60.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plimsoll_bus::read_secret;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::wire::signature::ConfirmKey;

use crate::limits::CONFIRM_KEY_CHECKED_EVERY;

/// Which file stands at the path, and its state: device, number, length and time of its change.
type Version = (u64, u64, u64, i64, i64);

/// A file with a key.
#[derive(Debug)]
pub struct ConfirmKeyFile {
    path: PathBuf,
    key: ConfirmKey,
    /// That of the latest attempt to read it.
    version: Option<Version>,
    check_at: Mono,
}

impl ConfirmKeyFile {
    /// Reads the key of the setting `confirm.key_file`.
    ///
    /// # Errors
    /// When it cannot be read, everyone can access it, or it holds no key. The text has the setting
    /// and the fix, and not the key.
    pub fn open(path: &Path) -> Result<Self, String> {
        let version = version(path);
        let (path, key, check_at) = (path.to_owned(), read(path)?, Mono(0));
        Ok(Self { path, key, version, check_at })
    }

    /// The key that was read last.
    pub fn key(&self) -> &ConfirmKey {
        &self.key
    }

    /// Reads the file again if it has changed, looking at it once in a while: true for another
    /// key.
    pub fn refresh(&mut self, now: Mono) -> bool {
        if now < self.check_at {
            return false;
        }
        self.check_at = now.plus(CONFIRM_KEY_CHECKED_EVERY);
        let found = version(&self.path);
        if found == self.version {
            return false;
        }
        self.version = found;

        match read(&self.path) {
            Ok(key) => {
                tracing::info!(path = %self.path.display(), "key of confirmations reloaded");
                self.key = key;
                true
            }
            Err(error) => {
                tracing::error!(
                    error,
                    "key of confirmations not reloaded; the previous one stays active"
                );
                false
            }
        }
    }
}

fn version(path: &Path) -> Option<Version> {
    let of = std::fs::metadata(path).ok()?;
    Some((of.dev(), of.ino(), of.len(), of.ctime(), of.ctime_nsec()))
}

fn read(path: &Path) -> Result<ConfirmKey, String> {
    let wrong = |error: &dyn ToString| {
        format!("confirm.key_file: {}: {}", path.display(), error.to_string())
    };
    let text = read_secret(path).map_err(|error| wrong(&error))?;
    ConfirmKey::from_hex(&text).map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place(digit: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("confirm.key");
        write(&path, digit.repeat(64) + "\n").unwrap();
        set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn a_key_that_everyone_can_read_or_that_is_short_is_refused_with_the_setting() {
        let (_dir, path) = place("a", 0o644);
        let error = ConfirmKeyFile::open(&path).unwrap_err();
        assert!(error.starts_with("confirm.key_file: ") && error.contains("chmod 0600"), "{error}");
        let (_dir, path) = place("", 0o600);
        assert!(ConfirmKeyFile::open(&path).unwrap_err().contains("empty"));
        let (_dir, path) = place("x", 0o600);
        let error = ConfirmKeyFile::open(&path).unwrap_err();
        assert!(error.contains("openssl rand -hex 32") && !error.contains("xxx"), "{error}");
    }

    #[test]
    fn a_new_key_is_read_once_it_is_there_and_a_bad_one_changes_nothing() {
        let (_dir, path) = place("a", 0o600);
        let mut file = ConfirmKeyFile::open(&path).unwrap();
        let mut now = Mono(0);
        let mut refreshed = || {
            now = now.plus(CONFIRM_KEY_CHECKED_EVERY);
            file.refresh(now)
        };
        assert!(!refreshed());
        write(&path, "no key").unwrap();
        assert!(!refreshed());
        write(&path, "b".repeat(66)).unwrap();
        assert!(refreshed() && !refreshed());
        std::fs::remove_file(&path).unwrap();
        assert!(!refreshed());
    }
}
