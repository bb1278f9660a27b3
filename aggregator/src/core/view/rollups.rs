//! Rows of roll-ups: the windows of each group, like those of the fleet.

use std::collections::BTreeMap;

use plimsoll_schemas::summary::{Quantiles, RollupRow};

use super::Total;
use super::rows::quantiles;
use crate::core::buckets::{Buckets, ends};
use crate::core::rollup::{Group, Rollup};
use crate::core::still::Still;
use crate::core::window::Windows;

impl Still {
    pub(super) fn rollup_rows(&self, native: bool) -> Vec<(RollupRow, Total)> {
        let rollups = self.rollups.iter();
        let groups = rollups.flat_map(|rollup| rollup.groups().map(move |group| (rollup, group)));
        groups.map(|(rollup, group)| self.rollup_row(rollup, group, native)).collect()
    }

    fn rollup_row(
        &self,
        rollup: &Rollup,
        (group, windows): (&Group, &Windows),
        native: bool,
    ) -> (RollupRow, Total) {
        let definition = rollup.definition();
        let mut rows = BTreeMap::new();
        windows.each_window(self.at, |window, samples| {
            rows.insert(window, quantiles(samples));
        });
        let (exact, total) = (windows.total_exact(), windows.total());
        let labels = definition.labels().zip(&group.values);
        let row = RollupRow {
            rollup: definition.name.clone(),
            operation: group.operation.to_string(),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_string())).collect(),
            total: Quantiles { count: exact.count, ..quantiles(&total) },
            windows: rows,
        };
        let ends = ends(&group.operation, &self.budgets);
        (row, Total { exact, buckets: Buckets::of(&total, &ends, native) })
    }
}
