//! The files of records beside the state file: what receivers are owed and what is left of error
//! budgets outlive a state file that cannot be read. Each is replaced as a whole, by a rename.
//!
//! DESIGN A104, A166.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use plimsoll_schemas::ids::MeshName;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::alerting::AlertsRecord;
use crate::core::fleet::BudgetsRecord;
use crate::limits::{ALERTS_RECORD_BYTES_MAX, BUDGETS_RECORD_BYTES_MAX};

pub(in crate::io) trait BesideRecord: Serialize + DeserializeOwned {
    /// How the name of its file ends, after that of the state file.
    const ENDING: &'static str;
    /// The version that this program writes and reads.
    const VERSION: u16;
    /// The longest file that is written or read.
    const BYTES_MAX: u64;

    fn head(&self) -> (u16, &MeshName);
}

impl BesideRecord for AlertsRecord {
    const ENDING: &'static str = ".alerts.json";
    const VERSION: u16 = Self::VERSION;
    const BYTES_MAX: u64 = ALERTS_RECORD_BYTES_MAX;

    fn head(&self) -> (u16, &MeshName) {
        (self.version, &self.mesh)
    }
}

impl BesideRecord for BudgetsRecord {
    const ENDING: &'static str = ".budgets.json";
    const VERSION: u16 = Self::VERSION;
    const BYTES_MAX: u64 = BUDGETS_RECORD_BYTES_MAX;

    fn head(&self) -> (u16, &MeshName) {
        (self.version, &self.mesh)
    }
}

/// The file of a record of this state file.
pub(in crate::io) fn path_beside<R: BesideRecord>(state: &Path) -> PathBuf {
    with_ending(state, R::ENDING)
}

/// Reads the record; `None` if there is no file.
///
/// # Errors
/// Names what is wrong with it.
pub(in crate::io) fn read<R: BesideRecord>(
    state: &Path,
    mesh: &MeshName,
) -> Result<Option<R>, String> {
    let text = match read_bounded(&path_beside::<R>(state), R::BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };

    let record: R = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let (version, theirs) = record.head();
    if version != R::VERSION {
        return Err(format!("it is of version {version}; this program reads {}", R::VERSION));
    }
    if theirs != mesh {
        return Err(format!("it is of mesh {theirs}, not of {mesh}"));
    }
    Ok(Some(record))
}

fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut text)?;
    check_length(&text, bytes_max)?;
    Ok(text)
}

fn check_length(text: &[u8], bytes_max: u64) -> io::Result<()> {
    if text.len() as u64 <= bytes_max {
        return Ok(());
    }
    let why = format!("it has more than {bytes_max} bytes");
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Replaces the record; returns its bytes once they are on the disk.
///
/// # Errors
/// When it may not have been replaced, as one that could not be read again is not; the one before
/// it stays then.
pub(in crate::io) fn write<R: BesideRecord>(state: &Path, record: &R) -> io::Result<u64> {
    let path = path_beside::<R>(state);
    let text = serde_json::to_vec(record)?;
    check_length(&text, R::BYTES_MAX)?;
    let new = with_ending(&path, ".new");
    let mut options = File::options();
    // What is there may be a link to another file.
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.custom_flags(libc::O_NOFOLLOW).open(&new)?;

    // Text, name and folder in this order: after a power loss at any point there is the old record
    // or the new one, and never a part of one.
    file.write_all(&text)?;
    file.sync_data()?;
    fs::rename(&new, &path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(dir.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(text.len() as u64)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh() -> MeshName {
        MeshName::new("m").unwrap()
    }

    fn record() -> AlertsRecord {
        serde_json::from_str(r#"{"version": 1, "mesh": "m", "at_ns": 7, "of_a_later_one": []}"#)
            .unwrap()
    }

    #[test]
    fn a_record_that_would_be_too_long_to_read_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.redb");
        write(&path, &record()).unwrap();
        let name = "x".repeat(usize::try_from(ALERTS_RECORD_BYTES_MAX).unwrap());
        let (begin, end) = (r#"{"version": 1, "mesh": "m", "at_ns": 8"#, r#"": {}}}"#);
        let long = format!(r#"{begin}, "receivers": {{"{name}{end}"#);
        let long: AlertsRecord = serde_json::from_str(&long).unwrap();
        let error = write(&path, &long).unwrap_err().to_string();
        assert!(error.contains("67108864 bytes"), "{error}");
        assert_eq!(read(&path, &mesh()), Ok(Some(record())));
        assert_eq!(read::<BudgetsRecord>(&path, &mesh()), Ok(None));
    }

    #[test]
    fn another_version_another_mesh_and_garbage_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state.redb");
        let path = path_beside::<AlertsRecord>(&state);
        assert_eq!(read::<AlertsRecord>(&state, &mesh()), Ok(None));
        for (text, part) in [
            (r#"{"version": 2, "mesh": "m", "at_ns": 7}"#, "version 2"),
            (r#"{"version": 1, "mesh": "n", "at_ns": 7}"#, "mesh n"),
            ("garbage", "expected value"),
            ("", "EOF"),
        ] {
            fs::write(&path, text).unwrap();
            let error = read::<AlertsRecord>(&state, &mesh()).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
