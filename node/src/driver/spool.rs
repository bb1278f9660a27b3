//! Writes batches of the core to its spool, one at a time, and reports the results to the core.
//!
//! Owns the spool, which may be absent. Decides neither what is written nor when it is dropped.

use crate::limits::SPOOL_END_WAIT;
use plimsoll_clock::Clock;
use plimsoll_schemas::time::Now;

use crate::config::SpoolSettings;
use crate::core::{Core, Identity, spool::SpoolStats};
use crate::io::spool::{Opened, Quarantined, Spool, SpoolError, WriteFailure, WriteResult};

/// The spool, if there is one.
#[derive(Debug)]
pub(super) struct SpoolWriter(Option<Spool>);

impl SpoolWriter {
    /// Opens the configured spool and passes its content to the core.
    ///
    /// # Errors
    /// When the spool cannot be used as configured.
    pub(super) fn open(
        settings: &SpoolSettings,
        identity: &Identity,
        core: &mut Core,
        now: Now,
    ) -> Result<Self, SpoolError> {
        let Some(dir) = &settings.path else { return Ok(Self(None)) };
        let Opened { spool, journal, recovered, quarantined } =
            Spool::open(dir, identity, settings.sync, now)?;
        core.open_spool(now, journal, recovered);
        if let Some(Quarantined { reason, why, now_at }) = quarantined {
            let now_at = now_at.display();
            tracing::error!(reason, why, %now_at, "spool file damaged or unusable; quarantined");
            core.on_spool_quarantined(reason);
        }
        let SpoolStats { recovered, crashed, uncertain, .. } = core.status().spool;
        tracing::info!(recovered, crashed, uncertain, "spool opened; counts are samples");
        Ok(Self(Some(spool)))
    }

    /// Begins to write the next batch, if there is one and no write is in progress.
    pub(super) fn write(&mut self, core: &mut Core, now: Now) {
        let Some(spool) = self.0.as_mut().filter(|spool| !spool.is_busy()) else { return };
        let Some(batch) = core.next_spool_batch(now) else { return };
        if spool.write(batch).is_err() {
            self.on_written(core, now, None);
        }
    }

    /// Waits for the end of a write; for ever while there is none. Cancel safe.
    pub(super) async fn written(&mut self) -> Option<WriteResult> {
        match &mut self.0 {
            Some(spool) => spool.written().await,
            None => std::future::pending().await,
        }
    }

    /// Reports the result of a write to the core; `None` when the thread of the spool has ended.
    pub(super) fn on_written(&mut self, core: &mut Core, now: Now, written: Option<WriteResult>) {
        match written {
            Some(WriteResult { failure: None, .. }) => core.on_spooled(),
            Some(WriteResult {
                failure: Some(WriteFailure { reason, text, remains: false }),
                ..
            }) => {
                tracing::error!(reason, text, "spool not written; messages are sent without it");
                core.on_spool_failed(now);
            }
            Some(WriteResult {
                failure: Some(WriteFailure { reason, text, remains: true }),
                ..
            }) => {
                tracing::error!(
                    reason,
                    text,
                    "spool neither written nor removed; messages wait, because the next start would \
                     send them twice: repair the disk, or remove spool.path and restart"
                );
                core.on_spool_stuck(now);
            }
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
                if !self.0.as_ref().is_some_and(Spool::is_busy) {
                    return;
                }
                let written = self.written().await;
                self.on_written(core, clock.now(), written);
            }
        };
        if tokio::time::timeout(SPOOL_END_WAIT, rest).await.is_err() {
            tracing::warn!("spool not written in time");
            core.close_spool();
        }
    }
}
