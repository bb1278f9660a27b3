//! Keeps checkpoints: hands changes to a thread that writes them, so that the driver never waits
//! for a disk. One write is under way at any time; the next begins when that one is done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::limits::{
    CHECKPOINT_BYTES_PER_SECOND_MAX, CHECKPOINT_EVERY, CHECKPOINT_REST_FACTOR,
    CHECKPOINT_RETRY_PAUSE, CHECKPOINT_WITHIN, CONFIRMED_A_TURN_MAX,
};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::time::{Mono, Wall};
use tokio::sync::mpsc;

use super::store::{Opened, SetAside, Store, StoreError};
use crate::core::Core;
use crate::core::durable::PendingConfirmation;
use crate::core::durable::{Changes, Checkpoint, CheckpointStats};

/// Why a state could not be used, or not be written, in the failures' counter.
const FAILURES: [&str; 4] = ["damaged", "newer_version", "older_version", "write"];

/// What came of one write.
#[derive(Debug)]
pub struct Written {
    /// When its changes were taken.
    began: (Mono, Wall),
    /// How long it took.
    took: Duration,
    /// Bytes of its records and what nodes may be told now, or why it failed.
    outcome: Result<(u64, Vec<PendingConfirmation>), String>,
}

/// The driver's end of the thread that writes.
#[derive(Debug)]
pub struct Keeper {
    /// `None` when nothing is kept.
    thread: Option<Thread>,
    under_way: bool,
    next_at: Mono,
    /// Without a thread: nodes that have changed and were not told so.
    changed: BTreeSet<NodeName>,
    /// What nodes may be told by now and have not been.
    confirmed: Vec<PendingConfirmation>,
    figures: CheckpointStats,
}

#[derive(Debug)]
struct Thread {
    changes: SyncSender<(Mono, Changes)>,
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
            changed: BTreeSet::new(),
            confirmed: Vec::new(),
            figures: CheckpointStats::default(),
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
        keeper.figures.failures = BTreeMap::from(FAILURES.map(|reason| (reason, 0)));
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
        if !self.figures.kept {
            self.confirm_from_memory(core, now.0);
        } else if now.0 >= self.next_at {
            self.keep_now(core, now);
        }
    }

    /// Memory is all there is, and what it holds is as good as stored. So many nodes a turn, so
    /// that a large fleet does not hold up the driver.
    fn confirm_from_memory(&mut self, core: &mut Core, now: Mono) {
        if self.changed.is_empty() && now >= self.next_at {
            self.changed = core.take_changed_nodes();
            self.next_at = now.plus(CHECKPOINT_EVERY);
        }
        let turn = std::iter::from_fn(|| self.changed.pop_first()).take(CONFIRMED_A_TURN_MAX);
        self.confirmed.extend(turn.filter_map(|node| core.told_from_memory(&node, now)));
    }

    /// Whether another turn is needed soon, for nodes that wait to hear of what is in memory.
    #[must_use]
    pub fn has_more_to_tell(&self) -> bool {
        !self.changed.is_empty()
    }

    /// What nodes may be told now; each confirmation once.
    pub fn take_confirmations(&mut self) -> Vec<PendingConfirmation> {
        std::mem::take(&mut self.confirmed)
    }

    fn keep_now(&mut self, core: &mut Core, now: (Mono, Wall)) {
        let Some(thread) = self.thread.as_ref().filter(|_| !self.under_way) else { return };
        let Some(changes) = core.take_changes(now.1) else { return };
        self.under_way = thread.changes.try_send((now.0, changes)).is_ok();
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
        let Some(Written { began, took, outcome }) = written else {
            tracing::error!("the thread that writes checkpoints is gone; none are written now");
            self.count_failure("write");
            self.thread = None;
            return;
        };
        match outcome {
            Ok((bytes, confirmed)) => {
                self.confirmed.extend(confirmed);
                self.figures.at = Some(began.1);
                self.figures.bytes = bytes;
                self.figures.written += 1;
                let next_after = interval(took, bytes);
                core.on_stored(began.1, next_after);
                self.next_at = began.0.plus(next_after);
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
            self.keep_now(core, now);
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
    pub fn figures(&self) -> &CheckpointStats {
        &self.figures
    }
}

/// From the beginning of one write to that of the next: a store that is slow to write, or
/// large, must not keep a core or a disk busy; nodes must not wait until they take silence for
/// loss.
fn interval(took: Duration, bytes: u64) -> Duration {
    let gently = Duration::from_secs_f64(bytes as f64 / CHECKPOINT_BYTES_PER_SECOND_MAX as f64);
    CHECKPOINT_EVERY.max(took * CHECKPOINT_REST_FACTOR).max(gently).min(CHECKPOINT_WITHIN)
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

fn write_all(mut store: Store, to_write: &Receiver<(Mono, Changes)>, told: &mpsc::Sender<Written>) {
    while let Ok((as_of, changes)) = to_write.recv() {
        let watch = Stopwatch::start();
        let began = (as_of, changes.at());
        let confirmations = changes.confirmations(as_of);
        let written = store.write(changes);
        let outcome = written.map(|bytes| (bytes, confirmations)).map_err(|e| e.to_string());
        if told.blocking_send(Written { began, took: watch.elapsed(), outcome }).is_err() {
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
