//! The state file: each checkpoint is written in one transaction, and the file is read back whole.
//!
//! A file that cannot be used is quarantined under a new name and never deleted. What a new file
//! would not fix (no permission, another process, another mesh) is a configuration error instead,
//! since the file may be valid.
//!
//! DESIGN A21.

use std::io;
use std::path::{Path, PathBuf};

use crate::limits::STORE_CACHE_BYTES;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::time::Wall;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableError,
};
use thiserror::Error;

use crate::core::durable::{Changes, Checkpoint, Partial, Unusable};

/// The key of the settings that names the file.
const KEY: &str = "state.path";
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");

/// Why a store cannot be opened.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The file cannot be created, read or written.
    #[error("{key}: {}: {source}", path.display())]
    Inaccessible {
        /// The key of the settings that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process uses it.
    #[error("{key}: {} is in use by another process", path.display())]
    InUse {
        /// The key of the settings that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// It belongs to another mesh.
    #[error("{key}: {} belongs to mesh {theirs}, not to {ours}; use another file", path.display())]
    OtherMesh {
        /// The key of the settings that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The mesh in the file.
        theirs: MeshName,
        /// The mesh of this configuration.
        ours: MeshName,
    },
}

/// A file that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Why, as a label.
    pub reason: &'static str,
    /// The error text.
    pub why: String,
    /// Its new path.
    pub moved_to: PathBuf,
}

/// An open store and what it contains.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: Store,
    /// The checkpoint in it, if there was one.
    pub checkpoint: Option<Checkpoint>,
    /// An unusable file that was moved away.
    pub quarantined: Option<Quarantined>,
}

/// An open store. After a failed write it reopens the file.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    database: Option<Database>,
}

enum Fault {
    Inaccessible(io::Error),
    InUse,
    Unusable { reason: &'static str, why: String },
}

impl Store {
    /// Opens or creates the store of `mesh` at `path`, and reads and checks all of it.
    ///
    /// # Errors
    /// When a new file would not help; see [`StoreError`].
    pub fn open(path: &Path, mesh: &MeshName, now: Wall) -> Result<Opened, StoreError> {
        let (fault, quarantined) = match inspect(path) {
            Ok((database, checkpoint)) => {
                check_mesh(path, mesh, checkpoint.as_ref())?;
                let store = Self { path: path.to_owned(), database: Some(database) };
                return Ok(Opened { store, checkpoint, quarantined: None });
            }
            Err(Fault::Unusable { reason, why }) => match quarantine(path, now) {
                Ok(moved_to) => (None, Some(Quarantined { reason, why, moved_to })),
                Err(source) => (Some(Fault::Inaccessible(source)), None),
            },
            Err(fault) => (Some(fault), None),
        };
        let reopened = match fault {
            Some(fault) => Err(fault),
            None => inspect(path),
        };
        let path = path.to_owned();
        match reopened {
            Ok((database, checkpoint)) => {
                let store = Self { path, database: Some(database) };
                Ok(Opened { store, checkpoint, quarantined })
            }
            Err(Fault::InUse) => Err(StoreError::InUse { key: KEY, path }),
            Err(Fault::Inaccessible(source)) => {
                Err(StoreError::Inaccessible { key: KEY, path, source })
            }
            Err(Fault::Unusable { why, .. }) => {
                let source = io::Error::other(why);
                Err(StoreError::Inaccessible { key: KEY, path, source })
            }
        }
    }

    /// A store that opens its file at the first write.
    #[cfg(test)]
    pub(crate) fn closed(path: &Path) -> Self {
        Self { path: path.to_owned(), database: None }
    }

    /// Writes `changes` in one transaction and returns the bytes of their records once they are on
    /// the disk. It encodes one record at a time.
    ///
    /// # Errors
    /// When the write may not have happened; the previous state stays. The next write must then
    /// contain everything.
    pub fn write(&mut self, changes: Changes) -> Result<u64, redb::Error> {
        let database = match self.database.take() {
            Some(database) => database,
            None => builder().create(&self.path)?,
        };
        let bytes = write(&database, changes)?;
        self.database = Some(database);
        Ok(bytes)
    }
}

fn check_mesh(
    path: &Path,
    ours: &MeshName,
    checkpoint: Option<&Checkpoint>,
) -> Result<(), StoreError> {
    match checkpoint.map(Checkpoint::mesh).filter(|theirs| *theirs != ours) {
        None => Ok(()),
        Some(theirs) => Err(StoreError::OtherMesh {
            key: KEY,
            path: path.to_owned(),
            theirs: theirs.clone(),
            ours: ours.clone(),
        }),
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    // A file from outside is checked before use; the default cache is a gigabyte.
    builder.set_check_integrity_on_open(true).set_cache_size(STORE_CACHE_BYTES);
    builder
}

/// Opens and reads a file, on a thread of its own since redb panics on some damage.
fn inspect(path: &Path) -> Result<(Database, Option<Checkpoint>), Fault> {
    let path = path.to_owned();
    let inspector = std::thread::Builder::new().name("inspect-state".to_owned());
    let inspected = inspector.spawn(move || {
        let database = builder().create(path)?;
        let checkpoint = read(&database)?;
        Ok((database, checkpoint))
    });
    let inspected = inspected.map_err(Fault::Inaccessible)?;
    inspected.join().unwrap_or_else(|_| Err(damaged("its structure is invalid")))
}

fn damaged(why: &str) -> Fault {
    Fault::Unusable { reason: "damaged", why: why.to_owned() }
}

/// Renames a file of a store to a free name.
///
/// # Errors
/// When it cannot be renamed.
pub(in crate::io) fn quarantine_beside(
    key: &'static str,
    path: &Path,
    now: Wall,
) -> Result<PathBuf, StoreError> {
    quarantine(path, now).map_err(|source| StoreError::Inaccessible {
        key,
        path: path.to_owned(),
        source,
    })
}

/// Renames the file to a free name.
fn quarantine(path: &Path, now: Wall) -> io::Result<PathBuf> {
    let seconds = now.0 / 1_000_000_000;
    let free = (0_u32..).map(|n| {
        let ending = if n == 0 { String::new() } else { format!("-{n}") };
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".quarantined-{seconds}{ending}"));
        PathBuf::from(name)
    });
    for name in free.take(1_000) {
        if !name.try_exists()? {
            std::fs::rename(path, &name)?;
            return Ok(name);
        }
    }
    Err(io::Error::other("there are already a thousand quarantined files beside it"))
}

fn write(database: &Database, changes: Changes) -> Result<u64, redb::Error> {
    let mut transaction = database.begin_write()?;
    // With it, a restart after kill -9 does not scan the whole file for repair.
    transaction.set_quick_repair(true);
    if changes.everything() {
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

/// The state from all records; `None` in a store that was never written.
fn read(database: &Database) -> Result<Option<Checkpoint>, Fault> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let records = match transaction.open_table(RECORDS) {
        Err(TableError::TableDoesNotExist(_)) => {
            let mut tables = transaction.list_tables().map_err(redb::Error::from)?;
            let is_new = tables.next().is_none();
            return if is_new { Ok(None) } else { Err(damaged("it contains other tables")) };
        }
        records => records.map_err(redb::Error::from)?,
    };
    let mut partial = Partial::default();
    for entry in records.iter().map_err(redb::Error::from)? {
        let (name, record) = entry.map_err(redb::Error::from)?;
        partial.add(name.value(), record.value())?;
    }
    Ok(Some(partial.whole()?))
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // How redb reports a file that is not its own, or truncated.
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                damaged(&error.to_string())
            }
            _ => Self::Inaccessible(error),
        }
    }
}

impl From<DatabaseError> for Fault {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => Self::InUse,
            error => redb::Error::from(error).into(),
        }
    }
}

impl From<redb::Error> for Fault {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(error) => error.into(),
            error => damaged(&error.to_string()),
        }
    }
}

impl From<Unusable> for Fault {
    fn from(unusable: Unusable) -> Self {
        let reason = match unusable {
            Unusable::Newer(_) => "newer_version",
            Unusable::Older(_) => "older_version",
            Unusable::Damaged { .. } => "damaged",
        };
        Self::Unusable { reason, why: unusable.to_string() }
    }
}

#[cfg(test)]
mod tests;
