//! The spool's file: read once when a node starts, then appended to and replaced.
//!
//! An unusable file is quarantined under a new name and never deleted. But after a failed write the
//! file is removed: otherwise the next start would send again what was already sent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::limits::SPOOL_BYTES_MAX;
use plimsoll_runtime::directory;
use plimsoll_schemas::time::{Now, Wall};

use super::error::{Quarantined, SpoolError, WriteFailure};
use crate::core::Identity;
use crate::core::spool::{Batch, RecoveredMessages, UnusableFile, recover};
use crate::io::private_file::{lock, open_to_write};

/// Names the machine's present boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A file and what was in it.
pub(super) struct Opened {
    pub(super) file: SpoolFile,
    pub(super) recovered: Option<RecoveredMessages>,
    pub(super) quarantined: Option<Quarantined>,
}

/// The file of one node, locked against other processes.
#[derive(Debug)]
pub(super) struct SpoolFile {
    dir: PathBuf,
    pub(super) path: PathBuf,
    /// Where a new file is written before it takes the place of the old one.
    new_path: PathBuf,
    /// Open for appending once this process has begun the file.
    file: Option<File>,
    sync: bool,
    /// The machine's present boot, when nothing is synced.
    boot: Option<String>,
    /// Locked as long as it is open.
    _lock: File,
}

impl SpoolFile {
    pub(super) fn open(
        dir: &Path,
        identity: &Identity,
        sync: bool,
        now: Now,
    ) -> Result<Opened, SpoolError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| SpoolError::Inaccessible { path, source }
        };

        directory::make(dir, directory::PRIVATE).map_err(at(dir))?;
        let path = dir.join(format!("{}.spool", identity.node));
        let new_path = dir.join(format!("{}.spool.new", identity.node));
        let lock_path = dir.join(format!("{}.lock", identity.node));

        let lock = lock(&lock_path).map_err(|source| match source.kind() {
            ErrorKind::ResourceBusy => SpoolError::InUse { path: lock_path },
            _ => SpoolError::Inaccessible { path: lock_path, source },
        })?;

        // Left by a process that ended before it replaced the old file.
        remove(&new_path).map_err(at(&new_path))?;
        let boot = fs::read_to_string(BOOT_ID).ok().map(|text| text.trim().to_owned());

        let (recovered, quarantined) = match load(&path).map_err(at(&path))? {
            Content::Nothing => (None, None),
            Content::TooLarge => {
                let why = format!("it has more than {SPOOL_BYTES_MAX} bytes");
                (None, Some(quarantine(&path, now.wall, "too_large", why).map_err(at(&path))?))
            }
            Content::Bytes(bytes) => match recover(&bytes, identity, boot.as_deref(), now.mono) {
                Ok(recovered) => {
                    let damaged = recovered.damaged.clone();
                    let kept = damaged.map(|why| keep_copy(&path, now.wall, why)).transpose();
                    (Some(recovered), kept.map_err(at(&path))?)
                }
                Err(UnusableFile::Other { mesh, node }) => {
                    return Err(SpoolError::Other { path, mesh, node });
                }
                Err(unusable) => {
                    let aside = quarantine(&path, now.wall, unusable.label(), unusable.to_string());
                    (None, Some(aside.map_err(at(&path))?))
                }
            },
        };

        // An unreadable id becomes empty: then the next start treats the file as uncertain.
        let boot = (!sync).then(|| boot.unwrap_or_default());
        let dir = dir.to_owned();
        let file = Self { dir, path, new_path, file: None, sync, boot, _lock: lock };
        Ok(Opened { file, recovered, quarantined })
    }

    /// The machine's present boot, when nothing is synced.
    pub(super) fn boot(&self) -> Option<&str> {
        self.boot.as_deref()
    }

    /// Writes a batch; it is where it must be when this returns. After a failure there is no
    /// file until a batch replaces it.
    pub(super) fn write(&mut self, batch: &Batch) -> Result<(), WriteFailure> {
        let outcome = if batch.replaces { self.replace(&batch.bytes) } else { self.append(batch) };
        let Err(error) = outcome else { return Ok(()) };
        let reason = WriteFailure::reason_of(&error);
        let mut text = error.to_string();
        let discarded = self.discard();
        let remains = discarded.is_err();
        if let Err(error) = discarded {
            text = format!("{text}; and the file before could not be removed: {error}");
        }
        Err(WriteFailure { reason, text, remains })
    }

    fn append(&mut self, batch: &Batch) -> io::Result<()> {
        let none = || io::Error::other("there is no file to append to");
        let file = self.file.as_mut().ok_or_else(none)?;
        file.write_all(&batch.bytes)?;
        if !batch.sync {
            return Ok(());
        }
        // Writes to an unlinked file succeed, and all of it is gone with this process.
        if file.metadata()?.nlink() == 0 {
            return Err(io::Error::other("the file was removed by another process"));
        }
        if self.sync { file.sync_data() } else { Ok(()) }
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        directory::make(&self.dir, directory::PRIVATE)?;
        let mut file =
            open_to_write(&self.new_path, OpenOptions::new().create(true).truncate(true))?;
        file.write_all(bytes)?;
        if self.sync {
            file.sync_all()?;
        }
        // Synced before it takes the place of the former file, and its name after: a power cut
        // leaves one of the two whole.
        fs::rename(&self.new_path, &self.path)?;
        self.sync_dir()?;
        self.file = Some(file);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn append_to(&mut self, file: File) {
        self.file = Some(file);
    }

    /// Sees to it that no file is there, or that it is empty.
    fn discard(&mut self) -> io::Result<()> {
        self.file = None;
        let new_is_gone = remove(&self.new_path);
        if remove(&self.path).is_err() {
            open_to_write(&self.path, OpenOptions::new().truncate(true))?.sync_all()?;
        }
        new_is_gone.and_then(|()| self.sync_dir())
    }

    fn sync_dir(&self) -> io::Result<()> {
        if self.sync { File::open(&self.dir)?.sync_all() } else { Ok(()) }
    }
}

impl Drop for SpoolFile {
    /// After a panic in the middle of a write the file would no longer be updated.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _discarded = self.discard();
        }
    }
}

enum Content {
    Nothing,
    TooLarge,
    Bytes(Vec<u8>),
}

fn load(path: &Path) -> io::Result<Content> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Content::Nothing),
        metadata => metadata?,
    };

    // Opening a pipe would wait for its other end.
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }

    if metadata.len() > SPOOL_BYTES_MAX as u64 {
        return Ok(Content::TooLarge);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(SPOOL_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(if bytes.len() > SPOOL_BYTES_MAX { Content::TooLarge } else { Content::Bytes(bytes) })
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn quarantine(
    path: &Path,
    now: Wall,
    reason: &'static str,
    why: String,
) -> io::Result<Quarantined> {
    let now_at = free_name(path, now)?;
    fs::rename(path, &now_at)?;
    Ok(Quarantined { reason, why, now_at })
}

/// Links the damaged file under a second name. The first stays until a batch replaces it: if this
/// process ends before, the next one still recovers what is readable.
fn keep_copy(path: &Path, now: Wall, why: String) -> io::Result<Quarantined> {
    let now_at = free_name(path, now)?;
    if fs::hard_link(path, &now_at).is_err() {
        fs::copy(path, &now_at)?;
    }
    Ok(Quarantined { reason: "damaged", why, now_at })
}

/// A name that nothing else has.
fn free_name(path: &Path, now: Wall) -> io::Result<PathBuf> {
    let seconds = now.0 / 1_000_000_000;
    for n in 0..1_000_u32 {
        let ending = if n == 0 { String::new() } else { format!("-{n}") };
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".quarantined-{seconds}{ending}"));
        let name = PathBuf::from(name);
        if name.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(name);
        }
    }
    Err(io::Error::other("there are 1000 quarantined files already; remove some"))
}
