//! Directories that settings name: checked before a start, made at a start.
//!
//! DESIGN S64.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Only the process's user may look into what a process keeps.
pub const PRIVATE: u32 = 0o700;
/// Others may reach the sockets in it, which have modes of their own.
pub const SHARED: u32 = 0o755;

/// Checks that files can be written in `dir`, or in the nearest directory above it that exists, by
/// making one without a name there. Leaves nothing behind. A full disk passes: programs run on one.
///
/// # Errors
/// Names the setting `key`, the directory and the fix.
pub fn check(key: &str, dir: &Path) -> Result<(), String> {
    if let Some((scheme, path)) = dir.to_string_lossy().split_once(":/") {
        let path = path.trim_start_matches('/');
        return Err(format!("{key}: {scheme}: starts a URL; write only the path, as in /{path}"));
    }

    let existing = dir.ancestors().find(|path| path.as_os_str().is_empty() || path.exists());
    let existing = existing.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = existing.display();
    if !existing.is_dir() {
        return Err(format!("{key}: {shown} is not a directory; name one, or a path to create it"));
    }

    match tempfile::tempfile_in(existing) {
        Err(error)
            if !matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
        {
            Err(format!(
                "{key}: no file can be written in {shown} ({error}); name another directory, or \
                 let the process's user write there"
            ))
        }
        _ => Ok(()),
    }
}

/// Checks the directory of a file, as [`check`] does.
///
/// # Errors
/// As [`check`].
pub fn check_parent(key: &str, file: &Path) -> Result<(), String> {
    check(key, file.parent().unwrap_or(Path::new("/")))
}

/// Makes a directory with this mode, and those above it that are missing. One that is there keeps
/// its mode.
///
/// # Errors
/// When one cannot be made.
pub fn make(dir: &Path, mode: u32) -> io::Result<()> {
    if dir.as_os_str().is_empty() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(mode).create(dir)
}

/// Makes the directory of a file, as [`make`] does.
///
/// # Errors
/// As [`make`].
pub fn make_parent(file: &Path, mode: u32) -> io::Result<()> {
    file.parent().map_or(Ok(()), |dir| make(dir, mode))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_url_is_no_path() {
        for url in ["unix:///run/x", "unix:/run/x", "file:///run/x"] {
            let error = check("spool.path", Path::new(url)).unwrap_err();
            assert!(error.ends_with("starts a URL; write only the path, as in /run/x"), "{error}");
        }
    }

    #[test]
    fn a_directory_in_which_no_file_can_be_made_is_an_error_of_its_key() {
        for dir in ["/proc/foo", "/proc/foo/bar", "/proc"] {
            let error = check("spool.path", Path::new(dir)).unwrap_err();
            assert!(error.starts_with("spool.path: no file can be written in /proc ("), "{error}");
        }
        let error = check("state.path", Path::new("/dev/null/x")).unwrap_err();
        assert!(error.starts_with("state.path: /dev/null is not a directory"), "{error}");
    }

    #[test]
    fn a_check_leaves_nothing_behind_and_a_start_makes_what_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a/b/file");
        assert_eq!(check_parent("state.path", &file), Ok(()));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        make_parent(&file, PRIVATE).unwrap();
        assert_eq!(fs::metadata(root.path().join("a/b")).unwrap().mode() & 0o777, PRIVATE);
        fs::write(file, "").unwrap();
    }

    #[test]
    fn a_name_alone_is_of_the_current_directory() {
        assert_eq!(check("spool.path", Path::new("spool")), Ok(()));
        assert_eq!(check_parent("state.path", Path::new("state.redb")), Ok(()));
        make_parent(Path::new("state.redb"), PRIVATE).unwrap();
    }
}
