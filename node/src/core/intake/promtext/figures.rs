//! Figures of one target, for the node's own metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reader::Told;
use super::scrape::Failure;

/// What became of the looks at one target so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrapeFigures {
    /// The target's address.
    pub target: String,
    /// Whether the latest look brought a page.
    pub is_up: bool,
    /// How long the latest look took.
    pub took: Duration,
    /// Series taken of the latest page.
    pub series: u64,
    /// Pages read.
    pub pages: u64,
    /// Series taken of all pages.
    pub taken: u64,
    /// Lines and series refused; why stands among the refusals of the whole node.
    pub refused: u64,
    /// Rows that the target's list of names leaves out.
    pub left_out: u64,
    /// Looks that brought nothing, by reason.
    pub failures: BTreeMap<Failure, u64>,
}

impl ScrapeFigures {
    pub(super) fn new(target: &str) -> Self {
        Self { target: target.to_owned(), ..Self::default() }
    }

    pub(super) fn on_page(&mut self, told: &Told) {
        self.is_up = true;
        self.pages += 1;
        self.series = told.taken;
        self.taken += told.taken;
        self.refused += told.refused.values().map(|of| of.lines + of.points).sum::<u64>();
        self.left_out += told.left_out;
    }

    pub(super) fn on_failure(&mut self, failure: Failure) {
        self.is_up = false;
        self.series = 0;
        *self.failures.entry(failure).or_default() += 1;
    }
}
