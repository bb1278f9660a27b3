//! The spool: passes batches and notes to a thread each, so that the driver waits for no disk and a
//! note waits for no batch that is being synced. At most one write of each is in progress. The core
//! decides what they contain.
//!
//! DESIGN N5, N43.

mod error;
mod file;
mod note_file;
mod thread;

use std::fs::OpenOptions;
use std::future::poll_fn;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::time::Duration;

use plimsoll_clock::Stopwatch;
use plimsoll_schemas::time::Now;
use plimsoll_schemas::wire::NotedIncarnation;

use crate::core::Identity;
use crate::core::spool::{Batch, NOTES_BYTES, Notes, RecoveredMessages, Wal};
use crate::io::private_file::open_to_write;
pub use error::{Quarantined, SpoolError, WriteFailure};
use file::SpoolFile;
use note_file::NoteFile;
use thread::WriterThread;

#[derive(Debug)]
pub struct Opened {
    pub spool: Spool,
    /// What belongs into it from now on.
    pub journal: Wal,
    /// Data of an earlier process; of a damaged file the readable part.
    pub recovered: Option<RecoveredMessages>,
    /// A file that could not be used, or not all of it.
    pub quarantined: Option<Quarantined>,
    /// Notes of earlier processes that left no file.
    pub orphans: Vec<NotedIncarnation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteResult {
    pub bytes: usize,
    pub took: Duration,
    pub failure: Option<WriteFailure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    Batch(WriteResult),
    /// A note, or why it was not.
    Note(Result<(), WriteFailure>),
}

/// The driver's end of the threads that write.
#[derive(Debug)]
pub struct Spool {
    notes_path: PathBuf,
    batches: WriterThread<Batch, WriteResult>,
    notes: WriterThread<Notes, Result<(), WriteFailure>>,
}

impl Spool {
    /// Opens the spool of a node in `dir`, which is made if need be, and reads what is there.
    /// With `sync`, writes survive a crash of the machine, otherwise only one of the process.
    pub fn open(
        dir: &Path,
        identity: &Identity,
        sync: bool,
        now: Now,
    ) -> Result<Opened, SpoolError> {
        let file::Opened { mut file, mut recovered, quarantined } =
            SpoolFile::open(dir, identity, sync, now)?;
        let notes_path = dir.join(format!("{}.note", identity.node));
        let mut note = NoteFile::new(notes_path.clone());
        // Before the first write, which replaces the notes of former processes.
        let notes = note.read();
        let take = |notes| RecoveredMessages::take_notes(recovered.as_mut(), notes);
        let orphans = notes.map(take).unwrap_or_default();
        // The first note reports why, if there is no room.
        let _reserved = note.reserve();
        let journal = Wal::new(identity.clone(), file.boot());
        let path = file.path.clone();
        let inaccessible = |source| SpoolError::Inaccessible { path: path.clone(), source };

        let batches = WriterThread::start("spool", move |batch: Batch| {
            let watch = Stopwatch::start();
            let failure = file.write(&batch).err();
            WriteResult { bytes: batch.bytes.len(), took: watch.elapsed(), failure }
        });

        let notes = WriterThread::start("spool-note", move |notes: Notes| note.write(&notes));
        let (batches, notes) = (batches.map_err(inaccessible)?, notes.map_err(inaccessible)?);
        let spool = Self { notes_path, batches, notes };
        Ok(Opened { spool, journal, recovered, quarantined, orphans })
    }

    /// True while a batch is being written.
    pub fn is_busy(&self) -> bool {
        self.batches.is_busy()
    }

    pub fn is_noting(&self) -> bool {
        self.notes.is_busy()
    }

    /// # Errors
    /// Returns the batch when another is under way or the thread is gone; the caller must then
    /// report the failure to the [`Wal`], see [`Wal::on_failed`].
    pub fn write(&mut self, batch: Batch) -> Result<(), Batch> {
        self.batches.begin(batch)
    }

    /// # Errors
    /// Returns the notes when others are under way or the thread is gone.
    pub fn write_note(&mut self, notes: Notes) -> Result<(), Notes> {
        self.notes.begin(notes)
    }

    /// Erases the notes of an incarnation that leaves nothing to be known of it; their room stays
    /// taken. What cannot be erased is reported once more, which changes no ledger that has this
    /// incarnation.
    pub fn erase_notes(&self) {
        let file = open_to_write(&self.notes_path, &mut OpenOptions::new());
        let _erased = file.and_then(|file| file.write_all_at(&[0; NOTES_BYTES], 0));
    }

    /// Waits for the end of a write; for ever while there is none. `None` when a thread is gone,
    /// and with it any knowledge of what its file holds. Cancel safe.
    pub async fn written(&mut self) -> Option<Written> {
        poll_fn(|context| match self.notes.poll_done(context) {
            // Notes first: answers wait for them, and no one for a batch.
            Poll::Ready(note) => Poll::Ready(note.map(Written::Note)),
            Poll::Pending => self.batches.poll_done(context).map(|batch| batch.map(Written::Batch)),
        })
        .await
    }

    /// Waits at most `wait` for the writes under way, if there are any, and closes the files.
    /// False when that took too long.
    pub async fn finish(self, wait: Duration) -> bool {
        let end = async {
            self.batches.end().await;
            self.notes.end().await;
        };
        tokio::time::timeout(wait, end).await.is_ok()
    }
}

#[cfg(test)]
mod tests;
