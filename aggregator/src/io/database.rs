//! The files of the state and of the history: opened, or created for their owner alone, and looked
//! at. A file that cannot be used is quarantined under a new name and never deleted. What a new
//! file would not fix (no permission, another process, another mesh) is a configuration error
//! instead, since the file may be valid.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use plimsoll_runtime::directory;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::time::Wall;
use redb::{Builder, Database, DatabaseError};
use thiserror::Error;

/// Why a file cannot be used, with the key of the settings that names it.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error("{key}: {}: {source}", path.display())]
    Inaccessible { key: &'static str, path: PathBuf, source: io::Error },
    #[error("{key}: {} is in use by another process", path.display())]
    InUse { key: &'static str, path: PathBuf },
    #[error("{key}: {} belongs to mesh {theirs}, not to {ours}; use another file", path.display())]
    OtherMesh { key: &'static str, path: PathBuf, theirs: MeshName, ours: MeshName },
}

/// Why a file cannot be used as it is.
pub(super) enum Fault {
    Inaccessible(io::Error),
    InUse,
    OtherMesh {
        theirs: MeshName,
        ours: MeshName,
    },
    /// Once for a file, otherwise for each record.
    Unusable(Vec<FileFault>),
}

/// What is wrong with a file, or with one of its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// The kind of it, as a label.
    pub reason: &'static str,
    pub text: String,
}

impl Fault {
    pub(super) fn damaged(why: impl Into<String>) -> Self {
        Self::Unusable(vec![FileFault { reason: "damaged", text: why.into() }])
    }

    /// The same of the file at `path`, which this key of the settings names.
    pub(super) fn at(self, key: &'static str, path: &Path) -> StoreError {
        let path = path.to_owned();
        match self {
            Self::Inaccessible(source) => StoreError::Inaccessible { key, path, source },
            Self::InUse => StoreError::InUse { key, path },
            Self::OtherMesh { theirs, ours } => StoreError::OtherMesh { key, path, theirs, ours },
            Self::Unusable(faults) => {
                let source = io::Error::other(texts(&faults));
                StoreError::Inaccessible { key, path, source }
            }
        }
    }
}

impl From<redb::Error> for Fault {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => Self::InUse,
            // How redb reports a file that is not its own, or truncated.
            redb::Error::Io(error)
                if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
            {
                Self::damaged(error.to_string())
            }
            redb::Error::Io(error) => Self::Inaccessible(error),
            error => Self::damaged(error.to_string()),
        }
    }
}

impl From<DatabaseError> for Fault {
    fn from(error: DatabaseError) -> Self {
        redb::Error::from(error).into()
    }
}

pub(super) fn texts(faults: &[FileFault]) -> String {
    faults.iter().map(|fault| fault.text.as_str()).collect::<Vec<_>>().join(", ")
}

/// Opens the file, or creates one that only its owner may read.
pub(super) fn create(builder: &Builder, path: &Path) -> Result<Database, DatabaseError> {
    directory::make_parent(path, directory::PRIVATE)?;
    own(path)?;
    builder.create(path)
}

/// Creates the file for its owner alone. One that was created for anyone to read is so no more.
fn own(path: &Path) -> io::Result<()> {
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let permissions = file.metadata()?.permissions();
    match permissions.mode() & 0o007 {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(permissions.mode() & 0o770)),
    }
}

/// Looks at a file on a thread of its own, since redb panics on some damage.
pub(super) fn inspect<T: Send + 'static>(
    thread_name: &str,
    look: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let inspector = thread::Builder::new().name(thread_name.to_owned());
    let inspected = inspector.spawn(look).map_err(Fault::Inaccessible)?;
    inspected.join().unwrap_or_else(|_| Err(Fault::damaged("its structure is invalid")))
}

/// Renames the file to a free name.
pub(super) fn quarantine(path: &Path, now: Wall) -> io::Result<PathBuf> {
    let name = free_name(path, now)?;
    fs::rename(path, &name)?;
    Ok(name)
}

pub(super) fn free_name(path: &Path, now: Wall) -> io::Result<PathBuf> {
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
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(name),
            found => found?,
        };
    }

    Err(io::Error::other("there are 1000 quarantined files beside it already"))
}
