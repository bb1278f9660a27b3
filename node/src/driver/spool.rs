//! Writes batches and notes of the core to its spool, one of each at a time, and reports the
//! results to the core.
//!
//! Owns the spool, which may be absent. Decides neither what is written nor when it is dropped.

use crate::limits::SPOOL_END_WAIT;
use plimsoll_clock::Clock;
use plimsoll_schemas::time::Now;
use plimsoll_schemas::wire::NotedIncarnation;

use crate::config::SpoolSettings;
use crate::core::{Core, Identity, spool::SpoolStats};
use crate::io::spool::{
    Opened, Quarantined, Spool, SpoolError, WriteFailure, WriteResult, Written,
};

/// The spool, if there is one.
#[derive(Debug)]
pub(super) struct SpoolWriter(Option<Spool>);

impl SpoolWriter {
    /// Opens the configured spool and passes its content to the core.
    pub(super) fn open(
        settings: &SpoolSettings,
        identity: &Identity,
        core: &mut Core,
        now: Now,
    ) -> Result<Self, SpoolError> {
        let Some(dir) = &settings.path else { return Ok(Self(None)) };
        let Opened { spool, journal, recovered, quarantined, orphans } =
            Spool::open(dir, identity, settings.sync, now)?;
        core.open_spool(now, journal, recovered);

        for NotedIncarnation { incarnation, recorded } in &orphans {
            let incarnation = incarnation.0;
            tracing::info!(incarnation, recorded, "an earlier run left a note but no spool file");
        }

        core.on_orphans(orphans);

        if let Some(Quarantined { reason, why, now_at }) = quarantined {
            let now_at = now_at.display();
            tracing::error!(reason, why, %now_at, "spool file damaged or unusable; quarantined");
            core.on_spool_quarantined(reason);
        }

        let SpoolStats { recovered, crashed, uncertain, .. } = core.status().spool;
        tracing::info!(recovered, crashed, uncertain, "spool opened; counts are samples");
        let mut writer = Self(Some(spool));
        // Before anything is recorded: notes wait for this batch, and it waits for no answer.
        writer.write(core, now);
        Ok(writer)
    }

    /// Begins to write the next note and the next batch, if there is one and none is in progress.
    pub(super) fn write(&mut self, core: &mut Core, now: Now) {
        let Some(spool) = &mut self.0 else { return };
        // Only a thread that has ended takes nothing.
        let note = if spool.is_noting() { None } else { core.next_note(now) };
        let is_note_begun = note.is_none_or(|note| spool.write_note(note).is_ok());
        // After the note: answers wait for it, and it has a thread of its own.
        let batch = if spool.is_busy() { None } else { core.next_spool_batch(now) };
        let is_batch_begun = batch.is_none_or(|batch| spool.write(batch).is_ok());
        if !is_note_begun || !is_batch_begun {
            self.on_written(core, now, None);
        }
    }

    /// Waits for the end of a write; for ever while there is none. Cancel safe.
    pub(super) async fn written(&mut self) -> Option<Written> {
        match &mut self.0 {
            Some(spool) => spool.written().await,
            None => std::future::pending().await,
        }
    }

    /// Reports the result of a write to the core; `None` when a thread of the spool has ended.
    pub(super) fn on_written(&mut self, core: &mut Core, now: Now, written: Option<Written>) {
        match written {
            Some(Written::Note(result)) => on_note(core, now, result),
            Some(Written::Batch(WriteResult { failure, .. })) => on_batch(core, now, failure),
            None => {
                tracing::error!("spool thread ended; messages are sent without a spool");
                core.close_spool();
                self.0 = None;
            }
        }
    }

    /// Writes the last changes, within `SPOOL_END_WAIT`.
    pub(super) async fn finish(&mut self, core: &mut Core, clock: Clock) {
        let rest = async {
            loop {
                self.write(core, clock.now());
                if !self.0.as_ref().is_some_and(|spool| spool.is_busy() || spool.is_noting()) {
                    return;
                }
                let written = self.written().await;
                self.on_written(core, clock.now(), written);
            }
        };

        if tokio::time::timeout(SPOOL_END_WAIT, rest).await.is_err() {
            tracing::warn!("spool not written in time");
            core.close_spool();
        } else if core.leaves_nothing()
            && let Some(spool) = &self.0
        {
            // Nothing is left for a successor to report. Their room stays, for a disk that is full
            // by then.
            spool.erase_notes();
        }
    }
}

fn on_note(core: &mut Core, now: Now, result: Result<(), WriteFailure>) {
    let Err(WriteFailure { reason, text, .. }) = result else { return core.on_noted(now) };
    tracing::error!(
        reason,
        text,
        "note of recorded samples not written; answers are sent without it, so a kill may lose \
         acknowledged samples; retried every few seconds"
    );
    core.on_note_failed(now);
}

fn on_batch(core: &mut Core, now: Now, failure: Option<WriteFailure>) {
    match failure {
        None => core.on_spooled(),
        Some(WriteFailure { reason, text, remains: false }) => {
            tracing::error!(reason, text, "spool not written; messages are sent without it");
            core.on_spool_failed(now);
        }
        Some(WriteFailure { reason, text, remains: true }) => {
            tracing::error!(
                reason,
                text,
                "spool neither written nor removed; messages wait, because the next start would \
                 send them twice: repair the disk, or remove spool.path and restart"
            );
            core.on_spool_stuck(now);
        }
    }
}
