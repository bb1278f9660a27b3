//! Counts of samples and readings that were lost on the way from a sensor to a message.

use std::sync::atomic::{AtomicU64, Ordering};

/// Losses of all sampling threads.
#[derive(Debug, Default)]
pub(super) struct Losses {
    missed: AtomicU64,
    skipped: AtomicU64,
}

impl Losses {
    /// Counts a sample that was not received before the next one was ready.
    pub(super) fn miss(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts readings that were left out of a sample.
    pub(super) fn skip(&self, readings: u64) {
        self.skipped.fetch_add(readings, Ordering::Relaxed);
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    pub(super) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}
