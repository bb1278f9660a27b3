//! Carries batches from the core to its spool, and what came of them back.

use crate::limits::SPOOL_END_WAIT;
use plimsoll_clock::Clock;
use plimsoll_schemas::time::Now;

use super::spool::{Failure, Opened, SetAside, Spool, SpoolError, Written};
use crate::config::SpoolSettings;
use crate::core::{Core, Identity, spool::SpoolStats};

/// The spool, if there is one.
#[derive(Debug)]
pub struct Keeper(Option<Spool>);

impl Keeper {
    /// Opens the spool that `settings` ask for, and gives the core what it holds.
    ///
    /// # Errors
    /// When the spool cannot be used as configured.
    pub fn open(
        settings: &SpoolSettings,
        identity: &Identity,
        core: &mut Core,
        now: Now,
    ) -> Result<Self, SpoolError> {
        let Some(dir) = &settings.path else { return Ok(Self(None)) };
        let Opened { spool, journal, recovered, set_aside } =
            Spool::open(dir, identity, settings.sync, now)?;
        core.open_spool(now, journal, recovered);
        if let Some(SetAside { reason, why, now_at }) = set_aside {
            let now_at = now_at.display();
            tracing::error!(reason, why, %now_at, "spool is not whole and was set aside");
            core.on_spool_quarantined(reason);
        }
        let SpoolStats { recovered, crashed, uncertain, .. } = core.status().spool;
        tracing::info!(recovered, crashed, uncertain, "spool opened; in samples");
        Ok(Self(Some(spool)))
    }

    /// Begins to write what has changed, if there is a spool and it is not busy.
    pub fn keep(&mut self, core: &mut Core, now: Now) {
        let Some(spool) = self.0.as_mut().filter(|spool| !spool.is_busy()) else { return };
        let Some(batch) = core.next_spool_batch(now) else { return };
        if spool.write(batch).is_err() {
            self.on_written(core, now, None);
        }
    }

    /// Waits for the end of a write; for ever while there is none. Cancel safe.
    pub async fn written(&mut self) -> Option<Written> {
        match &mut self.0 {
            Some(spool) => spool.written().await,
            None => std::future::pending().await,
        }
    }

    /// Hears what came of a write; `None` when the spool's thread is gone, and the spool with it.
    pub fn on_written(&mut self, core: &mut Core, now: Now, written: Option<Written>) {
        match written {
            Some(Written { failure: None, .. }) => core.on_spooled(),
            Some(Written { failure: Some(Failure { reason, text, remains: false }), .. }) => {
                tracing::error!(reason, text, "spool not written; messages are sent without it");
                core.on_spool_failed(now);
            }
            Some(Written { failure: Some(Failure { reason, text, remains: true }), .. }) => {
                tracing::error!(
                    reason,
                    text,
                    "spool neither written nor removed; messages wait, for a later start would \
                     send them twice: mend the disk, or remove spool.path and start again"
                );
                core.on_spool_stuck(now);
            }
            None => {
                tracing::error!("the spool's thread is gone; messages are sent without a spool");
                core.close_spool();
                self.0 = None;
            }
        }
    }

    /// Writes what has changed last, for a while.
    pub async fn finish(&mut self, core: &mut Core, clock: Clock) {
        let rest = async {
            loop {
                self.keep(core, clock.now());
                if !self.0.as_ref().is_some_and(Spool::is_busy) {
                    return;
                }
                let written = self.written().await;
                self.on_written(core, clock.now(), written);
            }
        };
        if tokio::time::timeout(SPOOL_END_WAIT, rest).await.is_err() {
            tracing::warn!("the spool was not written in time");
            core.close_spool();
        }
    }
}
