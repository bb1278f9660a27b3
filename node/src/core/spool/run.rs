//! How far an incarnation of the node came: what a spool stores of it besides its messages.
//!
//! DESIGN N4.

use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::wire::{NotedRun, Totals};

/// The state of an incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunState {
    /// The incarnation.
    pub incarnation: Incarnation,
    /// The greatest number that it sealed; 0 before the first.
    pub newest: Seq,
    /// Recorded and lost, as its next message would state them.
    pub totals: Totals,
    /// True once its final message or its crash report is sealed.
    pub left: bool,
}

impl RunState {
    /// What is known of it should its messages be gone; `None` if there were none.
    pub(crate) fn noted(&self) -> Option<NotedRun> {
        let noted = NotedRun { incarnation: self.incarnation, recorded: self.totals.recorded };
        self.has_any().then_some(noted)
    }

    /// Whether it had sealed or recorded anything.
    fn has_any(&self) -> bool {
        self.newest.0 > 0 || self.totals.recorded > 0
    }

    /// Whether it ended without a final message after it had sealed or recorded anything.
    pub(crate) fn needs_crash_report(&self) -> bool {
        !self.left && self.has_any()
    }
}
