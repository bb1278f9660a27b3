//! What a report is of: a run, or a range of the fleet; and how a query names it.

use anyhow::Result;
use plimsoll_compare::history::{SecondsRange, operations_of_run};
use plimsoll_schemas::summary::{OperationsPage, RunRow, RunState};

/// How far from its begin and end a run's samples are searched, in seconds; as on its page.
const MARGIN: f64 = 60.0;
/// The shortest slots of a history, in seconds.
pub(super) const SLOT_MIN: f64 = 10.0;
/// The roll-up of the label that `plimsoll run` sets.
const RUN: &str = "run";

/// What a report is of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// A run, by its name.
    Run(String),
    /// The fleet in a range.
    Range(SecondsRange),
}

/// From when until when a run was, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunTimes {
    pub(super) begun: f64,
    /// `None` if no end was reported and nothing has been received of it for long.
    pub(super) ended: Option<f64>,
}

impl RunTimes {
    /// What the list of runs has of one, now.
    pub(super) fn of(run: &RunRow, now: f64) -> Self {
        let running = (run.state == RunState::Running).then_some(now);
        Self { begun: run.begun_seconds, ended: run.ended_seconds.or(running) }
    }

    /// Where samples with its label may be. Clocks differ, and the last interval ends after it.
    pub(super) fn searched(&self, now: f64) -> SecondsRange {
        let end = self.ended.map_or(now, |ended| (ended + MARGIN).min(now));
        let from = self.begun - MARGIN;
        SecondsRange { from, to: end.max(from + SLOT_MIN) }
    }

    /// All of it, and what lies beside it.
    pub(super) fn with(&self, found: Option<SecondsRange>) -> Option<SecondsRange> {
        let from = self.begun;
        let own = self.ended.map(|end| SecondsRange { from, to: end.max(from + SLOT_MIN) });
        let joined = own.zip(found).map(|(own, found)| own.joined(found));
        let begun = found.map(|found| SecondsRange { from: found.from.min(from), ..found });
        joined.or(own).or(begun)
    }
}

impl Wanted {
    /// The parameters of a query that name the run's group.
    pub(super) fn group(&self) -> [(&'static str, Option<String>); 2] {
        match self {
            Self::Run(name) => [("rollup", Some(RUN.to_owned())), ("value", Some(name.clone()))],
            Self::Range(..) => [("rollup", None), ("value", None)],
        }
    }

    /// The operations that it may have samples of.
    ///
    /// # Errors
    /// When the run is unknown; names those that are known.
    pub(super) fn operations(&self, known: &OperationsPage) -> Result<Vec<String>> {
        let Self::Run(name) = self else { return Ok(known.operations.clone()) };
        let found = operations_of_run(known, name)?;
        Ok(found.into_iter().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::summary::HistoryGroup;

    use super::*;

    #[test]
    fn a_runs_range_is_from_its_begin_to_its_end_and_what_has_its_label_beside_them() {
        let range = |from, to| SecondsRange { from, to };
        let ended = RunTimes { begun: 1_000.0, ended: Some(2_000.0) };
        assert_eq!(ended.searched(9_000.0), range(940.0, 2_060.0));
        assert_eq!(ended.searched(2_010.0), range(940.0, 2_010.0));
        assert_eq!(ended.with(Some(range(1_200.0, 1_300.0))), Some(range(1_000.0, 2_000.0)));
        assert_eq!(ended.with(Some(range(990.0, 2_010.0))), Some(range(990.0, 2_010.0)));
        assert_eq!(ended.with(None), Some(range(1_000.0, 2_000.0)));
        let no_end = RunTimes { begun: 1_000.0, ended: None };
        assert_eq!(no_end.searched(9_000.0), range(940.0, 9_000.0));
        assert_eq!(no_end.with(Some(range(1_200.0, 1_300.0))), Some(range(1_000.0, 1_300.0)));
        assert_eq!(no_end.with(None), None);
    }

    #[test]
    fn a_run_that_is_not_there_is_named_with_those_that_are() {
        let group = |value: &str| HistoryGroup {
            rollup: RUN.to_owned(),
            operation: "fetch".to_owned(),
            values: vec![value.to_owned()],
        };
        let known = OperationsPage {
            mesh: "m".to_owned(),
            kept_from_seconds: 0.0,
            tiers: Vec::new(),
            operations: vec!["fetch".to_owned(), "load".to_owned()],
            groups: vec![group("v41"), group("v40")],
        };
        let run = |name: &str| Wanted::Run(name.to_owned()).operations(&known);
        assert_eq!(run("v41").unwrap(), ["fetch"]);
        let all = Wanted::Range(SecondsRange { from: 0.0, to: 1.0 });
        assert_eq!(all.operations(&known).unwrap(), ["fetch", "load"]);
        let error = run("v42").unwrap_err().to_string();
        assert_eq!(error, "run \"v42\" is not in the history; it has v40, v41");
    }
}
