//! Files and directories that only the node's user may read. A symbolic link in the place of a file
//! is refused: a user who can put one there would choose which file the node writes.
//!
//! DESIGN N73.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;

/// Makes a directory, and those above it that are missing.
///
/// # Errors
/// When one cannot be made. One that is there keeps its mode.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Opens a file to write; `options` state whether it is created or cut.
///
/// # Errors
/// When it cannot be opened, or is a symbolic link.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_its_users_alone_and_a_link_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("a/b");
        make_dir(&made).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700);
        let (path, other, link) = (made.join("file"), made.join("other"), made.join("link"));
        open_to_write(&path, OpenOptions::new().create(true)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        symlink(&other, &link).unwrap();
        let error = open_to_write(&link, OpenOptions::new().create(true)).unwrap_err();
        assert!(error.to_string().contains("is a symbolic link; remove it"), "{error}");
        assert!(!other.exists());
    }
}
