//! What a report is of: a run, or a range of the fleet; and how a query names it.

use anyhow::{Context, Result, bail};
use plimsoll_schemas::summary::{HistoryPage, OperationsPage};

/// The roll-up of the label that `plimsoll run` sets.
const RUN: &str = "run";

/// What a report is of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// A run, by its name.
    Run(String),
    /// The fleet from when until when, in seconds since 1970.
    Range(f64, f64),
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
        let runs = || known.groups.iter().filter(|group| group.rollup == RUN);
        let of_run = runs().filter(|group| group.values == [name.as_str()]);
        let found: Vec<String> = of_run.map(|group| group.operation.clone()).collect();
        if found.is_empty() {
            let mut names: Vec<&str> =
                runs().filter_map(|group| group.values.first()).map(String::as_str).collect();
            names.sort_unstable();
            names.dedup();
            bail!("run {name:?} is not in the history; it has {}", names.join(", "));
        }
        Ok(found)
    }
}

/// From when until when a page has samples.
///
/// # Errors
/// When it has none.
pub(super) fn extent(page: &HistoryPage) -> Result<(f64, f64)> {
    let mut used = page.points.iter().filter(|point| point.count > 0);
    let name = &page.operation;
    let first = used.next().with_context(|| format!("{name}: the run has no samples"))?;
    let last = used.next_back().unwrap_or(first);
    Ok((first.from_seconds, last.to_seconds))
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::summary::HistoryGroup;

    use super::*;

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
        assert_eq!(Wanted::Range(0.0, 1.0).operations(&known).unwrap(), ["fetch", "load"]);
        let error = run("v42").unwrap_err().to_string();
        assert_eq!(error, "run \"v42\" is not in the history; it has v40, v41");
    }
}
