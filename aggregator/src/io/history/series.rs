//! Numbers of series: a slot's key holds a number instead of a name. A number is never given to
//! another series.

use std::collections::{BTreeMap, BTreeSet};

use redb::{ReadTransaction, ReadableTable, TableError, WriteTransaction};

use super::tables::SERIES;
use crate::core::history::HistoryKey;
use crate::limits::{HISTORY_METRIC_SERIES_MAX, HISTORY_SERIES_MAX};

/// The numbers of all series that have slots, from 1 on.
#[derive(Debug, Default)]
pub(super) struct SeriesNames {
    numbers: BTreeMap<String, u32>,
    /// Of these, metrics.
    metrics: usize,
}

impl SeriesNames {
    pub(super) fn read(transaction: &ReadTransaction) -> Result<Self, redb::Error> {
        let table = match transaction.open_table(SERIES) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(Self::default()),
            table => table?,
        };
        let mut names = Self::default();
        for entry in table.iter()? {
            let (number, name) = entry?;
            names.metrics += usize::from(is_metric(name.value()));
            names.numbers.insert(name.value().to_owned(), number.value());
        }
        Ok(names)
    }

    /// The number of a key, a new one if it has none; `None` when there are too many.
    pub(super) fn number(
        &mut self,
        key: &HistoryKey,
        next: &mut u32,
        transaction: &WriteTransaction,
    ) -> Result<Option<u32>, redb::Error> {
        let name = key.to_string();
        if let Some(number) = self.numbers.get(&name) {
            return Ok(Some(*number));
        }
        let is_metric = matches!(key, HistoryKey::Metric(_));
        // So that metrics, which jobs name as they like, leave room for latencies.
        let is_full = is_metric && self.metrics >= HISTORY_METRIC_SERIES_MAX;
        if is_full || self.numbers.len() >= HISTORY_SERIES_MAX {
            return Ok(None);
        }
        self.metrics += usize::from(is_metric);
        *next += 1;
        transaction.open_table(SERIES)?.insert(*next, name.as_str())?;
        self.numbers.insert(name, *next);
        Ok(Some(*next))
    }

    /// Removes series that have no slot any more.
    pub(super) fn remove(
        &mut self,
        gone: &BTreeSet<u32>,
        transaction: &WriteTransaction,
    ) -> Result<(), redb::Error> {
        let mut table = transaction.open_table(SERIES)?;
        for number in gone {
            table.remove(number)?;
        }
        self.numbers.retain(|_, number| !gone.contains(number));
        self.metrics = self.numbers.keys().filter(|name| is_metric(name)).count();
        Ok(())
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.numbers.values().copied()
    }
}

fn is_metric(name: &str) -> bool {
    matches!(HistoryKey::named(name), Some(HistoryKey::Metric(_)))
}
