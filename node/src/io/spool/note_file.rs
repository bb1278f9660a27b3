//! The file of a node's notes, beside its spool: read once at the start, then overwritten in place.
//!
//! Nothing is synced: a note outlives the process, which is all that it is for. Whatever is wrong
//! with the file of a former process counts as no note.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use super::error::WriteFailure;
use crate::core::spool::{NOTES_BYTES, Notes};
use crate::io::private_file::open_to_write;

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
        let found = fs::symlink_metadata(&self.path).ok()?;
        let has_length = found.is_file() && found.len() == NOTES_BYTES as u64;
        if !has_length {
            return None;
        }
        Notes::decode(&fs::read(&self.path).ok()?)
    }

    /// Takes the room that notes need, which a disk may not have later: a file may have its length
    /// and no blocks, so it is written. Notes that are there stay.
    pub(super) fn reserve(&mut self) -> Result<(), WriteFailure> {
        let there = self.read().map_or([0; NOTES_BYTES], |notes| notes.encode());
        self.overwrite(&there)
    }

    /// Writes them; they are in the file when this returns.
    pub(super) fn write(&mut self, notes: &Notes) -> Result<(), WriteFailure> {
        self.overwrite(&notes.encode())
    }

    fn overwrite(&mut self, bytes: &[u8; NOTES_BYTES]) -> Result<(), WriteFailure> {
        self.try_overwrite(bytes).map_err(|error| {
            self.file = None;
            let text = format!("{}: {error}", self.path.display());
            WriteFailure { reason: WriteFailure::reason_of(&error), text, remains: false }
        })
    }

    fn try_overwrite(&mut self, bytes: &[u8; NOTES_BYTES]) -> io::Result<()> {
        if let Some(file) = &self.file
            && file.metadata()?.nlink() > 0
        {
            return file.write_all_at(bytes, 0);
        }

        // Opening a pipe would wait for its other end, and a link leads to another's file.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other("not a regular file"));
        }

        let file = open_to_write(&self.path, OpenOptions::new().create(true).truncate(false))?;
        // A longer file of a former version would fail the check of its length.
        file.set_len(NOTES_BYTES as u64)?;
        file.write_all_at(bytes, 0)?;
        self.file = Some(file);
        Ok(())
    }
}
