//! Numbers of series: a slot's key holds a number instead of a name. A number is never given to
//! another series.

use std::collections::{BTreeMap, BTreeSet};

use redb::{ReadTransaction, ReadableTable, TableError, WriteTransaction};

use super::tables::SERIES;
use crate::core::fleet::Pool;
use crate::limits::HISTORY_SERIES_MAX;

/// The numbers of all series that have slots, from 1 on.
#[derive(Debug, Default)]
pub(super) struct SeriesNames {
    numbers: BTreeMap<String, u32>,
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
        }
        Ok(names)
    }

    /// The number of a pool, a new one if it has none; `None` when there are too many.
    pub(super) fn number(
        &mut self,
        pool: &Pool,
        next: &mut u32,
        transaction: &WriteTransaction,
    ) -> Result<Option<u32>, redb::Error> {
        let name = pool.to_string();
        if let Some(number) = self.numbers.get(&name) {
            return Ok(Some(*number));
        }
        if self.numbers.len() >= HISTORY_SERIES_MAX {
            return Ok(None);
        }
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
        Ok(())
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.numbers.values().copied()
    }
}
