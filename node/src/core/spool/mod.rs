//! The spool: keeps what the outbox holds in a file, so that it survives the end of the process.
//!
//! Owns the state of the write-ahead log: what the file holds, which write is under way, when a
//! failed one is retried, and the states of former incarnations. Its caller passes what is held
//! and gets the next [`Batch`] to write; `io::spool` writes it. [`recover`] reads a file at the
//! start. Without an open log every method does nothing.
//!
//! Refuses to do I/O, and to decide what may be sent: the outbox keeps a sealed message until its
//! batch is on disk.
//!
//! DESIGN N3.

mod frame;
mod record;
mod recovery;
mod run;
mod stats;
mod wal;

use crate::limits::{
    OPEN_INTERVAL_WRITTEN_EVERY, SPOOL_AGE_MAX, SPOOL_RETRY_PAUSE, SPOOL_STUCK_AFTER,
};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Wall};

use super::outbox::{Draft, DraftId, SealedMessage};
pub use recovery::{ExpiredMessages, RecoveredMessages, UnusableFile, recover};
pub use run::{OpenInterval, RunState};
pub use stats::SpoolStats;
pub use wal::{Batch, HeldMessages, Wal};

/// A spool's state.
#[derive(Default)]
pub(super) struct Spool {
    /// `None` without a spool.
    wal: Option<Wal>,
    /// When the write that is under way started.
    write_started: Option<Mono>,
    /// When a failed write is retried.
    retry_at: Option<Mono>,
    /// When the open interval may be written next.
    open_interval_at: Mono,
    /// How many samples it had when it was last written.
    open_interval_samples: u64,
    /// States of former incarnations.
    former: Vec<RunState>,
    stats: SpoolStats,
}

impl Spool {
    /// Opens the spool; the first batch of `wal` starts the file.
    pub(super) fn open(&mut self, wal: Wal) {
        self.wal = Some(wal);
    }

    /// The spool can no longer be written.
    pub(super) fn close(&mut self) {
        self.wal = None;
        self.write_started = None;
        (self.stats.stuck, self.stats.durable) = (false, false);
        self.stats.failures += 1;
    }

    /// A file that could not be used, or only in part, was quarantined.
    pub(super) fn on_quarantined(&mut self, reason: &'static str) {
        self.stats.quarantined = Some(reason);
    }

    /// Counts what a file held, after removing from it what is too old to be sent.
    pub(super) fn on_recovered(
        &mut self,
        now: Wall,
        recovered: &mut RecoveredMessages,
    ) -> ExpiredMessages {
        let expired = recovered.expire(now, SPOOL_AGE_MAX);
        self.stats.expired = expired.sealed_samples;
        self.stats.recovered = recovered.samples();
        self.stats.crashed = recovered.crashed;
        self.stats.uncertain = recovered.uncertain_samples;
        expired
    }

    /// Keeps the state of a former incarnation for as long as a message of it is held.
    pub(super) fn add_former(&mut self, run: RunState) {
        self.former.push(run);
    }

    /// Advances time. A disk that does not answer for long is reported; what waits for it
    /// continues to wait, because it is not known what the write will have stored.
    pub(super) fn on_deadline(&mut self, now: Mono) {
        if self.write_started.is_some_and(|since| now.since(since) >= SPOOL_STUCK_AFTER) {
            (self.stats.stuck, self.stats.durable) = (true, false);
        }
    }

    /// When [`Self::on_deadline`] or [`Self::next_batch`] next has something to do without an
    /// event; `open_samples` is what the open interval holds, if one is open.
    pub(super) fn next_deadline(&self, open_samples: Option<u64>) -> Option<Mono> {
        self.wal.as_ref()?;
        if let Some(since) = self.write_started {
            return (!self.stats.stuck).then(|| since.plus(SPOOL_STUCK_AFTER));
        }
        let changed = open_samples.filter(|samples| *samples != self.open_interval_samples);
        self.retry_at.or(changed.map(|_| self.open_interval_at))
    }

    /// Whether [`Self::next_batch`] may return a batch: no write is under way and none has just
    /// failed.
    pub(super) fn may_write(&self, now: Mono) -> bool {
        let paused = self.retry_at.is_some_and(|retry_at| now < retry_at);
        self.wal.is_some() && self.write_started.is_none() && !paused
    }

    /// The next batch to write; `None` while nothing has changed. `own` is the state of this
    /// incarnation, `open` its open interval, if one is open.
    pub(super) fn next_batch(
        &mut self,
        now: Mono,
        (drafts, sealed): (Vec<(DraftId, Lane, &Draft)>, Vec<&SealedMessage>),
        own: RunState,
        open: Option<OpenInterval>,
    ) -> Option<Batch> {
        if !self.may_write(now) {
            return None;
        }
        let has_message =
            |run: &&RunState| sealed.iter().any(|sealed| sealed.incarnation == run.incarnation);
        let runs = self.former.iter().filter(has_message).cloned().chain([own]).collect();
        let held = HeldMessages { drafts, sealed, runs };
        let wal = self.wal.as_mut()?;
        let mut batch = wal.next_batch(&held);
        if let Some(open) = open.filter(|_| batch.is_none() && now >= self.open_interval_at) {
            self.open_interval_at = now.plus(OPEN_INTERVAL_WRITTEN_EVERY);
            self.open_interval_samples = open.samples;
            batch = wal.open_interval_batch(open);
        }
        self.stats.bytes = wal.bytes();
        if batch.is_some() {
            self.write_started = Some(now);
        }
        batch
    }

    /// The batch is on disk.
    pub(super) fn on_written(&mut self) {
        self.write_started = None;
        self.retry_at = None;
        (self.stats.stuck, self.stats.durable) = (false, true);
    }

    /// The batch could not be written. `stuck`: the file that remains is outdated, so nothing may
    /// be sent until it is removed or rewritten.
    pub(super) fn on_failed(&mut self, now: Mono, stuck: bool) {
        self.write_started = None;
        self.retry_at = Some(now.plus(SPOOL_RETRY_PAUSE));
        (self.stats.stuck, self.stats.durable) = (stuck, false);
        self.stats.failures += 1;
        if let Some(wal) = &mut self.wal {
            wal.on_failed();
        }
    }

    /// Whether the next run will find what this one holds: the spool is open, and its last write
    /// did not fail.
    pub(super) fn outlives_process(&self) -> bool {
        self.wal.is_some() && self.retry_at.is_none()
    }

    /// What became of it so far.
    pub(super) fn stats(&self) -> &SpoolStats {
        &self.stats
    }
}
