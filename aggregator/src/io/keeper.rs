//! Keeps checkpoints: hands changes to a thread that writes them, so that the driver never waits
//! for a disk. One write is under way at any time; the next begins when that one is done.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_schemas::clock::Stopwatch;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::limits::aggregator::{
    CHECKPOINT_EVERY, CHECKPOINT_REST_FACTOR, CHECKPOINT_RETRY_PAUSE,
};
use plimsoll_schemas::time::{Mono, Wall};
use tokio::sync::mpsc;

use super::store::{Opened, SetAside, Store, StoreError};
use crate::core::Core;
use crate::core::checkpoint::{Changes, Checkpoint, CheckpointFigures};
use crate::core::confirm::Told;

/// What came of one write.
#[derive(Debug)]
pub struct Written {
    /// When its changes were taken.
    at: Wall,
    /// Bytes of its records.
    bytes: u64,
    /// How long it took.
    took: Duration,
    /// What nodes may be told now, or why it failed.
    outcome: Result<Vec<Told>, String>,
}

/// The driver's end of the thread that writes.
#[derive(Debug)]
pub struct Keeper {
    /// `None` when nothing is kept.
    thread: Option<Thread>,
    under_way: bool,
    next_at: Mono,
    /// What nodes may be told by now and have not been.
    confirmed: Vec<Told>,
    figures: CheckpointFigures,
}

#[derive(Debug)]
struct Thread {
    changes: SyncSender<Changes>,
    written: mpsc::Receiver<Written>,
    /// Ends by itself once `changes` is dropped.
    _handle: JoinHandle<()>,
}

impl Keeper {
    /// A keeper for the store at `path`, and what was in it; keeps nothing without a path.
    ///
    /// # Errors
    /// When the store cannot be used as configured.
    pub fn open(
        path: Option<&Path>,
        mesh: &MeshName,
        now: Wall,
    ) -> Result<(Self, Option<Checkpoint>), StoreError> {
        let mut keeper = Self {
            thread: None,
            under_way: false,
            next_at: Mono(0),
            confirmed: Vec::new(),
            figures: CheckpointFigures::default(),
        };
        let Some(path) = path else {
            tracing::info!(
                "no state.path: state is kept in memory only, and a restart reads the streams \
                 again from their beginning"
            );
            return Ok((keeper, None));
        };
        let Opened { store, checkpoint, set_aside } = Store::open(path, mesh, now)?;
        tell(path, checkpoint.as_ref(), set_aside.as_ref());
        keeper.figures.kept = true;
        keeper.figures.at = checkpoint.as_ref().map(Checkpoint::at);
        keeper.figures.failures =
            BTreeMap::from(["damaged", "newer_version", "write"].map(|reason| (reason, 0)));
        if let Some(set_aside) = set_aside {
            keeper.count_failure(set_aside.reason);
        }
        let thread = Thread::start(store)
            .map_err(|source| StoreError::Inaccessible { path: path.to_owned(), source })?;
        keeper.thread = Some(thread);
        Ok((keeper, checkpoint))
    }

    /// Begins to write what has changed, unless it is too early.
    pub fn keep(&mut self, core: &mut Core, now: (Mono, Wall)) {
        if now.0 < self.next_at {
            return;
        }
        if self.figures.kept {
            return self.keep_now(core, now.1);
        }
        // Memory is all there is, and what it holds is as good as stored.
        let changes = core.take_changes(now.1);
        self.confirmed = changes.map(|changes| changes.confirmations()).unwrap_or_default();
        self.next_at = now.0.plus(CHECKPOINT_EVERY);
    }

    /// What nodes may be told now; each confirmation once.
    pub fn take_confirmations(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.confirmed)
    }

    fn keep_now(&mut self, core: &mut Core, now: Wall) {
        let Some(thread) = self.thread.as_ref().filter(|_| !self.under_way) else { return };
        let Some(changes) = core.take_changes(now) else { return };
        self.under_way = thread.changes.try_send(changes).is_ok();
        if !self.under_way {
            core.on_changes_lost();
        }
    }

    /// Waits for the end of a write; for ever while there is none. Cancel safe.
    pub async fn written(&mut self) -> Option<Written> {
        match &mut self.thread {
            Some(thread) if self.under_way => thread.written.recv().await,
            _ => std::future::pending().await,
        }
    }

    /// Hears what came of a write; `None` when its thread is gone.
    pub fn on_written(&mut self, core: &mut Core, now: Mono, written: Option<Written>) {
        self.under_way = false;
        let Some(Written { at, bytes, took, outcome }) = written else {
            tracing::error!("the thread that writes checkpoints is gone; none are written now");
            self.count_failure("write");
            self.thread = None;
            return;
        };
        match outcome {
            Ok(confirmed) => {
                self.confirmed.extend(confirmed);
                self.figures.at = Some(at);
                self.figures.bytes = bytes;
                self.figures.written += 1;
                // A store that is slow to write must not keep a core or a disk busy.
                let rest = CHECKPOINT_EVERY.max(took * CHECKPOINT_REST_FACTOR);
                self.next_at = now.plus(rest.saturating_sub(took));
            }
            Err(error) => {
                core.on_changes_lost();
                tracing::error!(error, "checkpoint not written; the one before it still holds");
                self.count_failure("write");
                self.next_at = now.plus(CHECKPOINT_RETRY_PAUSE);
            }
        }
    }

    /// Writes what is left, for at most `wait`.
    pub async fn finish(&mut self, core: &mut Core, now: (Mono, Wall), wait: Duration) {
        let rest = async {
            if self.under_way {
                let written = self.written().await;
                self.on_written(core, now.0, written);
            }
            self.keep_now(core, now.1);
            if self.under_way {
                let written = self.written().await;
                self.on_written(core, now.0, written);
            }
        };
        if tokio::time::timeout(wait, rest).await.is_err() {
            tracing::warn!("the last checkpoint was not written in time");
        }
    }

    fn count_failure(&mut self, reason: &'static str) {
        *self.figures.failures.entry(reason).or_default() += 1;
    }

    /// What became of checkpoints so far.
    #[must_use]
    pub fn figures(&self) -> &CheckpointFigures {
        &self.figures
    }
}

impl Thread {
    fn start(store: Store) -> std::io::Result<Self> {
        let (changes, to_write) = sync_channel(1);
        let (told, written) = mpsc::channel(1);
        let thread = std::thread::Builder::new().name("checkpoints".to_owned());
        let handle = thread.spawn(move || write_all(store, &to_write, &told))?;
        Ok(Self { changes, written, _handle: handle })
    }
}

fn write_all(mut store: Store, to_write: &Receiver<Changes>, told: &mpsc::Sender<Written>) {
    while let Ok(changes) = to_write.recv() {
        let watch = Stopwatch::start();
        let at = changes.at();
        let confirmations = changes.confirmations();
        let records = changes.into_records();
        let bytes = records.bytes() as u64;
        let outcome = match store.write(&records) {
            Ok(()) => Ok(confirmations),
            Err(error) => Err(error.to_string()),
        };
        if told.blocking_send(Written { at, bytes, took: watch.elapsed(), outcome }).is_err() {
            return;
        }
    }
}

fn tell(path: &Path, checkpoint: Option<&Checkpoint>, set_aside: Option<&SetAside>) {
    let path = path.display();
    if let Some(SetAside { reason, why, now_at }) = set_aside {
        let now_at = now_at.display();
        tracing::error!(
            %path, reason, why, %now_at,
            "state cannot be used and was set aside; the streams are read from their beginning"
        );
    }
    match checkpoint {
        Some(checkpoint) => {
            let (nodes, at) = (checkpoint.nodes(), checkpoint.at());
            tracing::info!(%path, nodes, taken_at_seconds = %at, "state restored");
        }
        None => tracing::info!(%path, "no state yet: the streams are read from their beginning"),
    }
}

#[cfg(test)]
mod tests;
