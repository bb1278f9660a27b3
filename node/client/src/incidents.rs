//! Counts of values and samples that handles could not record. Each is one number for all threads.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Samples for expected intervals that were not recorded, since one sample required too many.
pub(crate) static CORRECTIONS_CUT: AtomicU64 = AtomicU64::new(0);
/// Futures dropped before they were done.
pub(crate) static CANCELLED: AtomicU64 = AtomicU64::new(0);
/// Values of gauges that are not finite.
pub(crate) static NOT_FINITE: AtomicU64 = AtomicU64::new(0);
/// Phases that had no room in their step.
pub(crate) static PHASES_CUT: AtomicU64 = AtomicU64::new(0);

/// Sets all counts to zero, in a forked child.
pub(crate) fn reset() {
    for count in [&CORRECTIONS_CUT, &CANCELLED, &NOT_FINITE, &PHASES_CUT] {
        count.store(0, Relaxed);
    }
}
