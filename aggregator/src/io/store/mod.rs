//! The state file: each checkpoint is written in one transaction, and the file is read back whole.
//!
//! A file that cannot be used is quarantined under a new name and never deleted. Of one in which
//! some records cannot be used, a copy is quarantined and the others are used. What a new file
//! would not fix (no permission, another process, another mesh) is a configuration error instead,
//! since the file may be valid. Beside it are the records of alerts and of error budgets.
//!
//! DESIGN A21, A104, A166.

mod beside;

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::limits::STORE_CACHE_BYTES;
use plimsoll_runtime::directory;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::time::Wall;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableError,
};
use thiserror::Error;

use beside::BesideRecord;

use crate::core::alerting::AlertsRecord;
use crate::core::durable::{Changes, Checkpoint, Partial, Readout, Unusable};
use crate::core::fleet::BudgetsRecord;

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
        path: PathBuf,
        source: io::Error,
    },
    /// Another process uses it.
    #[error("{key}: {} is in use by another process", path.display())]
    InUse {
        /// The key of the settings that names it.
        key: &'static str,
        path: PathBuf,
    },
    /// It belongs to another mesh.
    #[error("{key}: {} belongs to mesh {theirs}, not to {ours}; use another file", path.display())]
    OtherMesh {
        /// The key of the settings that names it.
        key: &'static str,
        path: PathBuf,
        /// The mesh in the file.
        theirs: MeshName,
        /// The mesh of this configuration.
        ours: MeshName,
    },
}

/// A file that could not be used, or of which some records could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Why, each as a label and a text: once for a file, otherwise for each record.
    pub faults: Vec<(&'static str, String)>,
    /// Where it is kept as it was.
    pub kept_at: PathBuf,
}

/// An open store and what it contains.
#[derive(Debug)]
pub struct Opened {
    pub store: Store,
    /// The checkpoint in it, if there was one.
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

/// What a write has stored.
#[derive(Debug, Default)]
pub struct StoredBytes {
    /// Bytes of all records.
    pub bytes: u64,
    /// Records beside the state file that were not written, by the label of the failure.
    pub errors: Vec<(&'static str, io::Error)>,
}

enum Fault {
    Inaccessible(io::Error),
    InUse,
    Unusable(Vec<(&'static str, String)>),
}

impl Store {
    /// Opens or creates the store of `mesh` at `path`, and reads and checks all of it.
    ///
    /// # Errors
    /// When a new file would not help; see [`StoreError`].
    pub fn open(path: &Path, mesh: &MeshName, now: Wall) -> Result<Opened, StoreError> {
        let inaccessible = |source| Fault::Inaccessible(source).at(path);
        let (database, checkpoint, quarantined) = match inspect(path) {
            Ok((database, Readout { checkpoint, unusable })) => {
                check_mesh(path, mesh, checkpoint.as_ref())?;
                let faults: Vec<_> = unusable.iter().map(labelled).collect();
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
                let (database, _) = inspect(path).map_err(|fault| fault.at(path))?;
                (database, None, Some(Quarantined { faults, kept_at }))
            }
            Err(fault) => return Err(fault.at(path)),
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
        let (alerts, budgets) = (changes.take_alerts(), changes.take_budgets());
        let database = match self.database.take() {
            Some(database) => database,
            None => create(&self.path)?,
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

fn check_mesh(
    path: &Path,
    ours: &MeshName,
    checkpoint: Option<&Checkpoint>,
) -> Result<(), StoreError> {
    match checkpoint.and_then(Checkpoint::mesh).filter(|theirs| *theirs != ours) {
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

/// Opens the file, or creates one that only its owner may read.
fn create(path: &Path) -> Result<Database, DatabaseError> {
    directory::make_parent(path, directory::PRIVATE)?;
    own(path)?;
    builder().create(path)
}

/// Creates the file for its owner alone. One that was created for anyone to read is so no more.
pub(in crate::io) fn own(path: &Path) -> io::Result<()> {
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let permissions = file.metadata()?.permissions();
    match permissions.mode() & 0o007 {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(permissions.mode() & 0o770)),
    }
}

/// Opens and reads a file, on a thread of its own since redb panics on some damage.
fn inspect(path: &Path) -> Result<(Database, Readout), Fault> {
    let path = path.to_owned();
    let inspector = std::thread::Builder::new().name("inspect-state".to_owned());
    let inspected = inspector.spawn(move || {
        let database = create(&path)?;
        let readout = read(&database)?;
        Ok((database, readout))
    });
    let inspected = inspected.map_err(Fault::Inaccessible)?;
    inspected.join().unwrap_or_else(|_| Err(damaged("its structure is invalid")))
}

fn damaged(why: &str) -> Fault {
    Fault::Unusable(vec![("damaged", why.to_owned())])
}

fn labelled(unusable: &Unusable) -> (&'static str, String) {
    (unusable.reason(), unusable.to_string())
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
    let name = free_name(path, now)?;
    std::fs::rename(path, &name)?;
    Ok(name)
}

/// Copies the file under a free name, so that a crash before the next checkpoint costs nothing.
fn copy_beside(path: &Path, now: Wall) -> io::Result<PathBuf> {
    let name = free_name(path, now)?;
    std::fs::copy(path, &name)?;
    File::open(&name)?.sync_all()?;
    Ok(name)
}

fn free_name(path: &Path, now: Wall) -> io::Result<PathBuf> {
    let seconds = now.0 / 1_000_000_000;
    let free = (0_u32..).map(|n| {
        let ending = if n == 0 { String::new() } else { format!("-{n}") };
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".quarantined-{seconds}{ending}"));
        PathBuf::from(name)
    });
    for name in free.take(1_000) {
        // A link that leads nowhere is there too.
        match name.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(name),
            found => found?,
        };
    }
    Err(io::Error::other("there are 1000 quarantined files beside it already"))
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

/// The state from all records; nothing in a store that was never written.
fn read(database: &Database) -> Result<Readout, Fault> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let records = match transaction.open_table(RECORDS) {
        Err(TableError::TableDoesNotExist(_)) => {
            let mut tables = transaction.list_tables().map_err(redb::Error::from)?;
            let is_new = tables.next().is_none();
            let nothing = Readout { checkpoint: None, unusable: Vec::new() };
            return if is_new { Ok(nothing) } else { Err(damaged("it contains other tables")) };
        }
        records => records.map_err(redb::Error::from)?,
    };
    let mut partial = Partial::default();
    for entry in records.iter().map_err(redb::Error::from)? {
        let (name, record) = entry.map_err(redb::Error::from)?;
        partial.add(name.value(), record.value());
    }
    match partial.finish() {
        Readout { checkpoint: None, unusable } => {
            Err(Fault::Unusable(unusable.iter().map(labelled).collect()))
        }
        readout => Ok(readout),
    }
}

impl Fault {
    /// The error that it is about the file at `path`.
    fn at(self, path: &Path) -> StoreError {
        let (key, path) = (KEY, path.to_owned());
        let source = match self {
            Self::InUse => return StoreError::InUse { key, path },
            Self::Inaccessible(source) => source,
            Self::Unusable(faults) => {
                let texts: Vec<_> = faults.into_iter().map(|(_, text)| text).collect();
                io::Error::other(texts.join(", "))
            }
        };
        StoreError::Inaccessible { key, path, source }
    }
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

#[cfg(test)]
mod tests;
