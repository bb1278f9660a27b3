//! Rows of roll-ups: the windows of each group, like those of the fleet.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::summary::{Freshness, Quantiles, RollupRow};
use plimsoll_schemas::unit::Unit;

use super::freshness::known;
use super::read_view::ReadView;
use super::rows::{Total, quantiles};
use crate::core::fleet::{Buckets, Group, Merged, Rollup, Windows, ends};

pub(super) fn rollup_rows(view: &ReadView, native: bool) -> Vec<(RollupRow, Total)> {
    let rollups = view.rollups.iter();
    let groups = rollups.flat_map(|rollup| rollup.groups().map(move |group| (rollup, group)));
    let (mut merged, mut total) = (Merged::default(), Merged::default());
    groups
        .map(|(rollup, (group, windows))| {
            rollup_row(view, rollup, group, windows, native, &mut merged, &mut total)
        })
        .collect()
}

/// Names of roll-ups that leave out samples without their labels.
pub(super) fn partial(view: &ReadView) -> BTreeSet<String> {
    let definitions = view.rollups.iter().map(|rollup| &rollup.definition);
    let partial = definitions.filter(|definition| !definition.either_by.is_empty());
    partial.map(|definition| definition.name.clone()).collect()
}

fn rollup_row(
    view: &ReadView,
    rollup: &Rollup,
    group: &Group,
    windows: &Windows,
    native: bool,
    merged: &mut Merged,
    total: &mut Merged,
) -> (RollupRow, Total) {
    let definition = &rollup.definition;
    let mut rows = BTreeMap::new();
    windows.each_window(view.at, merged, total, |window, samples| {
        rows.insert(window, quantiles(samples, &mut samples.ranks()));
    });
    let exact = windows.total_exact();
    let labels = definition.labels().zip(&group.values);

    let row = RollupRow {
        rollup: definition.name.clone(),
        operation: group.operation.to_string(),
        unit: Unit::raw_of(group.operation.as_str()),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_string())).collect(),
        freshness: Freshness { as_of_seconds: known(windows.newest()), stale: view.is_silent },
        total: Quantiles { count: exact.count, ..quantiles(total, &mut total.ranks()) },
        windows: rows,
    };

    let ends = ends(&group.operation, &view.rules.budgets);
    let unit = Unit::of(group.operation.as_str());
    (row, Total { exact, buckets: Buckets::of(total, &ends, native, unit), unit })
}
