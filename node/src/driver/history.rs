//! Hands sealed messages and requests to the history, and returns its answers.
//!
//! Owns the history, which may be absent. Decides nothing.
//!
//! DESIGN N66.

use bytes::Bytes;
use plimsoll_clock::Clock;
use plimsoll_schemas::time::Now;

use crate::config::HistorySettings;
use crate::core::{Core, Identity};
use crate::io::history::{Answer, History, HistoryError, HistoryStats};
use crate::limits::HISTORY_END_WAIT;

/// The history, if one is kept.
#[derive(Debug)]
pub(super) struct HistoryKeeper(Option<History>);

impl HistoryKeeper {
    /// Opens the configured history.
    ///
    /// # Errors
    /// When it cannot be used as configured.
    pub(super) fn open(
        settings: &HistorySettings,
        identity: &Identity,
        core: &mut Core,
        clock: Clock,
    ) -> Result<Self, HistoryError> {
        let Some(dir) = &settings.path else { return Ok(Self(None)) };
        let history = History::start(dir, identity, settings.bounds(), clock)?;
        core.keep_records();
        Ok(Self(Some(history)))
    }

    /// Hands over what was sealed since.
    pub(super) fn write(&self, core: &mut Core, now: Now) {
        while let Some(record) = core.next_record() {
            if let Some(history) = &self.0 {
                history.write(record, now.wall);
            }
        }
    }

    /// Hands over a request, whose answer has `bytes_max` at most.
    pub(super) fn request(&self, payload: Bytes, bytes_max: usize) {
        if let Some(history) = &self.0 {
            history.request(payload, bytes_max);
        }
    }

    /// The next answer; never without a history. Cancel safe.
    pub(super) async fn answer(&mut self) -> Answer {
        match &mut self.0 {
            Some(history) => history.answer().await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn stats(&self) -> Option<HistoryStats> {
        self.0.as_ref().map(History::stats)
    }

    /// Writes what waits, within a bounded time.
    pub(super) async fn end(self) {
        if let Some(history) = self.0 {
            history.end(HISTORY_END_WAIT).await;
        }
    }
}
