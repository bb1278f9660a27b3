//! When samples arrived: how long they have been coming, and when they last did. What has been
//! there for hours may pause for as long; a name that came once may not.
//!
//! DESIGN A150.

use std::time::Duration;

use crate::limits::{IDLE_AFTER_MAX, IDLE_AFTER_MIN};
use plimsoll_schemas::time::Wall;

/// Times of arrival, which a sender cannot choose.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Activity {
    /// The first arrival; 0 before it.
    pub(super) began: Wall,
    /// The latest. Not stored: after a restart, when the newest sample was taken.
    pub(super) touched: Wall,
}

impl Activity {
    /// As a checkpoint has it; one of a former program does not have the first arrival.
    pub(super) fn restored(began: Wall, newest: Wall) -> Self {
        let began = if began.0 == 0 { newest } else { began };
        Self { began: began.min(newest), touched: newest }
    }

    pub(super) fn touch(&mut self, now: Wall) {
        if self.began.0 == 0 {
            self.began = now;
        }
        self.touched = self.touched.max(now);
    }

    /// The clock was set forward: so much of the time since then is none.
    pub(super) fn pass_over(&mut self, span: Duration) {
        (self.began, self.touched) = (self.began.plus(span), self.touched.plus(span));
    }

    /// The clock was set back: nothing has arrived in the future.
    pub(super) fn turn_back(&mut self, now: Wall) {
        (self.began, self.touched) = (self.began.min(now), self.touched.min(now));
    }

    pub(super) fn idle_from(&self) -> Wall {
        let known_for = self.touched.since(self.began);
        self.touched.plus(known_for.clamp(IDLE_AFTER_MIN, IDLE_AFTER_MAX))
    }
}
