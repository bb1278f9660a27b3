//! Files that only the node's user may read. A symbolic link in the place of a file
//! is refused: a user who can put one there would choose which file the node writes.
//!
//! DESIGN N73.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;

/// Opens a file to write; `options` state whether it is created or cut.
pub(super) fn open_to_write(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let options = options.write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path).map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => {
            let text = format!("{} is a symbolic link; remove it", path.display());
            io::Error::new(error.kind(), text)
        }
        _ => error,
    })
}

/// A file that is locked for this process; `ResourceBusy` when another one has it.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    let file = open_to_write(path, OpenOptions::new().create(true).truncate(false))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let text = format!("{} is used by another process", path.display());
            Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_its_users_alone_and_a_link_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other, link] = ["file", "other", "link"].map(|name| dir.path().join(name));
        open_to_write(&path, OpenOptions::new().create(true)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        symlink(&other, &link).unwrap();
        let error = open_to_write(&link, OpenOptions::new().create(true)).unwrap_err();
        assert!(error.to_string().contains("is a symbolic link; remove it"), "{error}");
        assert!(!other.exists());
    }
}
