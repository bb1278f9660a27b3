//! The golden files on disk: opened, listed, and written once on request.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::sidecar::Sidecar;

/// Set to write the messages that are missing.
const WRITE: &str = "PLIMSOLL_WRITE_GOLDEN";

/// Tests run side by side and each may be the one that writes.
static WRITING: Mutex<()> = Mutex::new(());

/// One message with what is stated about it.
pub(crate) struct Golden {
    pub(crate) sidecar: Sidecar,
    pub(crate) bytes: Vec<u8>,
}

fn directory() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the package to tests");
    PathBuf::from(package).join("data/wire/v1")
}

/// The message `name`; if it is missing and [`WRITE`] is set, it is first made by `encoded`.
pub(crate) fn open(name: &str, encoded: impl FnOnce(&Sidecar) -> Vec<u8>) -> Golden {
    let path = |extension| directory().join(name).with_extension(extension);
    let text = fs::read_to_string(path("json"));
    let text = text.unwrap_or_else(|error| panic!("{name}.json: {error}"));
    let sidecar = Sidecar::parse(&text).unwrap_or_else(|error| panic!("{name}.json: {error}"));
    let message = path("bin");
    let guard = WRITING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if std::env::var_os(WRITE).is_some() && !message.exists() {
        write_new(&message, &encoded(&sidecar)).unwrap();
    }
    drop(guard);
    let bytes = fs::read(&message).unwrap_or_else(|error| panic!("{name}.bin: {error}"));
    Golden { sidecar, bytes }
}

/// Writes a file that must not exist yet.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(bytes)
}

/// Names of all files with this extension, sorted.
pub(crate) fn stems(extension: &str) -> Vec<String> {
    let entries = fs::read_dir(directory()).expect("the golden files are part of the checkout");
    let paths = entries.map(|entry| entry.expect("the directory can be read").path());
    let wanted = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    let stem = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut stems: Vec<String> = wanted.map(stem).collect();
    stems.sort_unstable();
    stems
}
