//! How far an incarnation of the node came: what a spool stores of it besides its messages.
//!
//! DESIGN N4.

use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::wire::{NotedIncarnation, Totals};

/// The state of an incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncarnationState {
    pub incarnation: Incarnation,
    /// The greatest number that it sealed; 0 before the first.
    pub newest: Seq,
    /// Recorded and lost, as its next message would state them.
    pub totals: Totals,
    /// True once its final message is sealed, by itself or by the next incarnation.
    pub left: bool,
}

/// How an incarnation ended that sealed no final message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncarnationEnd {
    /// It was killed, or failed.
    Crashed,
    /// It stopped in order and had no time, or no broker, to seal its final message.
    InOrder,
}

impl IncarnationState {
    /// What is known of it should its messages be gone; `None` if there were none.
    pub(crate) fn noted(&self) -> Option<NotedIncarnation> {
        let noted =
            NotedIncarnation { incarnation: self.incarnation, recorded: self.totals.recorded };
        self.has_any().then_some(noted)
    }

    /// Whether it had sealed or recorded anything.
    fn has_any(&self) -> bool {
        self.newest.0 > 0 || self.totals.recorded > 0
    }

    /// Whether it sealed no final message although it had sealed or recorded anything.
    pub(crate) fn lacks_final_message(&self) -> bool {
        !self.left && self.has_any()
    }
}
