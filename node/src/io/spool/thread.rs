//! A thread that writes, one job at a time, so that the driver never waits for a disk.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::task::{Context, Poll};

use tokio::sync::mpsc;

/// The driver's end of the thread.
#[derive(Debug)]
pub(super) struct WriterThread<J, R> {
    jobs: SyncSender<J>,
    results: mpsc::Receiver<R>,
    under_way: bool,
}

impl<J: Send + 'static, R: Send + 'static> WriterThread<J, R> {
    /// Starts a thread that ends by itself once this end is dropped.
    pub(super) fn start(
        name: &str,
        mut write: impl FnMut(J) -> R + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, to_write) = sync_channel(1);
        let (written, results) = mpsc::channel(1);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Ok(job) = to_write.recv() {
                if written.blocking_send(write(job)).is_err() {
                    break;
                }
            }
            // The file is closed before the other end notices that this thread is gone.
            drop(write);
            drop(written);
        })?;
        Ok(Self { jobs, results, under_way: false })
    }

    pub(super) fn is_busy(&self) -> bool {
        self.under_way
    }

    /// Begins a job.
    ///
    /// # Errors
    /// Returns the job when another is under way or the thread is gone.
    pub(super) fn begin(&mut self, job: J) -> Result<(), J> {
        if self.under_way {
            return Err(job);
        }
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })?;
        self.under_way = true;
        Ok(())
    }

    /// The result of the job under way; `None` when the thread is gone.
    pub(super) fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<Option<R>> {
        if !self.under_way {
            return Poll::Pending;
        }
        let result = self.results.poll_recv(context);
        self.under_way = result.is_pending();
        result
    }

    /// Waits for the job under way and for the end of the thread.
    pub(super) async fn end(self) {
        let Self { jobs, mut results, .. } = self;
        drop(jobs);
        while results.recv().await.is_some() {}
    }
}
