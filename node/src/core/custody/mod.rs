//! Joins the outbox with a spool: what is held goes in there before it may be sent, and a later
//! incarnation takes it out again. Without a spool nothing here does anything.

use crate::limits::{RUNNING_NOTED_EVERY, SPOOL_AGE_MAX, SPOOL_RETRY_PAUSE, SPOOL_STUCK_AFTER};
use plimsoll_schemas::ids::Incarnation;
use plimsoll_schemas::time::{Mono, Now};

use super::journal::recovered::{Expired, Recovered};
use super::journal::{Batch, Held, Journal, RunAccount, Running};
use super::{Core, seal};

/// What became of the spool so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolFigures {
    /// Bytes of its file, as far as is known.
    pub bytes: usize,
    /// Whether what is held would outlive the process at this moment.
    pub durable: bool,
    /// Whether messages wait for a disk that does not answer, or that keeps an outdated file.
    pub stuck: bool,
    /// Writes that failed.
    pub failures: u64,
    /// Samples taken over from former incarnations.
    pub recovered: u64,
    /// Samples in messages of former incarnations that were too old to be sent again.
    pub released: u64,
    /// Samples that were lost with the interval that was open when the last one ended.
    pub crashed: u64,
    /// Samples of which a damaged file does not tell whether they were sent.
    pub uncertain: u64,
    /// Why a file was set aside at the start, if one was.
    pub set_aside: Option<&'static str>,
}

/// A spool's state.
#[derive(Default)]
pub(super) struct Custody {
    /// `None` without a spool.
    journal: Option<Journal>,
    /// Since when a batch has been on its way to the disk.
    under_way: Option<Mono>,
    /// When a failed write is tried again.
    retry_at: Option<Mono>,
    /// When the open interval may be noted next.
    note_at: Mono,
    /// How many samples it had when it was noted last.
    noted: u64,
    /// Accounts of former incarnations.
    former: Vec<RunAccount>,
    pub(super) figures: SpoolFigures,
}

impl Custody {
    /// When something is to be written without an event from outside; `counted` is what the open
    /// interval has counted so far, if there is one.
    pub(super) fn next_deadline(&self, counted: Option<u64>) -> Option<Mono> {
        self.journal.as_ref()?;
        if let Some(since) = self.under_way {
            return (!self.figures.stuck).then(|| since.plus(SPOOL_STUCK_AFTER));
        }
        let note_at = counted.filter(|n| *n != self.noted).map(|_| self.note_at);
        self.retry_at.or(note_at)
    }

    /// A disk that does not answer for long is told of; what waits for it goes on waiting, since
    /// nobody knows what it will have written.
    pub(super) fn on_deadline(&mut self, now: Mono) {
        if self.under_way.is_some_and(|since| now.since(since) >= SPOOL_STUCK_AFTER) {
            (self.figures.stuck, self.figures.durable) = (true, false);
        }
    }
}

impl Core {
    /// Begins to keep what is held in a spool, after taking over what `recovered` says was held
    /// by former incarnations: their sealed messages are sent again as they are, their drafts
    /// become drafts of this one, and for each that ended without a farewell one is said.
    pub fn open_spool(&mut self, now: Now, journal: Journal, recovered: Option<Recovered>) {
        self.custody.journal = Some(journal);
        self.outbox.set_spooled(true);
        if let Some(recovered) = recovered {
            self.take_over(now, recovered);
        }
    }

    /// A file that could not be used, or not all of it, has been kept under another name.
    pub fn on_spool_set_aside(&mut self, reason: &'static str) {
        self.custody.figures.set_aside = Some(reason);
    }

    fn take_over(&mut self, now: Now, mut recovered: Recovered) {
        self.begin_after(&recovered);
        let expired = recovered.expire(now.wall, SPOOL_AGE_MAX);
        self.give_up(expired);
        let figures = &mut self.custody.figures;
        figures.recovered = recovered.samples();
        figures.crashed = recovered.crashed;
        figures.uncertain = recovered.uncertain_samples;
        for run in recovered.runs {
            self.outbox.know(run.incarnation, run.newest);
            let nothing = run.newest.0 == 0 && run.totals.recorded == 0;
            if !run.left && !nothing {
                let account = self.leave_testament(now, run);
                self.custody.former.push(account);
            } else {
                self.custody.former.push(run);
            }
        }
        recovered.sealed.into_iter().for_each(|sealed| self.outbox.adopt(now.mono, sealed));
        // State that was measured before is of no use any more, and a farewell is said above.
        let drafts = recovered.drafts.into_iter().map(|(_, draft)| draft);
        for draft in drafts.filter(|draft| !draft.is_state()) {
            self.totals.recorded = self.totals.recorded.saturating_add(draft.samples());
            self.outbox.adopt_draft(draft);
        }
    }

    fn leave_testament(&mut self, now: Now, run: RunAccount) -> RunAccount {
        let sealed = self.sealer.testament(now.wall, &run);
        let newest = sealed.seq;
        self.outbox.seal_for(now.mono, sealed);
        RunAccount { newest, left: true, ..run }
    }

    /// A clock that was set back must not give this incarnation the name of a former one.
    fn begin_after(&mut self, recovered: &Recovered) {
        let former = recovered.incarnations();
        let mut own = self.sealer.incarnation();
        while former.contains(&own) {
            own = Incarnation(own.0.saturating_add(1));
        }
        self.sealer.rename(own);
        self.outbox.rename(own);
    }

    /// What grew too old in the spool was recorded and is lost.
    fn give_up(&mut self, expired: Expired) {
        self.custody.figures.released = expired.released_samples;
        self.totals.recorded = self.totals.recorded.saturating_add(expired.draft_samples);
        self.lose(seal::EXPIRED, expired.draft_samples);
        self.outbox.lose_events(seal::EXPIRED, expired.draft_events);
    }

    /// What must be written into the spool next; `None` while nothing has changed, a write is
    /// under way, or one has failed a moment ago.
    pub fn next_spool(&mut self, now: Now) -> Option<Batch> {
        let waits = self.custody.retry_at.is_some_and(|retry_at| now.mono < retry_at);
        if self.custody.under_way.is_some() || waits {
            return None;
        }
        let mut journal = self.custody.journal.take()?;
        let batch = journal.next(&self.held()).or_else(|| self.note(now, &mut journal));
        self.custody.figures.bytes = journal.bytes();
        self.custody.journal = Some(journal);
        if batch.is_some() {
            self.custody.under_way = Some(now.mono);
            // From here on what is sealed is not in the batch, and must wait for the next.
            self.outbox.set_spooled(true);
            self.outbox.on_spooling();
        }
        batch
    }

    /// How much is in the open interval, noted now and then: that much is known to be lost when
    /// the process ends without warning.
    fn note(&mut self, now: Now, journal: &mut Journal) -> Option<Batch> {
        if now.mono < self.custody.note_at || self.leaving {
            return None;
        }
        self.custody.note_at = now.mono.plus(RUNNING_NOTED_EVERY);
        let samples = self.counted();
        self.custody.noted = samples;
        let incarnation = self.sealer.incarnation();
        journal.running(Running { incarnation, interval: self.intervals + 1, samples })
    }

    /// Samples recorded and lost in the open interval.
    pub(super) fn counted(&self) -> u64 {
        self.intake.counted()
    }

    fn held(&self) -> Held<'_> {
        Held {
            drafts: self.outbox.drafts().collect(),
            sealed: self.outbox.sealed().collect(),
            runs: self.accounts(),
        }
    }

    /// The own account, and that of each former incarnation of which a message is held.
    fn accounts(&self) -> Vec<RunAccount> {
        let holds = |run: &&RunAccount| {
            self.outbox.sealed().any(|sealed| sealed.incarnation == run.incarnation)
        };
        let own = RunAccount {
            incarnation: self.sealer.incarnation(),
            newest: self.outbox.newest_sealed(),
            totals: self.sealer.totals(&self.totals.lost),
            intervals: self.intervals,
            left: self.leaving && self.outbox.is_farewell_sealed(),
        };
        self.custody.former.iter().filter(holds).cloned().chain([own]).collect()
    }

    /// The batch is in the spool.
    pub fn on_spooled(&mut self) {
        self.custody.under_way = None;
        self.custody.retry_at = None;
        (self.custody.figures.stuck, self.custody.figures.durable) = (false, true);
        self.outbox.on_spooled();
    }

    /// The batch could not be written and the file is gone: until it can be written anew,
    /// messages are sent without it.
    pub fn on_spool_failed(&mut self, now: Now) {
        self.on_not_spooled(now, false);
        self.outbox.on_spool_failed();
    }

    /// The batch could not be written, and a file is still there that says less than was sent
    /// before. Until it is gone or written anew, nothing more is sent: a later start would take
    /// what is sent now for something that never was.
    pub fn on_spool_stuck(&mut self, now: Now) {
        self.on_not_spooled(now, true);
    }

    fn on_not_spooled(&mut self, now: Now, stuck: bool) {
        self.custody.under_way = None;
        self.custody.retry_at = Some(now.mono.plus(SPOOL_RETRY_PAUSE));
        (self.custody.figures.stuck, self.custody.figures.durable) = (stuck, false);
        self.custody.figures.failures += 1;
        if let Some(journal) = &mut self.custody.journal {
            journal.on_failed();
        }
    }

    /// There is nobody any more who could write the spool.
    pub fn close_spool(&mut self) {
        self.custody.journal = None;
        self.custody.under_way = None;
        (self.custody.figures.stuck, self.custody.figures.durable) = (false, false);
        self.custody.figures.failures += 1;
        self.outbox.on_spool_failed();
    }
}

#[cfg(test)]
mod tests;
