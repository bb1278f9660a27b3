//! Prometheus text in: what a page of an application says, as points.
//!
//! Reads the text format 0.0.4 and OpenMetrics 1.0. Rows of one histogram are put together; all
//! of them count since their process began, so it is their difference that is recorded. A line
//! that is wrong costs itself alone, a histogram that does not add up itself alone: the next page
//! has it again. Timestamps are not used (a page says what holds when it is asked for), exemplars
//! neither (their samples are counted in the buckets already). Refuses histograms whose unit
//! nobody tells, and those that may fall.

mod figures;
mod histogram;
mod line;
mod outline;
mod reader;
mod scrape;
mod streams;
mod target;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::time::Now;

use super::labels::LabelFigures;
use super::reject::Reject;
use super::rules::Rules;
pub use figures::ScrapeFigures;
use outline::Outline;
use reader::{Reader, Refused, Sink, Told};
pub use scrape::{Failure, Format, Page, Scrape};
use streams::Streams;
use target::Memory;
pub use target::Target;

/// All targets.
#[derive(Default)]
pub(super) struct Pages {
    rules: Rules,
    targets: Vec<Known>,
}

/// A target and what is known of it.
struct Known {
    target: Target,
    streams: Streams,
    memory: Memory,
    figures: ScrapeFigures,
    /// Reasons that were told to the operator.
    warned: BTreeSet<Reject>,
}

/// What is to be counted and said of one scrape.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Lines and histograms that made no point, by reason.
    pub(super) refused: BTreeMap<Reject, u64>,
    /// What became of labels.
    pub(super) labels: LabelFigures,
    /// What the operator should know, once for each reason.
    pub(super) warnings: Vec<String>,
}

impl Pages {
    /// None read yet. `seed` is a number that a page does not choose.
    pub(super) fn new(now: Now, rules: &Rules, seed: u64) -> Self {
        let known = |(place, target): (u64, &Target)| Known {
            target: target.clone(),
            streams: Streams::new(seed.wrapping_add(place)),
            memory: Memory::new(now),
            figures: ScrapeFigures::new(&target.name),
            warned: BTreeSet::new(),
        };
        Self { rules: rules.clone(), targets: (0..).zip(&rules.targets).map(known).collect() }
    }

    /// Reads what a look at a target brought.
    pub(super) fn on_scrape(&mut self, now: Now, scrape: &Scrape, sink: &mut Sink<'_>) -> Heard {
        let Some(known) = self.targets.get_mut(scrape.target) else { return Heard::default() };
        known.figures.took = scrape.took;
        let page = scrape.page.as_ref().map_err(|failure| *failure);
        match page.and_then(|page| known.read(now, page, &self.rules, sink)) {
            Ok(told) => known.hear(told),
            Err(failure) => {
                known.figures.on_failure(failure);
                Heard::default()
            }
        }
    }

    /// Figures of each target.
    pub(super) fn figures(&self) -> Vec<ScrapeFigures> {
        self.targets.iter().map(|known| known.figures.clone()).collect()
    }
}

impl Known {
    fn read(
        &mut self,
        now: Now,
        page: &Page,
        rules: &Rules,
        sink: &mut Sink<'_>,
    ) -> Result<Told, Failure> {
        let (text, rest) = page.lines()?;
        let lines = text.split(|byte| *byte == b'\n');
        let outline = Outline::read(lines.clone(), &self.streams);
        let (target, streams, memory) = (&self.target, &self.streams, &mut self.memory);
        let reader = Reader::new(now, outline, (target, rules), (streams, memory));
        let mut told = reader.read(lines, sink);
        if !rest.is_empty() {
            told.refuse_line(Reject::Truncated, "");
        }
        self.memory.on_read(now, page.is_whole && rest.is_empty() && !told.is_blind);
        Ok(told)
    }

    fn hear(&mut self, told: Told) -> Heard {
        self.figures.on_page(&told);
        let mut warnings = Vec::new();
        for (reason, Refused { name, .. }) in &told.refused {
            if self.warned.insert(*reason) {
                warnings.push(self.target.warning(*reason, name));
            }
        }
        let refused = told.refused.into_iter().map(|(reason, refused)| (reason, refused.lines));
        Heard { refused: refused.collect(), labels: told.labels, warnings }
    }
}

#[cfg(test)]
mod tests;
