//! Looks at the whole state for whoever shows it: one serves all who ask within a moment, and is
//! let go after that, since what changes while it is kept is copied first.

use std::sync::Arc;

use crate::limits::exposition::VIEW_AGE_MAX;
use plimsoll_schemas::time::Mono;

use super::Driver;
use crate::exposition::Looks;
use crate::io::http::Look;

/// The latest look, and what all of them have cost.
#[derive(Default)]
pub(super) struct LookedAt {
    latest: Option<(Mono, Arc<Look>)>,
    figures: Looks,
}

impl LookedAt {
    /// When the latest look is stale.
    pub(super) fn deadline(&self) -> Option<Mono> {
        self.latest.as_ref().map(|(taken, _)| taken.plus(VIEW_AGE_MAX))
    }

    /// Lets go of a stale look. What only it still holds is freed elsewhere: of thousands of nodes
    /// that takes a while.
    pub(super) fn let_go(&mut self, now: Mono) {
        let stale = self.latest.take_if(|(taken, _)| now.since(*taken) >= VIEW_AGE_MAX);
        if let Some((_, look)) = stale.filter(|(_, look)| Arc::strong_count(look) == 1) {
            tokio::task::spawn_blocking(move || drop(look));
        }
    }

    /// The next question gets a new look.
    pub(super) fn forget(&mut self) {
        self.latest = None;
    }
}

impl Driver {
    pub(super) fn look(&mut self) -> Arc<Look> {
        let begun = self.clock.now();
        self.looks.let_go(begun.mono);
        if let Some((_, look)) = &self.looks.latest {
            return Arc::clone(look);
        }
        let mut still = self.core.read_view(begun.wall, self.broker());
        still.checkpoints = self.keeper.figures().clone();
        still.rule_files = self.rule_files.clone();
        still.confirmations = self.confirmations.figures();
        let ended = self.clock.now().mono;
        let (spent, figures) = (ended.since(begun.mono), &mut self.looks.figures);
        figures.taken += 1;
        figures.spent += spent;
        figures.longest = figures.longest.max(spent);
        let connections = self.server.figures();
        let look = Arc::new(Look { still, looks: *figures, connections });
        self.looks.latest = Some((ended, Arc::clone(&look)));
        look
    }
}
