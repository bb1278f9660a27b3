//! The state file: each checkpoint is written in one transaction, and the file is read back whole.
//!
//! Of a file in which some records cannot be used, a copy is quarantined and the others are used.
//! Beside it are the records of alerts and of error budgets.
//!
//! DESIGN A21, A104, A166.

mod beside;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::limits::STORE_CACHE_BYTES;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::time::Wall;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use beside::BesideRecord;

use super::database::{Fault, FileFault, StoreError, create, free_name, inspect, quarantine};
use crate::core::alerting::AlertsRecord;
use crate::core::durable::{Changes, Checkpoint, Partial, Readout, Unusable};
use crate::core::fleet::BudgetsRecord;

/// The key of the settings that names the file.
const KEY: &str = "state.path";
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");

/// A file that could not be used, or of which some records could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Why: once for a file, otherwise for each record.
    pub faults: Vec<FileFault>,
    /// Where it is kept as it was.
    pub kept_at: PathBuf,
}

#[derive(Debug)]
pub struct Opened {
    pub store: Store,
    pub checkpoint: Option<Checkpoint>,
    /// What receivers are owed, or why that cannot be read, where the checkpoint lacks it.
    pub alerts: Result<Option<AlertsRecord>, String>,
    /// What is left of error budgets, or why that cannot be read, where the checkpoint may lack
    /// some of it.
    pub budgets: Result<Option<BudgetsRecord>, String>,
    /// A file of which not all could be used.
    pub quarantined: Option<Quarantined>,
}

/// An open store. After a failed write it reopens the file.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    database: Option<Database>,
    /// What could not be written of the alerts record yet.
    alerts: Option<AlertsRecord>,
    /// The same of error budgets.
    budgets: Option<BudgetsRecord>,
}

#[derive(Debug, Default)]
pub struct StoredBytes {
    pub bytes: u64,
    /// Records beside the state file that were not written, by the label of the failure.
    pub errors: Vec<(&'static str, io::Error)>,
}

impl Store {
    /// Opens or creates the store of `mesh` at `path`, and reads and checks all of it.
    ///
    /// # Errors
    /// When a new file would not help; see [`StoreError`].
    pub fn open(path: &Path, mesh: &MeshName, now: Wall) -> Result<Opened, StoreError> {
        let inaccessible = |source| Fault::Inaccessible(source).at(KEY, path);

        let read_all = || {
            let (path, mesh) = (path.to_owned(), mesh.clone());
            inspect("inspect-state", move || {
                let database = create(&builder(), &path)?;
                let readout = read(&database, &mesh)?;
                Ok((database, readout))
            })
        };

        let (database, checkpoint, quarantined) = match read_all() {
            Ok((database, Readout { checkpoint, unusable })) => {
                let faults: Vec<_> = unusable.iter().map(fault).collect();
                if faults.is_empty() {
                    (database, checkpoint, None)
                } else {
                    // The next checkpoint replaces all records.
                    let kept_at = copy_beside(path, now).map_err(inaccessible)?;
                    (database, checkpoint, Some(Quarantined { faults, kept_at }))
                }
            }
            Err(Fault::Unusable(faults)) => {
                let kept_at = quarantine(path, now).map_err(inaccessible)?;
                let (database, _) = read_all().map_err(|fault| fault.at(KEY, path))?;
                (database, None, Some(Quarantined { faults, kept_at }))
            }
            Err(fault) => return Err(fault.at(KEY, path)),
        };

        let alerts = match &checkpoint {
            Some(checkpoint) if checkpoint.has_alerts() => Ok(None),
            _ => beside::read(path, mesh),
        };

        let budgets = match &checkpoint {
            Some(checkpoint) if checkpoint.is_whole() => Ok(None),
            _ => beside::read(path, mesh),
        };

        let store = Self { database: Some(database), ..Self::closed(path) };
        Ok(Opened { store, checkpoint, alerts, budgets, quarantined })
    }

    /// A store that opens its file at the first write.
    pub(crate) fn closed(path: &Path) -> Self {
        Self { path: path.to_owned(), database: None, alerts: None, budgets: None }
    }

    /// Writes `changes` in one transaction, and the records of alerts and of error budgets after
    /// it. Returns the bytes of their records once they are on the disk. It encodes one record at a
    /// time.
    ///
    /// # Errors
    /// When the write may not have happened; the previous state stays. The next write must then
    /// contain everything.
    pub fn write(&mut self, mut changes: Changes) -> Result<StoredBytes, redb::Error> {
        let (alerts, budgets) = (changes.alerts.take(), changes.budgets.take());
        // Taken out, so that after a failure the next write opens the file anew.
        let database = match self.database.take() {
            Some(database) => database,
            None => create(&builder(), &self.path)?,
        };

        let bytes = write(&database, changes)?;
        self.database = Some(database);
        self.alerts = alerts.or(self.alerts.take());
        self.budgets = budgets.or(self.budgets.take());
        let mut stored = StoredBytes { bytes, errors: Vec::new() };
        stored.add("alerts", write_beside(&self.path, &mut self.alerts));
        stored.add("budgets", write_beside(&self.path, &mut self.budgets));
        Ok(stored)
    }
}

impl StoredBytes {
    fn add(&mut self, reason: &'static str, written: io::Result<u64>) {
        match written {
            Ok(more) => self.bytes += more,
            Err(error) => self.errors.push((reason, error)),
        }
    }
}

/// Writes a record beside the state file; one that fails is tried again with the next checkpoint.
fn write_beside<R: BesideRecord>(state: &Path, waiting: &mut Option<R>) -> io::Result<u64> {
    let Some(record) = waiting.as_ref() else { return Ok(0) };
    let bytes = beside::write(state, record)?;
    *waiting = None;
    Ok(bytes)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    // A file from outside is checked before use; the default cache is a gigabyte.
    builder.set_check_integrity_on_open(true).set_cache_size(STORE_CACHE_BYTES);
    builder
}

fn fault(unusable: &Unusable) -> FileFault {
    FileFault { reason: unusable.reason(), text: unusable.to_string() }
}

/// Copies the file under a free name, so that a crash before the next checkpoint costs nothing.
fn copy_beside(path: &Path, now: Wall) -> io::Result<PathBuf> {
    let name = free_name(path, now)?;
    std::fs::copy(path, &name)?;
    File::open(&name)?.sync_all()?;
    Ok(name)
}

fn write(database: &Database, changes: Changes) -> Result<u64, redb::Error> {
    let mut transaction = database.begin_write()?;
    // With it, a restart after kill -9 does not scan the whole file for repair.
    transaction.set_quick_repair(true);
    if changes.everything {
        transaction.delete_table(RECORDS)?;
    }
    let mut written = 0;

    {
        let mut records = transaction.open_table(RECORDS)?;
        let mut buffer = Vec::new();

        for record in changes.into_records() {
            let name = record.part().to_string();
            let Some(bytes) = record.bytes(&mut buffer) else {
                records.remove(name.as_str())?;
                continue;
            };
            records.insert(name.as_str(), bytes)?;
            written += bytes.len() as u64;
        }
    }

    transaction.commit()?;
    Ok(written)
}

/// The state from all records, which must be this mesh's; nothing in a store never written.
fn read(database: &Database, ours: &MeshName) -> Result<Readout, Fault> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let records = match transaction.open_table(RECORDS) {
        Err(TableError::TableDoesNotExist(_)) => {
            let mut tables = transaction.list_tables().map_err(redb::Error::from)?;
            let is_new = tables.next().is_none();
            let nothing = Readout { checkpoint: None, unusable: Vec::new() };

            return if is_new {
                Ok(nothing)
            } else {
                Err(Fault::damaged("it contains other tables"))
            };
        }
        records => records.map_err(redb::Error::from)?,
    };

    let mut partial = Partial::default();
    for entry in records.iter().map_err(redb::Error::from)? {
        let (name, record) = entry.map_err(redb::Error::from)?;
        partial.add(name.value(), record.value());
    }

    let readout = partial.finish();
    let Some(checkpoint) = &readout.checkpoint else {
        return Err(Fault::Unusable(readout.unusable.iter().map(fault).collect()));
    };

    match checkpoint.mesh().filter(|theirs| *theirs != ours) {
        Some(theirs) => Err(Fault::OtherMesh { theirs: theirs.clone(), ours: ours.clone() }),
        None => Ok(readout),
    }
}

#[cfg(test)]
mod tests;
