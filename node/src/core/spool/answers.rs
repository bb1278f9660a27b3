//! Which answers may leave: an answer waits until a note that counts its samples is in the file.
//!
//! One note serves all answers that wait when it is made. Owns the numbers of notes and when the
//! next one is due; the sockets keep the answers themselves, each with the number that it waits
//! for. Answers leave at once without a spool, and while a note has failed.
//!
//! DESIGN N43.

use crate::limits::{ANSWER_WAIT_MAX, NOTE_EVERY, SPOOL_RETRY_PAUSE};
use plimsoll_schemas::time::Mono;

/// Counts the notes of an incarnation. An answer leaves once its number is at most `Spool::noted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoteNumber(u64);

impl NoteNumber {
    /// Every answer may leave.
    pub const ALL: Self = Self(u64::MAX);
}

#[derive(Default)]
pub(super) struct Answers {
    /// The first batch was written, or failed: the file is of this incarnation, or is gone.
    has_begun: bool,
    /// The last note that was made, and the last one that is in the file.
    made: NoteNumber,
    written: NoteNumber,
    /// The last number that an answer waits for, and the one at the end of the last interval.
    asked: NoteNumber,
    closed: NoteNumber,
    /// Since when an answer waits.
    waits_since: Option<Mono>,
    under_way: bool,
    /// When a failed note is tried again.
    retry_at: Option<Mono>,
    /// Samples that jobs had brought at the last note, and when one that no answer waits for may
    /// follow.
    brought: u64,
    due: Mono,
}

impl Answers {
    /// The number that an answer to what was just recorded waits for.
    pub(super) fn wait(&mut self, now: Mono) -> NoteNumber {
        if self.are_free() {
            return NoteNumber::default();
        }
        self.waits_since.get_or_insert(now);
        // A note that is made already may not count what was just recorded.
        self.asked = NoteNumber(self.made.0 + 1);
        self.asked
    }

    /// Answers up to this number may leave.
    pub(super) fn noted(&self) -> NoteNumber {
        if self.are_free() { NoteNumber::ALL } else { self.written }
    }

    /// The interval is over, so the next batch would hold its samples.
    pub(super) fn on_interval_closed(&mut self) {
        self.closed = self.asked;
    }

    /// Whether a batch may be written. Before that every answer to samples of closed intervals
    /// must have left: a client without its answer sends them again, and here a successor would
    /// find them in a draft. The first batch waits for nothing, as notes wait for it; it is made
    /// before anything is recorded. For the same reason a message waits that no batch holds.
    pub(super) fn permit_batch(&self) -> bool {
        !self.has_begun || self.closed <= self.noted()
    }

    /// Whether an answer waits for so long that nothing more that is answered may be recorded.
    pub(super) fn are_overdue(&self, now: Mono) -> bool {
        self.waits_since.is_some_and(|since| now.since(since) >= ANSWER_WAIT_MAX)
    }

    /// Whether a note is to be written now: it is the first, an answer waits for it, or `brought`
    /// has changed and it is due. It is then under way.
    pub(super) fn begin_note(&mut self, now: Mono, brought: u64) -> bool {
        let paused = self.retry_at.is_some_and(|retry_at| now < retry_at);
        if !self.has_begun || self.under_way || paused {
            return false;
        }
        let is_due = brought != self.brought && now >= self.due;
        let is_first = self.made == NoteNumber::default();
        if self.asked <= self.made && !is_due && !is_first && self.retry_at.is_none() {
            return false;
        }
        self.made = NoteNumber(self.made.0 + 1);
        (self.brought, self.due) = (brought, now.plus(NOTE_EVERY));
        self.under_way = true;
        true
    }

    /// When [`Self::begin_note`] is next true without an event.
    pub(super) fn next_deadline(&self, brought: u64) -> Option<Mono> {
        if !self.has_begun || self.under_way {
            return None;
        }
        self.retry_at.or_else(|| (brought != self.brought).then_some(self.due))
    }

    /// Whether the notes on the disk may still be those of a former incarnation. Until then none of
    /// what this one took over may be sent: should its file go, a successor would take those notes
    /// for all that is known of the former incarnation, and name lost what this one has sent.
    pub(super) fn are_anothers(&self) -> bool {
        self.has_begun && !self.has_noted() && !self.has_failed()
    }

    /// Whether a note of this incarnation was written.
    pub(super) fn has_noted(&self) -> bool {
        self.written != NoteNumber::default()
    }

    pub(super) fn on_noted(&mut self, now: Mono) {
        self.under_way = false;
        self.retry_at = None;
        self.written = self.made;
        // What was recorded while the note was on its way is not in it: its answers wait for the
        // next.
        self.waits_since = (self.asked > self.written).then_some(now);
    }

    pub(super) fn on_note_failed(&mut self, now: Mono) {
        self.under_way = false;
        self.retry_at = Some(now.plus(SPOOL_RETRY_PAUSE));
        self.waits_since = None;
    }

    /// A batch is in the file, or it failed and the file is removed. A note is of use either way:
    /// its file has its few bytes already, and is overwritten on a full disk too.
    pub(super) fn on_batch_ended(&mut self) {
        self.has_begun = true;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.retry_at.is_some()
    }

    fn are_free(&self) -> bool {
        self.has_failed()
    }
}
