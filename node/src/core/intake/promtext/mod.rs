//! Prometheus text: reads scraped pages as points.
//!
//! Owns the targets with their history and statistics. Reads the text format 0.0.4 and OpenMetrics
//! 1.0. Rows of a histogram are assembled; all count since the start of their process, so their
//! difference is recorded. A malformed line or an inconsistent histogram is rejected alone; the
//! next page has it again. Timestamps are not used, because a page has the values of the time of
//! the scrape; nor are exemplars, because the buckets count their samples. Rejects histograms of
//! unknown unit and gauge histograms.
//!
//! Does no HTTP, and does not decide what a point adds.
//!
//! DESIGN N29, N31.

mod histogram;
mod history;
mod line;
mod metadata;
mod reader;
mod scrape;
mod stats;
mod stream_ids;
mod target;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::time::Now;

use super::lines::Units;
use super::reject::Reject;
use super::series::{LabelRules, LabelStats};
use history::TargetHistory;
use metadata::PageMetadata;
use reader::{PageOutcome, PageReader, PageRules, RejectedRows, Sink};
pub use scrape::{Failure, Format, Page, Scrape, ScrapeFailure};
pub use stats::ScrapeStats;
use stream_ids::StreamIds;
pub use target::Target;

pub(super) struct Pages {
    labels: LabelRules,
    units: Units,
    targets: Vec<TargetState>,
}

struct TargetState {
    target: Target,
    stream_ids: StreamIds,
    history: TargetHistory,
    stats: ScrapeStats,
    /// Reasons that the operator was warned of.
    warned: BTreeSet<Reject>,
}

#[derive(Debug, Default)]
pub(super) struct ScrapeOutcome {
    /// Lines and histograms that made no point, by reason.
    pub(super) rejected: BTreeMap<Reject, u64>,
    pub(super) labels: LabelStats,
    /// Warnings for the operator, once for each reason.
    pub(super) warnings: Vec<String>,
}

impl Pages {
    /// Targets without pages. `seed` is a number that a page does not choose.
    pub(super) fn new(
        now: Now,
        labels: LabelRules,
        units: Units,
        targets: Vec<Target>,
        seed: u64,
    ) -> Self {
        let state = |(index, target): (u64, Target)| TargetState {
            stream_ids: StreamIds::new(seed.wrapping_add(index)),
            history: TargetHistory::new(now),
            stats: ScrapeStats::new(&target.name),
            warned: BTreeSet::new(),
            target,
        };
        Self { labels, units, targets: (0..).zip(targets).map(state).collect() }
    }

    /// Reads the page of a scrape and passes its points to `sink`.
    pub(super) fn on_scrape(
        &mut self,
        now: Now,
        scrape: &Scrape,
        sink: &mut Sink<'_>,
    ) -> ScrapeOutcome {
        let Self { labels, units, targets } = self;
        let Some(target) = targets.get_mut(scrape.target) else {
            return ScrapeOutcome::default();
        };
        target.stats.took = scrape.took;

        let page = match &scrape.page {
            Ok(page) => page,
            // The scraper has logged it.
            Err(failure) => {
                target.stats.on_failure(failure.clone());
                return ScrapeOutcome::default();
            }
        };

        match target.read(now, page, labels, units, sink) {
            Ok(page) => target.on_page(page),
            Err(kind) => target.on_unusable(kind),
        }
    }

    pub(super) fn stats(&self) -> Vec<ScrapeStats> {
        self.targets.iter().map(|target| target.stats.clone()).collect()
    }
}

impl TargetState {
    fn read(
        &mut self,
        now: Now,
        page: &Page,
        labels: &LabelRules,
        units: &Units,
        sink: &mut Sink<'_>,
    ) -> Result<PageOutcome, Failure> {
        let (text, rest) = page.lines()?;
        let lines = text.split(|byte| *byte == b'\n');
        let metadata = PageMetadata::read(lines.clone(), &self.stream_ids);
        let (target, stream_ids) = (&self.target, &self.stream_ids);
        let rules = PageRules { target, labels, units, stream_ids };

        let reader = PageReader::new(now, metadata, rules, &mut self.history);
        let mut outcome = reader.read(lines, sink);
        if !rest.is_empty() {
            outcome.reject_line(Reject::Truncated, "");
        }

        // Of a page that may lack series none is concluded to be new: it would count from zero
        // again (N30).
        let is_whole = page.is_whole || self.history.is_as_long(outcome.cumulative);
        let is_complete = is_whole && rest.is_empty() && !outcome.is_incomplete;
        self.history.on_read(now, is_complete, outcome.cumulative);
        Ok(outcome)
    }

    /// A page that came and cannot be read; the 1st, 2nd, 4th, 8th ... is a warning.
    fn on_unusable(&mut self, kind: Failure) -> ScrapeOutcome {
        let failure = ScrapeFailure::from(kind);
        let warning = format!("scrape of {} failed: {failure}", self.target.name);
        let is_logged = self.stats.on_failure(failure).is_power_of_two();
        let warnings = is_logged.then_some(warning).into_iter().collect();
        ScrapeOutcome { warnings, ..ScrapeOutcome::default() }
    }

    fn on_page(&mut self, page: PageOutcome) -> ScrapeOutcome {
        self.stats.on_page(&page);
        let mut warnings = Vec::new();
        for (reason, RejectedRows { name, .. }) in &page.rejected {
            if self.warned.insert(*reason) {
                warnings.push(self.target.warning(*reason, name));
            }
        }
        let rejected = page.rejected.into_iter().map(|(reason, rows)| (reason, rows.lines));
        ScrapeOutcome { rejected: rejected.collect(), labels: page.labels, warnings }
    }
}

#[cfg(test)]
mod tests;
