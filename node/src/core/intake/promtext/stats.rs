//! Statistics of one scrape target, for the node's own metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reader::PageOutcome;
use super::scrape::{Failure, ScrapeFailure};

/// Scrapes of one target so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrapeStats {
    pub target: String,
    /// Whether the latest scrape returned a page.
    pub is_up: bool,
    pub took: Duration,
    /// Series recorded from the latest page.
    pub series: u64,
    pub pages: u64,
    /// Series recorded from all pages.
    pub recorded: u64,
    /// Lines and series rejected; their reasons are counted with those of the whole node.
    pub rejected: u64,
    /// Rows that the target's list of names excludes.
    pub excluded: u64,
    /// Scrapes without a page, by reason.
    pub failures: BTreeMap<Failure, u64>,
    /// Why the latest scrape brought no page; `None` if it did.
    pub failure: Option<ScrapeFailure>,
}

impl ScrapeStats {
    pub(super) fn new(target: &str) -> Self {
        Self { target: target.to_owned(), ..Self::default() }
    }

    pub(super) fn on_page(&mut self, page: &PageOutcome) {
        self.is_up = true;
        self.failure = None;
        self.pages += 1;
        self.series = page.recorded;
        self.recorded += page.recorded;
        self.rejected += page.rejected.values().map(|of| of.lines + of.points).sum::<u64>();
        self.excluded += page.excluded;
    }

    /// Returns how often scrapes have failed in this way so far.
    pub(super) fn on_failure(&mut self, failure: ScrapeFailure) -> u64 {
        self.is_up = false;
        self.series = 0;
        let count = self.failures.entry(failure.kind).or_default();
        *count += 1;
        let count = *count;
        self.failure = Some(failure);
        count
    }
}
