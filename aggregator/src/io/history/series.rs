//! Numbers of series: a slot's key holds a number instead of a name. A number is never given to
//! another series.

use std::collections::BTreeMap;

use redb::{ReadTransaction, ReadableTable, TableError, WriteTransaction};

use super::tables::SERIES;
use crate::core::fleet::Pool;
use crate::limits::HISTORY_SERIES_MAX;

/// The numbers of all series, from 1 on.
#[derive(Debug, Default)]
pub(super) struct SeriesNames {
    numbers: BTreeMap<String, u32>,
    next: u32,
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
            names.numbers.insert(name.value().to_owned(), number.value());
            names.next = names.next.max(number.value());
        }
        Ok(names)
    }

    /// The number of a pool, a new one if it has none; `None` when there are too many.
    pub(super) fn number(
        &mut self,
        pool: &Pool,
        transaction: &WriteTransaction,
    ) -> Result<Option<u32>, redb::Error> {
        let name = pool.to_string();
        if let Some(number) = self.numbers.get(&name) {
            return Ok(Some(*number));
        }
        if self.numbers.len() >= HISTORY_SERIES_MAX {
            return Ok(None);
        }
        self.next += 1;
        transaction.open_table(SERIES)?.insert(self.next, name.as_str())?;
        self.numbers.insert(name, self.next);
        Ok(Some(self.next))
    }

    /// The highest number given.
    pub(super) fn len(&self) -> u32 {
        self.next
    }

    /// Forgets numbers above this one: they were not written.
    pub(super) fn truncate(&mut self, next: u32) {
        self.numbers.retain(|_, number| *number <= next);
        self.next = next;
    }

    /// All numbers.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.numbers.values().copied()
    }
}
