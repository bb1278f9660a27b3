//! Writes checkpoints on a thread of its own, so that the driver never waits for a disk. At most
//! one write is in progress; the next begins after it has ended.
//!
//! DESIGN A20, A160.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::limits::NICENESS;
use crate::limits::{
    CHECKPOINT_BYTES_PER_SECOND_MAX, CHECKPOINT_EVERY, CHECKPOINT_REST_FACTOR,
    CHECKPOINT_RETRY_PAUSE, CHECKPOINT_WITHIN, CONFIRMED_A_TURN_MAX, HISTORY_RETRY_PAUSE,
};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::time::{Mono, Now, Wall};
use tokio::sync::mpsc;

use super::database::{FileFault, StoreError};
use super::history::{HistoryReader, HistoryStore, HistoryWritten, OpenedHistory};
use super::store::{Opened, Quarantined, Store, StoredBytes};
use crate::core::Core;
use crate::core::alerting::AlertsRecord;
use crate::core::durable::PendingConfirmation;
use crate::core::durable::{Changes, Checkpoint};
use crate::core::fleet::BudgetsRecord;
use crate::core::history::{Bounds, StoredHistory};
use crate::core::view::CheckpointStats;
use plimsoll_runtime::priority::give_way;

/// Label values of the counter of failures.
const FAILURES: [&str; 7] =
    ["alerts", "budgets", "damaged", "history", "newer_version", "older_version", "write"];
/// Records that cannot be used that the log names.
const UNUSABLE_LOGGED_MAX: usize = 20;

/// The result of one write.
#[derive(Debug)]
pub struct Written {
    /// When its changes were taken.
    began: Now,
    /// What was written and the confirmations for nodes, or why it failed.
    outcome: Result<(CheckpointWritten, Vec<PendingConfirmation>), String>,
}

/// What a write has stored.
#[derive(Debug)]
struct CheckpointWritten {
    bytes: u64,
    /// How long the state alone took: what the history takes must not keep nodes waiting.
    took: Duration,
    /// What of the history, if it was written.
    history: Option<HistoryWritten>,
    /// Why the history was not written, if it was not.
    history_error: Option<String>,
    /// Why records beside the state file were not written, each with the label of the failure.
    errors: Vec<(&'static str, String)>,
}

/// The driver's end of the writing thread.
#[derive(Debug)]
pub struct Checkpointer {
    /// `None` when state is kept in memory only.
    thread: Option<Thread>,
    pub is_writing: bool,
    next_at: Mono,
    /// Without a thread: whether state in memory is confirmed, or only what else confirmations
    /// state is sent.
    confirms_memory: bool,
    /// Without a thread: nodes whose changes are not confirmed yet.
    changed: BTreeSet<NodeName>,
    /// Confirmations that the driver has not taken yet.
    confirmed: Vec<PendingConfirmation>,
    /// Since the start.
    pub stats: CheckpointStats,
    /// Reads the history while it is written; `None` when none is kept.
    pub history: Option<HistoryReader>,
}

#[derive(Clone, Debug, Default)]
pub struct StateFiles<'p> {
    /// The state file; without it nothing is stored.
    pub state: Option<&'p Path>,
    /// The history file and what each of its tiers keeps.
    pub history: Option<(&'p Path, Bounds)>,
    /// Without a state file: whether nodes get confirmations of state in memory.
    pub confirms_memory: bool,
}

#[derive(Debug)]
pub struct OpenedState {
    pub checkpointer: Checkpointer,
    pub checkpoint: Option<Checkpoint>,
    /// What receivers are owed, where the checkpoint lacks it.
    pub alerts: Option<AlertsRecord>,
    /// What is left of error budgets, where the checkpoint may lack some of it.
    pub budgets: Option<BudgetsRecord>,
    /// What the history holds, if one is kept.
    pub history: Option<StoredHistory>,
}

/// Changes that were taken then.
#[derive(Debug)]
struct ToWrite {
    as_of: Mono,
    changes: Changes,
}

#[derive(Debug)]
struct Thread {
    changes: SyncSender<ToWrite>,
    written: mpsc::Receiver<Written>,
    /// The thread ends once `changes` is dropped.
    _handle: JoinHandle<()>,
}

impl Checkpointer {
    /// Opens the files and returns what they hold. Without a state file nothing is stored.
    ///
    /// # Errors
    /// When a file cannot be used as configured.
    pub fn open(
        files: &StateFiles<'_>,
        mesh: &MeshName,
        now: Wall,
    ) -> Result<OpenedState, StoreError> {
        let mut checkpointer = Self {
            thread: None,
            is_writing: false,
            next_at: Mono(0),
            confirms_memory: files.confirms_memory,
            changed: BTreeSet::new(),
            confirmed: Vec::new(),
            stats: CheckpointStats::default(),
            history: None,
        };

        let Some(path) = files.state else {
            tracing::info!(
                "state.path is not set: state is kept in memory, and a restart reads the streams \
                 from their start"
            );

            if !files.confirms_memory {
                tracing::warn!(
                    "no confirmations are sent, so nodes keep their copies: set state.path, or \
                     confirm.without_state = true if a crash may lose data in broker and memory"
                );
            }

            checkpointer.stats.confirms = files.confirms_memory;
            let (checkpoint, alerts, budgets, history) = (None, None, None, None);
            return Ok(OpenedState { checkpointer, checkpoint, alerts, budgets, history });
        };

        let Opened { store, checkpoint, alerts, budgets, quarantined } =
            Store::open(path, mesh, now)?;
        log_opened(path, checkpoint.as_ref(), quarantined.as_ref());
        (checkpointer.stats.kept, checkpointer.stats.confirms) = (true, true);
        checkpointer.stats.at = checkpoint.as_ref().and_then(Checkpoint::at);
        checkpointer.stats.failures = BTreeMap::from(FAILURES.map(|reason| (reason, 0)));
        for fault in quarantined.iter().flat_map(|quarantined| &quarantined.faults) {
            checkpointer.count_failure(fault.reason);
        }
        let alerts = checkpointer.usable_alerts(path, alerts);
        let budgets = checkpointer.usable_budgets(path, budgets);
        let generation = checkpoint.as_ref().and_then(Checkpoint::history_generation);

        let (history, stored) = match files.history {
            Some((path, bounds)) => {
                let opened = HistoryStore::open(path, mesh, bounds, generation, now)?;
                log_history(path, &opened, now);
                (Some(opened.store), Some(opened.stored))
            }
            None => (None, None),
        };

        checkpointer.history = history.as_ref().map(HistoryStore::reader);

        let thread =
            Thread::start(Files { state: store, history, failing: None }).map_err(|source| {
                StoreError::Inaccessible { key: "state.path", path: path.to_owned(), source }
            })?;

        checkpointer.thread = Some(thread);
        Ok(OpenedState { checkpointer, checkpoint, alerts, budgets, history: stored })
    }

    fn usable_alerts(
        &mut self,
        path: &Path,
        alerts: Result<Option<AlertsRecord>, String>,
    ) -> Option<AlertsRecord> {
        let path = path.display();
        match alerts {
            Ok(alerts) => {
                if let Some(AlertsRecord { at, firing, silencing, .. }) = &alerts {
                    let (firing, silences) = (firing.len(), silencing.silences.len());
                    tracing::warn!(
                        %path, firing, silences, taken_at_seconds = %at,
                        "alerts and silences restored from the alerts record beside the state file"
                    );
                }
                alerts
            }
            Err(why) => {
                tracing::error!(
                    %path, why,
                    "alerts record cannot be read: receivers are not notified of the end of \
                     earlier alerts"
                );
                self.count_failure("alerts");
                None
            }
        }
    }

    fn usable_budgets(
        &mut self,
        path: &Path,
        budgets: Result<Option<BudgetsRecord>, String>,
    ) -> Option<BudgetsRecord> {
        let path = path.display();
        match budgets {
            Ok(record) => {
                if let Some(BudgetsRecord { at, budgets, .. }) = &record {
                    tracing::warn!(
                        %path, budgets = budgets.len(), taken_at_seconds = %at,
                        "error budgets restored from their record beside the state file"
                    );
                }
                record
            }
            Err(why) => {
                tracing::error!(
                    %path, why,
                    "record of error budgets cannot be read: budgets whose samples are lost \
                     start full"
                );
                self.count_failure("budgets");
                None
            }
        }
    }

    /// Begins to write what has changed, unless it is too early.
    pub fn write_if_due(&mut self, core: &mut Core, now: Now) {
        if !self.stats.kept {
            self.confirm_from_memory(core, now.mono);
        } else if now.mono >= self.next_at || core.history().is_crowded() {
            // A history whose room is half taken does not wait for
            // its time: what finds none is missing from it (A75).
            self.begin_write(core, now);
        }
    }

    /// Without a store, state in memory counts as stored if the settings permit it; else nodes get
    /// the rest of what a confirmation states. The number of nodes a turn is bounded, so
    /// that a large fleet does not block the driver.
    fn confirm_from_memory(&mut self, core: &mut Core, now: Mono) {
        if self.changed.is_empty() && now >= self.next_at {
            self.changed = core.take_changed_nodes();
            self.next_at = now.plus(CHECKPOINT_EVERY);
        }
        let confirms = self.confirms_memory;
        let turn = std::iter::from_fn(|| self.changed.pop_first()).take(CONFIRMED_A_TURN_MAX);
        let pending = turn.filter_map(|node| core.confirmation_from_memory(&node, now));
        self.confirmed.extend(pending.map(|it| if confirms { it } else { it.withheld() }));
    }

    /// Whether another turn is needed soon, for nodes whose state in memory is not confirmed yet.
    pub fn has_unconfirmed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The confirmations that are due; each is returned once.
    pub fn take_confirmations(&mut self) -> Vec<PendingConfirmation> {
        std::mem::take(&mut self.confirmed)
    }

    fn begin_write(&mut self, core: &mut Core, now: Now) {
        let Some(thread) = self.thread.as_ref().filter(|_| !self.is_writing) else { return };
        // Only if the thread is free: what is taken counts as stored from then on.
        let Some(changes) = core.take_changes(now.wall) else { return };
        self.is_writing = thread.changes.try_send(ToWrite { as_of: now.mono, changes }).is_ok();
        if !self.is_writing {
            // The thread is gone, so what was taken is stored nowhere.
            core.on_changes_lost();
        }
    }

    /// The result of the write in progress; pending forever when there is none. Cancel safe.
    pub async fn written(&mut self) -> Option<Written> {
        match &mut self.thread {
            Some(thread) if self.is_writing => thread.written.recv().await,
            _ => std::future::pending().await,
        }
    }

    /// Handles the result of a write; `None` when the thread is gone.
    pub fn on_written(&mut self, core: &mut Core, now: Mono, written: Option<Written>) {
        self.is_writing = false;

        let Some(Written { began, outcome }) = written else {
            self.count_failure("write");
            self.thread = None;
            return;
        };

        match outcome {
            Ok((stored, confirmed)) => {
                let CheckpointWritten { bytes, took, history, history_error, errors } = stored;
                self.confirmed.extend(confirmed);
                self.stats.at = Some(began.wall);
                self.stats.bytes = bytes;
                self.stats.history_dropped += history.unwrap_or_default().dropped;
                self.stats.history_dropped_values += history.unwrap_or_default().dropped_values;
                self.stats.written += 1;
                let next_after = interval(took, bytes);
                core.on_stored(began.wall, next_after, history.is_some());
                history.into_iter().for_each(|of| core.on_history_series(of.series));

                if let Some(error) = history_error {
                    tracing::error!(error, "history not written; retried with the next");
                    self.count_failure("history");
                }

                for (record, error) in errors {
                    tracing::error!(record, error, "record not written; retrying");
                    self.count_failure(record);
                }

                self.next_at = began.mono.plus(next_after);
            }
            Err(error) => {
                // It is not known how much of it was stored, so the next one holds everything.
                core.on_changes_lost();
                tracing::error!(error, "checkpoint not written; the previous one stays valid");
                self.count_failure("write");
                self.next_at = now.plus(CHECKPOINT_RETRY_PAUSE);
            }
        }
    }

    /// Writes the remaining changes, within `wait`.
    pub async fn finish(&mut self, core: &mut Core, now: Now, wait: Duration) {
        let rest = async {
            if self.is_writing {
                let written = self.written().await;
                self.on_written(core, now.mono, written);
            }

            self.begin_write(core, now);

            if self.is_writing {
                let written = self.written().await;
                self.on_written(core, now.mono, written);
            }
        };
        if tokio::time::timeout(wait, rest).await.is_err() {
            tracing::warn!("last checkpoint not written in time");
        }
    }

    fn count_failure(&mut self, reason: &'static str) {
        *self.stats.failures.entry(reason).or_default() += 1;
    }
}

/// Time between the beginnings of two writes: a slow or large store must not keep a core or a disk
/// busy, and nodes must get confirmations before they resend.
fn interval(took: Duration, bytes: u64) -> Duration {
    let gently = Duration::from_secs_f64(bytes as f64 / CHECKPOINT_BYTES_PER_SECOND_MAX as f64);
    CHECKPOINT_EVERY.max(took * CHECKPOINT_REST_FACTOR).max(gently).min(CHECKPOINT_WITHIN)
}

/// What the thread writes to.
struct Files {
    state: Store,
    history: Option<HistoryStore>,
    /// Since the history's latest failure.
    failing: Option<Stopwatch>,
}

impl Files {
    /// The history first: with a generation that the state lacks, it is undone at the next start.
    /// One that cannot be written delays no confirmation of nodes.
    fn write(&mut self, mut changes: Changes) -> Result<CheckpointWritten, redb::Error> {
        let written = self.write_history(&changes);
        if !matches!(written, Ok(Some(_))) {
            changes = changes.without_history();
        }

        let (history, history_error) = match written {
            Ok(history) => (history, None),
            Err(error) => (None, Some(error)),
        };

        let watch = Stopwatch::start();
        let StoredBytes { bytes, errors } = self.state.write(changes)?;
        let bytes = bytes + history.unwrap_or_default().bytes;
        let in_words = |(record, error): (_, std::io::Error)| (record, error.to_string());
        let errors = errors.into_iter().map(in_words).collect();
        Ok(CheckpointWritten { bytes, took: watch.elapsed(), history, history_error, errors })
    }

    /// `None` when there is nothing to write, or a failure was not long ago.
    fn write_history(&mut self, changes: &Changes) -> Result<Option<HistoryWritten>, String> {
        let is_resting =
            self.failing.as_ref().is_some_and(|watch| watch.elapsed() < HISTORY_RETRY_PAUSE);
        let (Some(store), Some(batch)) = (&mut self.history, changes.history.as_deref()) else {
            return Ok(None);
        };
        if is_resting {
            return Ok(None);
        }

        if self.failing.take().is_some() {
            // The operator may have moved or removed the file meanwhile.
            store.close();
        }

        // redb panics on some damage.
        let written = catch_unwind(AssertUnwindSafe(|| store.write(batch)));

        let failed = match written {
            Ok(Ok(written)) => return Ok(Some(written)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the history file is damaged".to_owned(),
        };

        store.close();
        // What is on a full disk can still be queried. What panics here stays closed.
        let _reopened = catch_unwind(AssertUnwindSafe(|| store.open_for_readers()));
        self.failing = Some(Stopwatch::start());
        Err(failed)
    }
}

impl Thread {
    fn start(files: Files) -> std::io::Result<Self> {
        let (changes, to_write) = sync_channel(1);
        let (results, written) = mpsc::channel(1);
        let thread = std::thread::Builder::new().name("checkpoints".to_owned());
        let handle = thread.spawn(move || {
            give_way(NICENESS);
            write_all(files, &to_write, &results);
        })?;
        Ok(Self { changes, written, _handle: handle })
    }
}

fn write_all(mut files: Files, to_write: &Receiver<ToWrite>, results: &mpsc::Sender<Written>) {
    while let Ok(ToWrite { as_of, changes }) = to_write.recv() {
        let began = Now { mono: as_of, wall: changes.rest.at };
        // Before the changes are consumed; they are handed on only if the write succeeds (A23).
        let confirmations = changes.confirmations(as_of);
        let written = files.write(changes);
        let outcome = written.map(|stored| (stored, confirmations)).map_err(|e| e.to_string());
        if results.blocking_send(Written { began, outcome }).is_err() {
            return;
        }
    }
}

fn log_history(path: &Path, opened: &OpenedHistory, now: Wall) {
    let path = path.display();
    if let Some((why, moved_to)) = &opened.quarantined {
        let moved_to = moved_to.display();
        tracing::error!(%path, why, %moved_to, "history file cannot be used and was quarantined");
    }

    if opened.has_diverged {
        tracing::warn!(
            %path,
            "history and state are of different times: some samples may be missing from the history \
             or be in it twice"
        );
    }

    for (resolution, kept_from) in opened.store.cut_short(now) {
        let (slots, days) = (resolution.as_str(), now.since(kept_from).as_secs_f64() / 86_400.0);
        tracing::warn!(
            %path, setting = format!("history.mib_max_{slots}"), days,
            "history keeps slots for fewer days than its settings: raise the bound, or set fewer \
             rollup_labels"
        );
    }

    tracing::info!(%path, batches = opened.stored.batch.generation, "history opened");
}

fn log_opened(path: &Path, checkpoint: Option<&Checkpoint>, quarantined: Option<&Quarantined>) {
    let path = path.display();
    if let Some(Quarantined { faults, kept_at }) = quarantined {
        for FileFault { reason, text: why } in faults.iter().take(UNUSABLE_LOGGED_MAX) {
            tracing::error!(%path, reason, why, "state cannot be read");
        }
        let (count, kept_at) = (faults.len(), kept_at.display());

        match checkpoint {
            Some(_) => tracing::error!(
                %path, count, %kept_at,
                "records of the state file cannot be used; a copy was quarantined, and the others \
                 are used"
            ),
            None => tracing::error!(
                %path, %kept_at,
                "state file cannot be used and was quarantined; the streams are read from their \
                 start"
            ),
        }
    }

    match checkpoint {
        Some(checkpoint) => {
            let nodes = checkpoint.nodes();
            let at = checkpoint.at().map_or_else(|| "unknown".to_owned(), |at| at.to_string());
            tracing::info!(%path, nodes, taken_at_seconds = at, "state restored");
        }
        None => {
            tracing::info!(%path, "state file is new: the streams are read from their start");
        }
    }
}

#[cfg(test)]
mod tests;
