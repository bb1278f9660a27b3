//! The file of a node's notes, beside its spool: read once at the start, then overwritten in place.
//!
//! Nothing is synced: a note outlives the process, which is all that it is for. Whatever is wrong
//! with the file of a former process counts as no note.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use super::error::WriteFailure;
use crate::core::spool::{NOTES_BYTES, Notes};

/// The file, opened when it is first written.
#[derive(Debug)]
pub(super) struct NoteFile {
    path: PathBuf,
    file: Option<File>,
}

impl NoteFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// The notes of a former process.
    pub(super) fn read(&self) -> Option<Notes> {
        let has_length = |found: fs::Metadata| found.is_file() && found.len() == NOTES_BYTES as u64;
        if !fs::metadata(&self.path).is_ok_and(has_length) {
            return None;
        }
        Notes::decode(&fs::read(&self.path).ok()?)
    }

    /// Writes them; they are in the file when this returns.
    pub(super) fn write(&mut self, notes: &Notes) -> Result<(), WriteFailure> {
        self.overwrite(notes).map_err(|error| {
            self.file = None;
            let text = format!("{}: {error}", self.path.display());
            WriteFailure { reason: WriteFailure::reason_of(&error), text, remains: false }
        })
    }

    fn overwrite(&mut self, notes: &Notes) -> io::Result<()> {
        let bytes = notes.encode();
        if let Some(file) = &self.file
            && file.metadata()?.nlink() > 0
        {
            return file.write_all_at(&bytes, 0);
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        file.set_len(NOTES_BYTES as u64)?;
        file.write_all_at(&bytes, 0)?;
        self.file = Some(file);
        Ok(())
    }
}
