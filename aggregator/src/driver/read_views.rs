//! Read views of the whole state for pages. One view serves all requests until it is stale, after
//! `VIEW_AGE_MAX`. It is dropped then, since state that changes while a view exists is copied
//! first.

use std::sync::Arc;

use crate::limits::exposition::VIEW_AGE_MAX;
use plimsoll_schemas::time::Mono;

use crate::exposition::ReadViewStats;
use crate::io::http::PageSource;

/// The latest read view, and what all of them have cost.
#[derive(Default)]
pub(super) struct ReadViews {
    latest: Option<(Mono, Arc<PageSource>)>,
    stats: ReadViewStats,
}

impl ReadViews {
    pub(super) fn latest(&mut self, now: Mono) -> Option<Arc<PageSource>> {
        self.drop_stale(now);
        self.latest.as_ref().map(|(_, view)| Arc::clone(view))
    }

    /// Stores a view whose making began and ended at these times; `source` gets the statistics.
    pub(super) fn store(
        &mut self,
        began: Mono,
        ended: Mono,
        source: impl FnOnce(ReadViewStats) -> PageSource,
    ) -> Arc<PageSource> {
        let took = ended.since(began);
        self.stats.count += 1;
        self.stats.total += took;
        self.stats.longest = self.stats.longest.max(took);
        let view = Arc::new(source(self.stats));
        self.latest = Some((ended, Arc::clone(&view)));
        view
    }

    /// When the latest view becomes stale.
    pub(super) fn deadline(&self) -> Option<Mono> {
        self.latest.as_ref().map(|(made, _)| made.plus(VIEW_AGE_MAX))
    }

    /// Drops a stale view. What only the view still holds is freed on another thread: with
    /// thousands of nodes that takes a while.
    pub(super) fn drop_stale(&mut self, now: Mono) {
        let stale = self.latest.take_if(|(made, _)| now.since(*made) >= VIEW_AGE_MAX);
        // A view that a request still holds is freed by that one.
        if let Some((_, view)) = stale.filter(|(_, view)| Arc::strong_count(view) == 1) {
            tokio::task::spawn_blocking(move || drop(view));
        }
    }

    /// Makes the next request get a new view, after a change that its client expects to see.
    pub(super) fn invalidate(&mut self) {
        self.latest = None;
    }
}
