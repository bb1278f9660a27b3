//! The epochs of a report in order: runs of neighbours as rows, which the table and the plot have.

use plimsoll_schemas::figure::{counted, span};

use super::document::Document;
use super::tables::{Section, Table, figure, table, text};

pub(super) const ID: &str = "epochs";
/// Rows of the table: a page of paper.
const ROWS_MAX: usize = 50;

/// Neighbours in the order of epochs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Neighbours {
    /// The number of the first, from 1.
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) min_ms: f64,
    pub(super) mean_ms: f64,
    pub(super) max_ms: f64,
}

/// All epochs as a bounded number of rows of neighbours, each of the same number but the last.
pub(super) fn neighbours(epochs_ms: &[f64], most: usize) -> Vec<Neighbours> {
    let size = epochs_ms.len().div_ceil(most.max(1)).max(1);
    let rows = epochs_ms.chunks(size).enumerate().map(|(at, of)| Neighbours {
        first: at * size + 1,
        last: at * size + of.len(),
        min_ms: of.iter().copied().fold(f64::INFINITY, f64::min),
        mean_ms: of.iter().sum::<f64>() / of.len() as f64,
        max_ms: of.iter().copied().fold(0.0, f64::max),
    });
    rows.collect()
}

/// The section; `None` without epochs one by one.
pub(super) fn epochs(of: &Document) -> Option<Section> {
    let all = of.epoch_time_ms.as_deref().filter(|all| !all.is_empty())?;
    Some(Section {
        id: ID,
        heading: "Epochs in order",
        paragraphs: vec![words(of, all)],
        tables: vec![rows(all)],
    })
}

fn words(of: &Document, all: &[f64]) -> String {
    let (name, count) = (of.epoch_operation.as_deref().unwrap_or_default(), all.len() as u64);
    let words = |ms: f64| span(ms / 1e3);
    let mean = of.epoch_time_ms_avg.map_or("-".to_owned(), words);
    let at = all.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    let (at, max) = at.map_or((0, 0.0), |(at, max)| (at + 1, *max));
    let (source, max) = (of.epoch_source.as_deref().unwrap_or_default(), words(max));
    let epochs = counted(count, "epoch");
    format!(
        "{epochs} of {name}, {mean} on average; the longest is number {at}, {max}. Times {source}."
    )
}

fn rows(all: &[f64]) -> Table {
    let rows = neighbours(all, ROWS_MAX).into_iter().map(|of| {
        let name = match of.first == of.last {
            true => of.first.to_string(),
            false => format!("{} to {}", of.first, of.last),
        };
        let figures = [of.min_ms, of.mean_ms, of.max_ms];
        let figures = figures.map(|ms| figure(span(ms / 1e3)));
        [text(name)].into_iter().chain(figures).collect()
    });
    table("Epochs by number", &["Number", "Min", "Mean", "Max"], rows.collect(), "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_epochs_are_a_row_each_and_many_are_rows_of_neighbours() {
        let few = neighbours(&[3.0, 1.0], 50);
        let row = |first, last, [min_ms, mean_ms, max_ms]: [f64; 3]| Neighbours {
            first,
            last,
            min_ms,
            mean_ms,
            max_ms,
        };
        assert_eq!(few, [row(1, 1, [3.0; 3]), row(2, 2, [1.0; 3])]);
        let many = neighbours(&[3.0, 1.0, 2.0, 6.0, 5.0], 2);
        assert_eq!(many, [row(1, 3, [1.0, 2.0, 3.0]), row(4, 5, [5.0, 5.5, 6.0])]);
        assert_eq!(neighbours(&[], 2), []);
    }

    proptest! {
        #[test]
        fn every_epoch_is_in_one_row(count in 0_usize..500, most in 0_usize..60) {
            let all: Vec<f64> = (0..count).map(|n| n as f64).collect();
            let rows = neighbours(&all, most);
            prop_assert!(rows.len() <= most.max(1));
            let mut next = 1;
            for row in rows {
                prop_assert_eq!(row.first, next);
                let ends = [row.min_ms + 1.0, row.max_ms + 1.0];
                prop_assert_eq!(ends, [row.first as f64, row.last as f64]);
                next = row.last + 1;
            }
            prop_assert_eq!(next, count + 1);
        }
    }
}
