//! The spool: keeps what the outbox holds in a file, so that it survives the end of the process.
//!
//! Owns the state of the write-ahead log: what the file holds, which write is under way, when a
//! failed one is retried, and the states of former incarnations. Its caller passes what is held
//! and gets the next [`Batch`] to write, and the next [`Note`] of what is recorded; `io::spool`
//! writes both. `answers` decides which answers a note lets leave. [`recover`] reads a file at the
//! start. Without an open log every method does nothing.
//!
//! Refuses to do I/O, and to decide what may be sent: the outbox keeps a sealed message until its
//! batch is on disk.
//!
//! DESIGN N3, N43, N70.

mod answers;
mod frame;
mod incarnation;
mod note;
mod record;
mod recovery;
mod stats;
mod wal;

use crate::limits::{SPOOL_AGE_MAX, SPOOL_RETRY_PAUSE, SPOOL_STUCK_AFTER};
use plimsoll_schemas::limits::wire::FORMER_INCARNATIONS_MAX;
use plimsoll_schemas::time::{Mono, Wall};
use plimsoll_schemas::wire::NotedIncarnation;

use super::outbox::{HeldDraft, SealedMessage};
use answers::Answers;
pub use answers::NoteNumber;
pub use incarnation::{IncarnationEnd, IncarnationState};
pub use note::{NOTES_BYTES, Notes};
pub use recovery::{ExpiredMessages, RecoveredMessages, UnusableFile, recover};
pub use stats::SpoolStats;
pub use wal::{Batch, HeldMessages, Wal};

#[derive(Default)]
pub(super) struct Spool {
    /// `None` without a spool.
    wal: Option<Wal>,
    /// Whether there is to be one, also after it could no longer be written.
    is_wanted: bool,
    /// When the write that is under way started.
    write_started: Option<Mono>,
    /// When a failed write is retried.
    retry_at: Option<Mono>,
    answers: Answers,
    /// States of former incarnations.
    former: Vec<IncarnationState>,
    orphans: Vec<NotedIncarnation>,
    stats: SpoolStats,
}

impl Spool {
    /// Opens the spool; the first batch of `wal` starts the file.
    pub(super) fn open(&mut self, wal: Wal) {
        self.wal = Some(wal);
        self.is_wanted = true;
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

    /// Sets what former incarnations had noted whose file is gone; empty once that is reported.
    pub(super) fn set_orphans(&mut self, orphans: Vec<NotedIncarnation>) {
        self.orphans = orphans;
    }

    pub(super) fn orphans(&self) -> &[NotedIncarnation] {
        &self.orphans
    }

    /// Keeps the state of a former incarnation for as long as a message of it is held.
    pub(super) fn add_former(&mut self, state: IncarnationState) {
        self.former.push(state);
    }

    /// Advances time. A disk that does not answer for long is reported; what waits for it
    /// continues to wait, because it is not known what the write will have stored.
    pub(super) fn on_deadline(&mut self, now: Mono) {
        if self.write_started.is_some_and(|since| now.since(since) >= SPOOL_STUCK_AFTER) {
            (self.stats.stuck, self.stats.durable) = (true, false);
        }
    }

    /// When [`Self::on_deadline`], [`Self::next_batch`] or [`Self::next_note`] next has something
    /// to do without an event; `brought` counts the samples that jobs have brought.
    pub(super) fn next_deadline(&self, brought: u64) -> Option<Mono> {
        self.wal.as_ref()?;
        let batch = match self.write_started {
            Some(since) => (!self.stats.stuck).then(|| since.plus(SPOOL_STUCK_AFTER)),
            None => self.retry_at.filter(|_| self.answers.permit_batch()),
        };
        batch.into_iter().chain(self.answers.next_deadline(brought)).min()
    }

    pub(super) fn wait_for_note(&mut self, now: Mono) -> NoteNumber {
        if self.wal.is_some() { self.answers.wait(now) } else { NoteNumber::default() }
    }

    pub(super) fn noted(&self) -> NoteNumber {
        if self.wal.is_some() { self.answers.noted() } else { NoteNumber::ALL }
    }

    pub(super) fn are_answers_overdue(&self, now: Mono) -> bool {
        self.wal.is_some() && self.answers.are_overdue(now)
    }

    pub(super) fn on_interval_closed(&mut self) {
        self.answers.on_interval_closed();
    }

    /// The note to write now: `note`, if an answer waits for it or jobs have `brought` more
    /// samples than at the last one and it is due.
    pub(super) fn next_note(
        &mut self,
        now: Mono,
        note: NotedIncarnation,
        brought: u64,
    ) -> Option<Notes> {
        self.wal.as_ref()?;
        let is_begun = self.answers.begin_note(now, brought);
        is_begun.then(|| Notes { own: note, orphans: self.all_orphans() })
    }

    /// What a successor is to report should it find no file: what is not reported yet, and the
    /// former incarnations whose messages this one holds.
    fn all_orphans(&self) -> Vec<NotedIncarnation> {
        // The latest first: the file has room for a few, and the oldest are left out (N43).
        let former = self.former.iter().rev().filter_map(IncarnationState::noted);
        let is_other = |noted: &&NotedIncarnation| {
            self.former.iter().all(|state| state.incarnation != noted.incarnation)
        };
        let orphans = self.orphans.iter().filter(is_other).copied();
        former.chain(orphans).take(FORMER_INCARNATIONS_MAX).collect()
    }

    pub(super) fn on_noted(&mut self, now: Mono) {
        self.answers.on_noted(now);
    }

    pub(super) fn on_note_failed(&mut self, now: Mono) {
        self.stats.failures += 1;
        self.answers.on_note_failed(now);
    }

    /// Whether [`Self::next_batch`] may return a batch: no write is under way, none has just
    /// failed, and no answer is owed for samples that it would hold.
    pub(super) fn may_write(&self, now: Mono) -> bool {
        let paused = self.retry_at.is_some_and(|retry_at| now < retry_at);
        let may_begin = self.write_started.is_none() && !paused;
        self.wal.is_some() && may_begin && self.answers.permit_batch()
    }

    /// Whether a message may be sent: this incarnation has noted, and a batch holds the message
    /// first, or there is no file and no answer is owed for samples that it would hold.
    pub(super) fn may_send(&self) -> bool {
        let may = self.outlives_process() || self.answers.permit_batch();
        self.wal.is_none() || may && !self.answers.are_anothers()
    }

    /// The next batch to write; `None` while nothing has changed. `own` is the state of this
    /// incarnation.
    pub(super) fn next_batch(
        &mut self,
        now: Mono,
        drafts: Vec<HeldDraft<'_>>,
        sealed: Vec<&SealedMessage>,
        own: IncarnationState,
    ) -> Option<Batch> {
        if !self.may_write(now) {
            return None;
        }
        let has_message = |state: &&IncarnationState| {
            sealed.iter().any(|sealed| sealed.incarnation == state.incarnation)
        };
        // Until this incarnation has noted, the notes are those of the one that it took over: its
        // successor must find here that their samples are in this file.
        let must_state = !self.answers.has_noted();
        let former = self.former.iter().filter(|state| must_state || has_message(state));
        let incarnations = former.cloned().chain([own]).collect();
        let held = HeldMessages { drafts, sealed, incarnations };
        let wal = self.wal.as_mut()?;
        let batch = wal.next_batch(&held);
        self.stats.bytes = wal.bytes();
        if batch.is_some() {
            self.write_started = Some(now);
        }
        batch
    }

    pub(super) fn on_written(&mut self) {
        self.write_started = None;
        self.retry_at = None;
        (self.stats.stuck, self.stats.durable) = (false, true);
        self.answers.on_batch_ended();
    }

    /// The batch could not be written. `stuck`: the file that remains is outdated, so nothing may
    /// be sent until it is removed or rewritten.
    pub(super) fn on_failed(&mut self, now: Mono, stuck: bool) {
        self.write_started = None;
        self.retry_at = Some(now.plus(SPOOL_RETRY_PAUSE));
        (self.stats.stuck, self.stats.durable) = (stuck, false);
        self.stats.failures += 1;

        // A removed file shows as little of what is sent now as a written one: notes may go on
        // (N5).
        if !stuck {
            self.answers.on_batch_ended();
        }
        // What the file holds is unknown from here on, so the next batch is all of it.
        if let Some(wal) = &mut self.wal {
            wal.on_failed();
        }
    }

    /// Whether the next incarnation will find what this one holds: the spool is open, and its last
    /// write did not fail.
    pub(super) fn outlives_process(&self) -> bool {
        self.wal.is_some() && self.retry_at.is_none()
    }

    /// Whether everything held would outlive the process; `None` if that was never wanted.
    pub(super) fn durable(&self) -> Option<bool> {
        self.is_wanted.then(|| self.stats.durable && !self.answers.has_failed())
    }

    pub(super) fn stats(&self) -> SpoolStats {
        SpoolStats { durable: self.durable().unwrap_or_default(), ..self.stats.clone() }
    }
}
