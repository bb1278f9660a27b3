//! The runs of one side, as they were read from an aggregator or a file.

use plimsoll_compare::{Named, Side};

/// One run of a side, and how it is shown.
pub(crate) struct LoadedRun {
    pub(crate) name: String,
    pub(crate) side: Side,
}

/// As a comparison takes them.
pub(crate) fn as_named(runs: &[LoadedRun]) -> Vec<Named<'_, Side>> {
    runs.iter().map(|run| Named { name: &run.name, of: &run.side }).collect()
}
