//! A directory of segments of records, one of them open: what the history and the profiles of the
//! past have on disk. What a disk refuses is tried again after a pause.

mod files;

use std::io;
use std::path::PathBuf;

use plimsoll_clock::Clock;
use plimsoll_schemas::time::{Mono, Wall};

use crate::core::history::HistoryBounds;
use crate::limits::SEGMENTS_RETRY_PAUSE;
pub(super) use files::{Files, Format, Scanned, listed};

#[derive(Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    format: &'static Format,
    bounds: HistoryBounds,
    clock: Clock,
    /// `None` while it cannot be used.
    files: Option<Files>,
    /// Nothing is tried before.
    retry_at: Mono,
    /// Why the latest write failed.
    failed: Option<&'static str>,
}

impl Directory {
    pub(super) fn new(
        path: PathBuf,
        format: &'static Format,
        bounds: HistoryBounds,
        clock: Clock,
    ) -> Self {
        Self { path, format, bounds, clock, files: None, retry_at: Mono(0), failed: None }
    }

    /// Opens it, if it can be used now.
    ///
    /// # Errors
    /// The lock, when another process has it.
    pub(super) fn open(&mut self) -> Result<(), PathBuf> {
        match Files::open(&self.path, self.format) {
            Ok(files) => self.files = Some(files),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                return Err(Files::lock(&self.path));
            }
            Err(error) => {
                self.fail(&error);
            }
        }
        Ok(())
    }

    /// Why nothing is written now.
    pub(super) fn paused(&self) -> Option<&'static str> {
        self.failed.filter(|_| self.clock.now().mono < self.retry_at)
    }

    /// Its files, if they are open.
    pub(super) fn files(&self) -> Option<&Files> {
        self.files.as_ref()
    }

    /// Appends a record whose interval ends at `end`; returns the bytes of the open segment.
    pub(super) fn append(&mut self, record: &[u8], end: Wall) -> io::Result<u64> {
        let files = match &mut self.files {
            Some(files) => files,
            none => none.insert(Files::open(&self.path, self.format)?),
        };
        files.append(record, end)
    }

    /// Closes the open segment, and removes segments that are too old or too many: only then, so
    /// that nothing has to be listed for each record.
    pub(super) fn close(&mut self, now: Wall) -> io::Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        files.close()?;
        files.expire(now, self.bounds);
        Ok(())
    }

    /// What was to be written is written.
    pub(super) fn succeed(&mut self) {
        if self.failed.take().is_some() {
            tracing::info!("{} written again", self.format.what);
        }
    }

    /// Returns the label of a failed write.
    pub(super) fn fail(&mut self, error: &io::Error) -> &'static str {
        let why = reason(error);
        if self.failed.replace(why).is_none() {
            let path = self.path.display();
            tracing::error!(%path, %error, "{} not written; retried every 30 s", self.format.what);
        }
        self.retry_at = self.clock.now().mono.plus(SEGMENTS_RETRY_PAUSE);
        // What is on disk after a failed rename or sync is found out by opening it anew.
        self.files = None;
        why
    }
}

fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "disk_full",
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => "not_writable",
        io::ErrorKind::ResourceBusy => "in_use",
        _ => "failed",
    }
}
