//! The spool: passes batches to a thread that writes them, so that the driver never waits for a
//! disk. At most one write is in progress. The [`Wal`] decides what a batch contains.
//!
//! DESIGN N5.

mod error;
mod file;

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_clock::Stopwatch;
use plimsoll_schemas::time::Now;
use tokio::sync::mpsc;

use crate::core::Identity;
use crate::core::spool::RecoveredMessages;
use crate::core::spool::{Batch, Wal};
pub use error::{Quarantined, SpoolError, WriteFailure};
use file::SpoolFile;

/// A spool and what was in it.
#[derive(Debug)]
pub struct Opened {
    /// The spool.
    pub spool: Spool,
    /// What belongs into it from now on.
    pub journal: Wal,
    /// Data of an earlier process; of a damaged file the readable part.
    pub recovered: Option<RecoveredMessages>,
    /// A file that could not be used, or not all of it.
    pub quarantined: Option<Quarantined>,
}

/// Result of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteResult {
    /// Bytes of the batch.
    pub bytes: usize,
    /// How long it took.
    pub took: Duration,
    /// Why it failed, if it did.
    pub failure: Option<WriteFailure>,
}

/// The driver's end of the thread that writes.
#[derive(Debug)]
pub struct Spool {
    batches: SyncSender<Batch>,
    written: mpsc::Receiver<WriteResult>,
    under_way: bool,
    /// Ends by itself once `batches` is dropped.
    _handle: JoinHandle<()>,
}

impl Spool {
    /// Opens the spool of a node in `dir`, which is made if need be, and reads what is there.
    /// With `sync`, writes survive a crash of the machine, otherwise only one of the process.
    ///
    /// # Errors
    /// When the configuration is at fault.
    pub fn open(
        dir: &Path,
        identity: &Identity,
        sync: bool,
        now: Now,
    ) -> Result<Opened, SpoolError> {
        let file::Opened { file, recovered, quarantined } =
            SpoolFile::open(dir, identity, sync, now)?;
        let journal = Wal::new(identity.clone(), file.boot());
        let path = file.path().to_owned();
        let spool =
            Self::start(file).map_err(|source| SpoolError::Inaccessible { path, source })?;
        Ok(Opened { spool, journal, recovered, quarantined })
    }

    fn start(file: SpoolFile) -> io::Result<Self> {
        let (batches, to_write) = sync_channel(1);
        let (results, written) = mpsc::channel(1);
        let thread = std::thread::Builder::new().name("spool".to_owned());
        let handle = thread.spawn(move || write_all(file, &to_write, &results))?;
        Ok(Self { batches, written, under_way: false, _handle: handle })
    }

    /// True while a batch is being written.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.under_way
    }

    /// Begins to write a batch.
    ///
    /// # Errors
    /// Returns the batch when another is under way or the thread is gone; the caller must then
    /// report the failure to the [`Wal`], see [`Wal::on_failed`].
    pub fn write(&mut self, batch: Batch) -> Result<(), Batch> {
        if self.under_way {
            return Err(batch);
        }
        self.batches.try_send(batch).map_err(|error| match error {
            std::sync::mpsc::TrySendError::Full(batch)
            | std::sync::mpsc::TrySendError::Disconnected(batch) => batch,
        })?;
        self.under_way = true;
        Ok(())
    }

    /// Waits for the end of a write; for ever while there is none. `None` when the thread is
    /// gone, and with it any knowledge of what the file holds. Cancel safe.
    pub async fn written(&mut self) -> Option<WriteResult> {
        if !self.under_way {
            return std::future::pending().await;
        }
        let written = self.written.recv().await;
        self.under_way = false;
        written
    }

    /// Waits at most `wait` for the write under way, if there is one, and closes the file.
    /// False when that took too long.
    pub async fn finish(self, wait: Duration) -> bool {
        let Self { batches, mut written, .. } = self;
        drop(batches);
        let end = async { while written.recv().await.is_some() {} };
        tokio::time::timeout(wait, end).await.is_ok()
    }
}

fn write_all(mut file: SpoolFile, to_write: &Receiver<Batch>, results: &mpsc::Sender<WriteResult>) {
    while let Ok(batch) = to_write.recv() {
        let watch = Stopwatch::start();
        let failure = file.write(&batch).err();
        let written = WriteResult { bytes: batch.bytes.len(), took: watch.elapsed(), failure };
        if results.blocking_send(written).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
